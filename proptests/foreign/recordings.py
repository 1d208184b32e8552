#!/usr/bin/env python3
"""The recordings of fixtures/foreign: makes the case that a kernel has answered again and judges the answer.

    recordings.py ID...     prints what `assay check` says of each; exit code 1 if one does not pass
"""
import argparse
import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "fixtures" / "foreign"


def recordings():
    """The entries of the index, one for each recording."""
    return json.loads((FOLDER / "index.json").read_text())["recordings"]


def answer_of(recording):
    """The file that holds what the kernel answered."""
    return FOLDER / (recording["id"] + ".safetensors")


def read_header(data):
    """The header of a safetensors file, and where its tensors begin."""
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), 8 + size


def tensors_of(path):
    """Names of a file's tensors."""
    header, _ = read_header(path.read_bytes())
    return sorted(name for name in header if name != "__metadata__")


def without(path, names):
    """Takes tensors out of a case: cotangents that the kernel does not take."""
    data = path.read_bytes()
    header, start = read_header(data)
    digests = json.loads(header["__metadata__"]["sha256"])
    body = b""
    for name in names:
        del header[name], digests[name]
    for name, tensor in header.items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            tensor["data_offsets"] = [len(body), len(body) + end - begin]
            body += data[start + begin : start + end]
    header["__metadata__"]["sha256"] = json.dumps(digests, separators=(",", ":"))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def make_case(tool, recording, path):
    """The case that was answered, bit for bit. Ends the program if `assay case` makes another one by now."""
    subprocess.run([tool, "case", *recording["case"].split(), "-o", str(path)], check=True)
    header, _ = read_header(path.read_bytes())
    if hashlib.sha256(header["__metadata__"]["sha256"].encode()).hexdigest() != recording["inputs"]:
        sys.exit(f"{recording['id']}: `assay case` makes another case than the kernel answered")
    if recording.get("without"):
        without(path, recording["without"])


def check(tool, recording, flags, **options):
    """Runs `assay check` on the tensors that were answered, by the contract that the index names, or without one."""
    with tempfile.TemporaryDirectory() as folder:
        case = pathlib.Path(folder, "case.safetensors")
        make_case(tool, recording, case)
        command = [tool, "check", str(case), str(answer_of(recording)), *flags]
        command += ["--tensor", ",".join(tensors_of(answer_of(recording)))]
        for key, flag in (("judged_as", "--precision"), ("contract", "--contract")):
            if key in recording:
                command += [flag, recording[key]]
        return subprocess.run(command, **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=str(ROOT / "build" / "assay"))
    parser.add_argument("ids", nargs="+", metavar="ID")
    options = parser.parse_args()
    known = {recording["id"]: recording for recording in recordings()}
    for name in options.ids:
        if name not in known:
            sys.exit(f"{name}: no recording of fixtures/foreign/index.json")
    return max(check(options.tool, known[name], []).returncode for name in options.ids)


if __name__ == "__main__":
    sys.exit(main())
