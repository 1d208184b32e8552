#!/usr/bin/env python3
"""Makes assay's wheel from the libraries of a finished build, and installs it where there is nothing else.

    make_wheel.py --build BUILD --out DIR [--clean VENV --packages WHEELS]

The wheel in DIR has its libraries (FLINT, GMP, MPFR, fmt) with it. VENV is made anew, with the wheel and what
python/tests/package/requirements.txt names out of the folder WHEELS: without network.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "python" / "tests" / "package" / "requirements.txt"
# The libraries of a system that runs any program in C++.
SYSTEM = {"linux-vdso.so", "libc.so", "libm.so", "libgcc_s.so", "libstdc++.so", "ld-linux-x86-64.so", "ld-linux-aarch64.so", "libdl.so", "libpthread.so"}


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        sys.exit(f"make_wheel.py: {' '.join(map(str, command))}: exit code {done.returncode}:\n{done.stdout}")
    return done.stdout


def make(build, out):
    """The wheel, whole; its path."""
    with tempfile.TemporaryDirectory() as folder:
        settings = [f"--config-settings=cmake.define.ASSAY_BUILD={build.resolve()}"]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        run(*pip, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", folder, *settings, ROOT)
        (made,) = pathlib.Path(folder).glob("assay-*.whl")
        out.mkdir(parents=True, exist_ok=True)
        same = f"assay-*-{made.name.split('-', 2)[2].rpartition('-')[0]}-*.whl"  # of this Python's interface
        for old in out.glob(same):
            old.unlink()
        tools = str(pathlib.Path(sys.executable).parent)
        run(sys.executable, "-m", "auditwheel", "repair", "--strip", "--wheel-dir", out, made, env={"PATH": f"{tools}:/usr/bin:/bin"})
    (wheel,) = out.glob(same)
    require_honest_tag(wheel)
    return wheel


def require_honest_tag(wheel):
    """A wheel for all versions from one on has a module of the stable interface, and no other wheel has."""
    (module,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("assay/_native") and name.endswith(".so"))
    if ("-abi3-" in wheel.name) != (".abi3." in module):
        sys.exit(f"make_wheel.py: {wheel.name} has {module}: the tag lies")
    if ".abi3." in module:
        run(sys.executable, "-m", "abi3audit", "--strict", wheel)


def install(wheel, venv, packages):
    """A new environment with the wheel; its Python."""
    shutil.rmtree(venv, ignore_errors=True)
    run(sys.executable, "-m", "venv", venv)
    python = venv / "bin" / "python"
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--no-index", "--find-links", packages, wheel, "-r", REQUIREMENTS)
    return python


def strangers(python):
    """Libraries of the system that the module needs and a system need not have."""
    where = "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('assay').origin).parent)"
    package = pathlib.Path(run(python, "-c", where).strip())
    (module,) = package.glob("_native*.so")
    lines = run("ldd", module).splitlines()
    named = [(line.split()[0].rpartition("/")[2], line) for line in lines if line.strip()]
    inside = str(package.parent)
    return [line.strip() for name, line in named if inside not in line and name.split(".so")[0] + ".so" not in SYSTEM]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--clean", type=pathlib.Path)
    parser.add_argument("--packages", type=pathlib.Path)
    options = parser.parse_args()
    wheel = make(options.build, options.out)
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.0f} MB")
    if options.clean:
        found = strangers(install(wheel, options.clean, options.packages))
        if found:
            sys.exit("make_wheel.py: the wheel needs libraries that it does not have: " + "; ".join(found))


if __name__ == "__main__":
    main()
