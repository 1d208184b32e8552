#!/usr/bin/env python3
"""Whether two builds answer alike, to the bit: for changes that only move code.

    same_answers.py record DIR [--tool build/assay]      what this build prints, a file for each command
    same_answers.py compare DIR [--tool build/assay]     this build against that; exit 1 and a line for each difference

Every verb that computes, on small shapes: about three minutes of one core. --only TEXT takes the commands whose names
hold it.
"""
import argparse
import difflib
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPE = "1,17,2,8,8"
# Cases of every room are answered in every kind of number; `report` computes with words of doubles.
TIERS = ["double", "mp50", "ball", "w3"]
MUTANTS = ["deltanet", "gla", "softmax_attention"]
# Answers of kernels by other authors, healthy ones and others.
FOREIGN = [
    "fla-attn_decoding_one_step-bf16-T1of128-H4to2-K64-mended",
    "fla-attn_decoding_one_step-bf16-T1of128-H4to2-K64-scores_in_narrow_type",
    "fla-chunk_delta_rule-bf16-T65-H2-K32",
    "fla-chunk_gated_delta_rule-bf16-T100-H2-K64-mask_one_short",
]


def rooms():
    lines = (ROOT / "mechanisms.def").read_text().splitlines()
    names = [line.partition("(")[2].rstrip(")") for line in lines if line.startswith(("MECHANISM(", "REFERENCE("))]
    return [name for name in names if name != "name"]


def commands():
    """Pairs of a name and the words after the program's, in an order in which what one writes the next may read."""
    yield "list", ["list"]
    for seed in ["0", "1"]:
        yield f"report-seed{seed}", ["report", "--shape", SHAPE, "--seed", seed, "--format", "json"]
    for format in ["table", "markdown", "html", "csv", "junit", "sarif", "github"]:
        few = ["--mechanism", "deltanet", "--precision", "bf16", "--precision", "e5m2", "--shape", SHAPE]
        yield f"report-{format}", ["report", *few, "--why", "--format", format]
    yield "identities", ["identities", "--format", "json"]
    yield "fixtures", ["fixtures", "verify"]
    for room in rooms():
        yield f"case-{room}", ["case", room, "--shape", SHAPE, "--precision", "fp32", "-o", f"{room}.safetensors"]
        yield f"oracle-{room}", ["oracle", f"{room}.safetensors", "-o", f"{room}.out"]
        for tier in TIERS:
            yield f"oracle-{room}-{tier}", ["oracle", f"{room}.safetensors", "--tier", tier, "-o", f"{room}.{tier}"]
        yield f"check-{room}", ["check", f"{room}.safetensors", f"{room}.double", "--format", "json", "--no-cache"]
    why = ["--why", "--why-limit", "100000", "--no-cache"]
    for defect in sorted(path.name for path in (ROOT / "fixtures/defects").iterdir()):
        case = f"fixtures/defects/{defect}/case.safetensors"
        for answer in ["defective", "healthy"]:
            files = [case, f"fixtures/defects/{defect}/{answer}.safetensors"]
            yield f"check-{defect}-{answer}", ["check", *files, *why, "--format", "json"]
        yield f"check-{defect}-table", ["check", *files[:1], files[1].replace("healthy", "defective"), *why]
        yield f"check-{defect}-contract", ["check", *files, "--contract", "bf16", "--no-cache", "--format", "json"]
    for name in FOREIGN:
        path = f"fixtures/foreign/{name}.safetensors"
        yield f"check-{name}", ["check", path, path, "--no-cache", "--format", "json"]
    yield "contract", ["contract", "fixtures/defects/deltanet_bf16_state/case.safetensors",
                       "fixtures/defects/deltanet_bf16_state/defective.safetensors", "--format", "json"]
    for room in MUTANTS:
        yield f"mutants-{room}", ["mutants", "--mechanism", room, "--trials", "2", "--healthy", "4", "--format", "json"]
    few = ["--mechanism", "deltanet", "--mechanism", "lla", "--precision", "bf16", "--style", "normal"]
    yield "calibrate", ["calibrate", *few, "--shape", SHAPE, "--format", "json"]
    yield "calibrate-model", ["calibrate", "--model", "--style", "normal", "--precision", "bf16", "--shape", SHAPE]
    for room in ["gated_deltanet", "mdn"]:
        few = ["--tokens", "512", "--predict-from", "256", "--segment", "64", "--dim", "4", "--draws", "2"]
        yield f"drift-{room}", ["drift", room, *few, "--format", "json"]


# Verbs of the program beside the tool.
LAB = ("calibrate", "identities", "mutants", "paper")


def run(tool, words, folder):
    """Everything that the command says and writes."""
    program = tool.with_name(f"{tool.name}-lab") if words[0] in LAB else tool
    done = subprocess.run([program, *words], cwd=folder, capture_output=True)
    said = done.stdout + done.stderr + f"\nexit code {done.returncode}\n".encode()
    if "-o" in words:
        written = folder / words[words.index("-o") + 1]
        said += written.read_bytes() if written.exists() else b"nothing was written\n"
    return said


def difference(before, after):
    """The first line that differs."""
    old, new = (text.decode(errors="replace").splitlines() for text in (before, after))
    for line in difflib.unified_diff(old, new, lineterm="", n=0):
        if line[:1] in "+-" and line[:3] not in ("+++", "---"):
            return line[:200]
    return "bytes that are no text"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["record", "compare"])
    parser.add_argument("record", type=pathlib.Path, help="the folder")
    parser.add_argument("--tool", type=pathlib.Path, default=ROOT / "build/assay")
    parser.add_argument("--only", default="", help="the commands whose names hold this")
    options = parser.parse_args()
    tool = options.tool.resolve()
    if options.do == "record":
        options.record.mkdir(parents=True, exist_ok=True)
    compared = different = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "fixtures").symlink_to(ROOT / "fixtures")
        for name, words in commands():
            # A case is read by others.
            if options.only not in name and not name.startswith("case-"):
                continue
            said, file = run(tool, words, folder), options.record / name
            if options.do == "record":
                file.write_bytes(said)
            elif not file.exists():
                different += 1
                print(f"{name}: not recorded")
            elif file.read_bytes() != said:
                different += 1
                print(f"{name}: assay {' '.join(words)}: {difference(file.read_bytes(), said)}")
            compared += 1
    if options.do == "record":
        print(f"same_answers: {compared} recorded.")
        return 0
    print(f"same_answers: {compared} compared, {different} different.")
    return 1 if different or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
