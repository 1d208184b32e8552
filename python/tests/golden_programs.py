"""Writes programs.json: of every mechanism of the library that is no room one case and its answer in 40 proven digits.

    ASSAY=build/assay python golden_programs.py
"""
import decimal
import json
import os
import pathlib
import subprocess
import tempfile

import support
from fields import PRECISE, decimals
from test_core import posed

FILE = pathlib.Path(__file__).with_name("programs.json")


def of_the_library():
    """Those that have no golden file of a room."""
    lines = (support.ROOT / "mechanisms.def").read_text().splitlines()
    rooms = {line.partition("(")[2].rstrip(")") for line in lines if line.startswith(("MECHANISM(", "REFERENCE("))}
    return [name for name in support.library() if name not in rooms]


def main():
    with decimal.localcontext(PRECISE), tempfile.TemporaryDirectory() as folder:
        cases = [posed(name, (), decimals())[0] for name in of_the_library()]
        asked, answered = pathlib.Path(folder, "cases.json"), pathlib.Path(folder, "answers.json")
        asked.write_text(json.dumps({"format": "assay-cases", "version": 1, "cases": cases}))
        subprocess.run([os.environ["ASSAY"], "oracle", str(asked), "-o", str(answered)], check=True)
        found = json.loads(answered.read_text())["cases"]
    for case, answer in zip(cases, found):
        assert answer["status"] == "OK", answer
        case["mechanism"] = case["id"]
        case["expect"] = {"status": "OK", "outputs": answer["outputs"], "gradients": answer["gradients"]}
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    FILE.write_text('{"format":"assay-cases","version":1,"cases":[\n' + lines + "\n]}\n")
    print(f"{len(cases)} cases in {FILE.name}")


if __name__ == "__main__":
    main()
