"""The working tree once more, in a folder of its own, to be built there."""
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def copied(folder, change=lambda name, content: content):
    """Copies what git knows of to `folder`, but for its build/, and returns the names; `change` may change contents.

    Only what differs is written, so that only that is compiled again; a build in folder/build has the relative paths that
    one of the working tree has, and so a compiler cache knows what is the same.
    """
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    names = {name for name in listed if name and (ROOT / name).is_file()}
    for old in (p for p in folder.rglob("*") if p.is_file() and p.relative_to(folder).parts[0] != "build"):
        if str(old.relative_to(folder)) not in names:
            old.unlink()
    for name in names:
        path, content = folder / name, change(name, (ROOT / name).read_bytes())
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
        shutil.copymode(ROOT / name, path)
    return names
