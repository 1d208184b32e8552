"""The command line in this process: in one of its own most of its time is that of imports."""
import contextlib
import io
import sys
import types

from assay.__main__ import main


def shell(*words):
    """The result of `assay WORDS` as subprocess.run gives it, for the verbs in Python."""
    path, out, err = list(sys.path), io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(word) for word in words])
    finally:
        sys.path[:] = path
    return types.SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())
