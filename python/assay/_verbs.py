"""Verbs of the command line whose results are pages: what `--format json` prints, as Python's objects."""
import json
import pathlib
import tempfile

from ._cases import errors_in_python, load, said, word_of
from ._progress import shown


def flags_of(flags):
    words = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, dict):  # params={"window": 16}
            words += [w for key, x in value.items() for w in (flag.removesuffix("s"), f"{key}={word_of(x)}")]
        elif isinstance(value, bool):
            words += [flag] if value else []
        elif value is not None:
            words += [w for x in (value if isinstance(value, (list, tuple)) else [value]) for w in (flag, word_of(x))]
    return words


def report(mechanism=None, *, progress=None, **flags):
    """The page of `assay report`: our own kernels, judged. Flags are the command's, with _ for -: precision="bf16", seed=3."""
    with errors_in_python(), shown(progress) as hears:
        return json.loads(said("report", *flags_of({"mechanism": mechanism, **flags}), "--format", "json", progress=hears))


def suite(mechanism, *, arrays=None, device=None, **flags):
    """The cases of `assay suite`, eight that together show most, for assay.run or assay.check. Flags are the command's:
    precision="fp32", head_dim=32, no_cotangents=True. arrays and device are what they are to assay.case."""
    with errors_in_python(), tempfile.TemporaryDirectory(prefix="assay-suite-") as folder:
        said("suite", mechanism, *flags_of(flags), "--write-cases", folder)
        cases = [load(path, arrays=arrays, device=device) for path in sorted(pathlib.Path(folder).iterdir())]
    given = "".join(f", {name}={value!r}" for name, value in flags.items())
    for i, case in enumerate(cases):
        case.origin = f"assay.suite({mechanism!r}{given})[{i}]"
    return cases


def drift(mechanism, *, progress=None, **flags):
    """The page of `assay drift`: a recurrence's error along a long sequence. Flags are the command's: tokens=100000, dim=32."""
    with errors_in_python(), shown(progress) as hears:
        return json.loads(said("drift", mechanism, *flags_of(flags), "--format", "json", progress=hears))
