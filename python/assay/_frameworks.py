"""The frameworks whose arrays a kernel is written for. Needs nothing of assay: the process of an audited candidate asks it, too."""
import inspect
import sys
import types

FRAMEWORKS = ("torch", "numpy", "jax")


def frameworks_for(kernel):
    """The frameworks whose arrays to try, the likeliest first: those that its code names, itself or in functions that it calls, then
    torch's if anyone has imported that, then NumPy's."""
    named, seen, left = set(), set(), [kernel]
    while left and len(seen) < 100:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        home = one.__name__ if isinstance(one, types.ModuleType) else getattr(one, "__module__", None) or type(one).__module__
        root = str(home).split(".")[0]
        if root in (*FRAMEWORKS, "triton", "ml_dtypes"):
            named.add({"triton": "torch", "ml_dtypes": "numpy"}.get(root, root))
        elif root not in sys.stdlib_module_names:
            left += parts_of(one)
    likely = [name for name in ("torch", "jax", "numpy") if name in named]
    usual = ["torch", "numpy"] if "torch" in sys.modules else ["numpy"]
    return [*likely, *(name for name in usual if name not in likely)]


def parts_of(one):
    """The parts of a callable: the function that it wraps, its class, the globals and the cells that its code names."""
    parts = [getattr(one, name) for name in ("func", "__func__", "__wrapped__") if hasattr(one, name)]
    if not inspect.isroutine(one) and not isinstance(one, types.ModuleType):
        kind = one if isinstance(one, type) else type(one)
        parts += [getattr(kind, name) for name in ("__call__", "forward") if inspect.isroutine(getattr(kind, name, None))]
        parts += [base for base in kind.__mro__[1:-1] if base.__module__.split(".")[0] in FRAMEWORKS]
    code = getattr(one, "__code__", None)
    if code is not None:
        names = {name for inner in (code, *(x for x in code.co_consts if isinstance(x, types.CodeType))) for name in inner.co_names}
        parts += [one.__globals__[name] for name in names if name in one.__globals__]
        parts += [cell.cell_contents for cell in one.__closure__ or () if cell != types.CellType()]
    return [part for part in parts if callable(part) or isinstance(part, types.ModuleType)]
