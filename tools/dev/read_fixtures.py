#!/usr/bin/env python3
"""Reads golden files, cases and answers with the packages that users have (safetensors, ml_dtypes) and compares with a
reading of the raw bytes: names, shapes, dtypes, every byte; the SHA-256 of every tensor against the manifest; NaN nowhere
but in padding, which files with arguments have.

    read_fixtures.py [FILE...]       all of fixtures/ if none is named
    read_fixtures.py --tool ASSAY    a case of every dtype that ASSAY writes, and the answer that it gives
    read_fixtures.py --self-test     damages a copy in several ways and demands that each is found
"""
import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy
import safetensors

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = {
    "F64": numpy.float64,
    "F32": numpy.float32,
    "F16": numpy.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "I32": numpy.int32,
    "BOOL": numpy.bool_,
}


def raw(data):
    """{name: (dtype, shape, bytes)} and the metadata, from the format's definition alone."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__")
    body = data[8 + length :]
    tensors = {
        name: (t["dtype"], t["shape"], body[t["data_offsets"][0] : t["data_offsets"][1]]) for name, t in header.items()
    }
    return tensors, metadata


def findings(path):
    data = path.read_bytes()
    mine, metadata = raw(data)
    theirs = {name: (t["dtype"], t["shape"], bytes(t["data"])) for name, t in safetensors.deserialize(data)}
    digests = json.loads(metadata["sha256"])
    if mine.keys() != theirs.keys():
        yield f"names differ: {sorted(mine.keys() ^ theirs.keys())[:3]}"
    if digests.keys() != mine.keys():
        yield f"the manifest names others: {sorted(digests.keys() ^ mine.keys())[:3]}"
    if "cases" in metadata:
        if {name.partition("/")[0] for name in mine} != {case["name"] for case in json.loads(metadata["cases"])}:
            yield "the manifest lists other cases"
    for name in sorted(mine.keys() & theirs.keys()):
        if mine[name] != theirs[name]:
            yield f"{name}: dtype, shape or bytes differ"
            continue
        dtype, shape, content = mine[name]
        values = numpy.frombuffer(content, DTYPES[dtype]).reshape(shape).astype(numpy.float64)
        if hashlib.sha256(values.astype("<f8").tobytes()).hexdigest() != digests.get(name):
            yield f"{name}: SHA-256 is not the manifest's"
        if numpy.isnan(values).any() and path.parent.name != "arguments":
            yield f"{name}: NaN"
        if name.endswith(".lo"):
            hi = numpy.frombuffer(mine[name[:-3]][2], numpy.float64).reshape(shape)
            # hi is the nearest double; lo, rounded itself, may reach half a unit of it.
            said = numpy.isfinite(hi)  # neither padding nor the lse of a row that sees nothing
            if not (numpy.abs(values[said]) <= numpy.spacing(numpy.abs(hi[said])) / 2).all():
                yield f"{name}: hi is not the nearest double"


def check(paths):
    ok = True
    for path in paths:
        try:
            found = list(findings(path))
        except Exception as error:  # a damaged file fails in as many ways as there are parsers
            found = [f"cannot be read: {error}"]
        for finding in found:
            print(f"{path.name}: {finding}")
        ok = ok and not found
    return ok


def check_tool(assay):
    """Does as a kernel's author does: makes a case, has it answered, reads both."""
    ok = True
    precisions = {"fp64": "F64", "fp32": "F32", "bf16": "BF16", "fp16": "F16", "e4m3": "F8_E4M3", "e5m2": "F8_E5M2"}
    with tempfile.TemporaryDirectory() as folder:
        case, answer = pathlib.Path(folder, "case.safetensors"), pathlib.Path(folder, "answer.safetensors")
        for precision, dtype in precisions.items():
            asked = ["gated_deltanet", "--shape", "2,5,4/2,3", "--precision", precision]
            subprocess.run([assay, "case", *asked, "-o", case], check=True)
            subprocess.run([assay, "oracle", case, "-o", answer], check=True)
            ok = check([case, answer]) and ok
            (inputs, posed), (outputs, given) = raw(case.read_bytes()), raw(answer.read_bytes())
            expected = {f"d_{name}{part}" for name in ("q", "k", "v") for part in ("", ".lo", ".bound")}
            if inputs["q"][0] != dtype or outputs["o"][:2] != ("F64", [2, 5, 4, 3]) or not expected <= outputs.keys():
                print(f"{precision}: not the tensors asked for")
                ok = False
            if given["status"] != "OK" or json.loads(given["inputs_sha256"]) != json.loads(posed["sha256"]):
                print(f"{precision}: not the answer to this case")
                ok = False
    return ok


def self_test():
    source = sorted((ROOT / "fixtures").glob("*.safetensors"))[0].read_bytes()
    (length,) = struct.unpack("<Q", source[:8])
    damages = {
        "last byte": source[:-1] + bytes([source[-1] ^ 1]),
        "truncated": source[:-8],
        "header length": struct.pack("<Q", length + 8) + source[8:],
        "a name": source.replace(b"length_1/k", b"length_1/K", 1),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "damaged.safetensors")
        for what, data in damages.items():
            path.write_bytes(data)
            if check([path]):
                sys.exit(f"read_fixtures: {what} was not found")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif sys.argv[1:2] == ["--tool"]:
        sys.exit(0 if check_tool(sys.argv[2]) else 1)
    else:
        files = [pathlib.Path(name) for name in sys.argv[1:]] or [
            # Answers of other people's kernels are as these wrote them.
            path for path in sorted((ROOT / "fixtures").rglob("*.safetensors")) if path.parent.name != "foreign"]
        if not files:
            sys.exit("read_fixtures: there is no golden file")
        sys.exit(0 if check(files) else 1)
