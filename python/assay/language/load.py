"""Mechanisms from a user's Python file."""
import importlib.util
import os
import sys

from .errors import MechanismError
from .mechanism import Mechanism, place_of


def load(path):
    """The mechanisms that a file defines, by name, in its order. What it imports may lie beside it, as for a script, or in the folder above."""
    if not os.path.isfile(path):
        raise MechanismError(f"{path}: there is no such file")
    folder = os.path.dirname(os.path.abspath(path))
    above = os.path.dirname(folder)
    spec = importlib.util.spec_from_file_location("assay_user_" + os.path.splitext(os.path.basename(path))[0], path)
    if spec is None:
        raise MechanismError(f"{path}: expected a file of Python, NAME.py")
    module = importlib.util.module_from_spec(spec)
    known = set(sys.modules)
    sys.path.insert(0, folder)
    sys.path.append(above)  # behind what is installed, which it must not hide
    try:
        spec.loader.exec_module(module)
    except MechanismError as error:
        raise MechanismError(f"{path}: {error}{place_of(error)}") from None
    except SyntaxError as error:
        raise MechanismError(f"{path}:{error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise MechanismError(f"{path}: {type(error).__name__}: {error}{place_of(error)}") from None
    finally:
        sys.path.remove(folder)
        sys.path.reverse()
        sys.path.remove(above)  # the last one
        sys.path.reverse()
        for name in set(sys.modules) - known:  # another file's folder may have modules of the same names
            if os.path.dirname(os.path.abspath(getattr(sys.modules[name], "__file__", None) or "")) in (folder, above):
                del sys.modules[name]
    here = lambda m: os.path.abspath(m.function.__code__.co_filename) == os.path.abspath(path)
    found = {m.name: m for m in vars(module).values() if isinstance(m, Mechanism) and here(m)}
    if not found:
        raise MechanismError(f"{path}: defines no mechanism: a function under @mechanism(...)")
    return found
