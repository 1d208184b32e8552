"""assay, a numerical judge for attention kernels.

    import assay
    case = assay.case("gated_deltanet", shape=(2, 100, "8/4", 128), dtype="bf16", device="cuda")
    assay.check(case, my_kernel)

docs/python.md has the rest; assay.language is the language that mechanisms are written in.
"""
import importlib

_HOMES = {
    "_cases": ("Case", "case", "load", "mechanisms"),
    "_checks": ("Mismatch", "assert_close", "check", "judge"),
    "_reports": ("Report",),
    "_truth": ("Expectation", "Truth", "expect", "oracle"),
    "_captures": ("capture",),
    "_choices": ("Choice", "check_choice"),
    "audits": ("Audit", "audit"),
    "_invariance": ("Invariance", "invariance"),
    "_pairs": ("Pair", "pair"),
    "_runs": ("merge", "run"),
    "_verbs": ("drift", "report", "suite"),
    "_native": ("InputError", "__version__"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(name for name in _HOME if not name.startswith("_")) + ["adapters", "executors", "kernels", "language"]


def __getattr__(name):
    """Imports a name when it is asked for: `import assay` takes no time, and assay.language needs no compiled module."""
    if name in _HOME:
        value = getattr(importlib.import_module("." + _HOME[name], __name__), name)
    elif name in ("adapters", "executors", "kernels", "language"):
        value = importlib.import_module("." + name, __name__)
    else:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted(set(globals()) | set(_HOME) | set(__all__))
