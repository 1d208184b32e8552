"""The command line that traces: python -m assay.language export FILE | export-all FOLDER. `assay mechanism` does the rest."""
import argparse
import os
import sys

from .canonical import write
from .errors import MechanismError
from .load import load


def setting(text):
    """NAME=VALUE as a pair: integers and truth values are themselves, "none" is None, anything else is a text."""
    name, equal, value = text.partition("=")
    if not equal:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, not {text}")
    written = {"true": True, "false": False, "none": None}
    return name, int(value) if value.lstrip("-").isdecimal() and value.isascii() else written.get(value, value)


def export(options):
    """Writes the canonical JSON of one program, to a file or to the output."""
    found = load(options.file)
    if options.mechanism and options.mechanism not in found:
        raise MechanismError(f"{options.file}: there is no mechanism {options.mechanism}; there is {', '.join(found)}")
    chosen = [m for m in found.values() if options.mechanism in (None, m.name)]
    if len(chosen) != 1:
        raise MechanismError(f"{options.file}: has {len(chosen)} mechanisms; say which with --mechanism")
    text = write(chosen[0].trace(**dict(options.set))) + "\n"
    if options.output:
        write_file(options.output, text)
    else:
        sys.stdout.write(text)


def write_file(path, text):
    try:
        with open(path, "w", encoding="utf-8", newline="\n") as f:
            f.write(text)
    except OSError as error:
        raise MechanismError(f"{path}: {error.strerror}") from None


SHARED = {"common.py", "chunks.py"}  # what files of mechanisms, and of forms, import


def mechanisms(folder):
    """The mechanisms of a folder's files, and the names of the files."""
    for file in sorted(os.listdir(folder)):
        if file.endswith(".py") and file not in SHARED:
            yield from ((m, file) for m in load(os.path.join(folder, file)).values())


def library(folder):
    """File name and text of every program of a folder's mechanisms: NAME.json, and NAME-SETTING-VALUE.json for other choices."""
    for m, _ in mechanisms(folder):
        for settings in m.variants():
            suffix = "".join(f"-{k}-{str(v).replace(' ', '') or 'one'}" for k, v in settings.items())
            yield f"{m.name}{suffix}.json", write(m.trace(**settings)) + "\n"


def export_all(options):
    """Writes FOLDER/json, a file for each program, and the same in FOLDER/forms and FOLDER/stages, if there are any, and removes what
    is there and belongs to none."""
    for folder in (options.folder, *(os.path.join(options.folder, part) for part in ("forms", "stages"))):
        if folder != options.folder and not os.path.isdir(folder):
            continue
        target = os.path.join(folder, "json")
        os.makedirs(target, exist_ok=True)
        wanted = dict(library(folder))
        for file in os.listdir(target):
            if file not in wanted:
                os.remove(os.path.join(target, file))
        for file, text in wanted.items():
            write_file(os.path.join(target, file), text)
        print(f"{len(wanted)} programs in {target}")


def parser():
    p = argparse.ArgumentParser(
        prog="python -m assay.language", description="Writes mechanisms in Python as programs; `assay mechanism` checks and compares them."
    )
    verbs = p.add_subparsers(dest="verb", required=True)
    v = verbs.add_parser("export", help="write a mechanism's canonical JSON")
    v.add_argument("file", help="FILE.py with mechanisms")
    v.add_argument("--mechanism", help="the one to take, where a file has several")
    v.add_argument("--set", metavar="NAME=VALUE", type=setting, action="append", default=[], help="a setting")
    v.add_argument("-o", "--output", help="the file to write")
    v.set_defaults(run=export)
    v = verbs.add_parser("export-all", help="write the programs of all mechanisms of a folder")
    v.add_argument("folder")
    v.set_defaults(run=export_all)
    return p


def main(arguments=None):
    """The exit code: 2 where something is refused, in one sentence."""
    options = parser().parse_args(arguments)
    try:
        options.run(options)
    except MechanismError as error:
        print(f"assay: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
    return 0
