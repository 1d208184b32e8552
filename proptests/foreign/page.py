#!/usr/bin/env python3
"""Writes records/published-kernels.md: what `assay check` says of every recording of fixtures/foreign.

    page.py [--tool ASSAY]
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import recordings

PAGE = recordings.ROOT / "records" / "published-kernels.md"
DEFECTS = pathlib.Path(__file__).with_name("defects.json")
ORDER = ["FAIL", "ERROR", "UNDECIDED", "VACUOUS", "UNSUPPORTED", "PASS", "UNSEEN"]
PASSES = ["PASS", "UNSEEN"]

HEAD = """<!-- written by `proptests/foreign/page.py` -->

# Published kernels

Kernels that nobody here wrote, on the problems of `assay case`, and what `assay check` says of their answers. {healthy} are believed to be healthy, and {passed} of them PASS;
{broken} have a defect of their own or one planted in them, and {caught} of them do not PASS. Those that do lose digits that the model grants to other algorithms, and their line says how many. The answers are in `fixtures/foreign`; a test judges them ([foreign.cpp](../proptests/tools/foreign.cpp)).

    proptests/foreign/recordings.py ID            makes the case of one again and judges it
    proptests/foreign/page.py                     writes this page

- **Model, contract**: the worst tensor's error in units of what the [model](../docs/judge-derivation.md#model) and the contract of the precision allow. The model decides; what it leaves open passes where a contract explains it.
- **Inferred**: the contract that `assay contract infer` reads off the answer: that of the precision, that one with coarser sites, or none. It knows nothing of the kernel.
- **tf32** beside fp32: judged with `--precision tf32`, since the kernel multiplies so by default; another name there: judged by the contract of that name.
- Shapes are B, T (or queries/keys), heads (or value/shared heads), K, V; data of style `normal` unless another one is named.
- The model's factor was chosen knowing kernels like these, so that their PASS is no independent evidence; `make foreign` judges runs that nobody has seen.
- One recording is one run on one device with one of the kernel's own autotuning configurations. PASS says that this answer is right, not that the kernel always is.
"""

CAUSES = """
## Known defects

Found here in what others have published, with what was measured: relative error (Frobenius) against the textbook formula in fp64.

{rows}

Drafts for the authors, not sent: [h times dh](../docs/reports/h-times-dh.md), [decoding](../docs/reports/attn-decoding.md), [momentum](../docs/reports/momentum-chunk.md), [naive Comba](../docs/reports/comba-naive.md), [Parallax](../docs/reports/parallax-vbar.md), [Mesa at K = 32](../docs/reports/mesa-32.md).
"""


def verdicts(tool, recording):
    """Rows of `assay check --format json`."""
    ran = recordings.check(tool, recording, ["--format", "json", "--threads", "1"], capture_output=True, text=True)
    if ran.returncode not in (0, 1):
        sys.exit(f"{recording['id']}: {ran.stderr.strip()}")
    return json.loads(ran.stdout)["rows"]


def inferred(tool, recording):
    """The words of `assay contract infer` on the answer, in short."""
    with tempfile.TemporaryDirectory() as at:
        case = pathlib.Path(at, "case.safetensors")
        recordings.make_case(tool, recording, case)
        command = [tool, "contract", "infer", str(case), str(recordings.answer_of(recording)), "--threads", "1", "-o", f"{at}/to.json"]
        command += ["--tensor", ",".join(recordings.tensors_of(recordings.answer_of(recording)))]
        ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode not in (0, 1):
        sys.exit(f"{recording['id']}: {ran.stderr.strip()}")
    said = (ran.stdout + ran.stderr).strip().splitlines()[0]
    found = re.match(r"the answers keep the contract ([\w]+)|the answers are those of the contract ([^:]+):", said)
    return next((group for group in found.groups() if group), "none") if found else "none"


def worst(rows, column):
    """The largest excess of the rows."""
    found = [row[column] for row in rows if row.get(column) not in (None, "")]
    return f"{max(found):.2g}" if found else ""


def origin(recording):
    """The publisher and the version."""
    name, versions = recording["source"], recording["versions"]
    text = f"{name} {versions[name]}" if name in versions else name
    return text + (f", Triton {versions['triton']}" if "triton" in versions else "")


def line(recording, rows, contract):
    """The cells of the recording's line."""
    verdict = min((row["verdict"] for row in rows), key=ORDER.index)
    bad = [row["tensor"] for row in rows if row["verdict"] not in PASSES]
    kernel = f"`{recording['kernel']}`" + (", mended" if "changed" in recording else "")
    judged = "tf32" if "judged_as" in recording else recording.get("contract")
    precision = recording["precision"] + (f" ({judged})" if judged else "")
    problem = recording["shape"] + ("" if recording["style"] == "normal" else ", " + recording["style"])
    shown = verdict + (f" ({', '.join(bad)})" if bad else "")
    cause = recording.get("bug", "").replace("_", " ") + (" (planted)" if recording.get("planted") else "")
    cause = "; ".join(part for part in (cause, recording.get("changed", ""), recording.get("open", "")) if part)
    cells = [kernel, origin(recording), recording["device"], precision, problem, shown]
    cells += [worst(rows, "model_excess"), worst(rows, "contract_excess"), contract, cause, f"`{recording['id']}`"]
    return cells


def rows_of(head, rows):
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows])


def causes():
    """The section of the defects in defects.json."""
    defects = json.loads(DEFECTS.read_text())
    return CAUSES.format(rows=rows_of(list(defects[0]), [defect.values() for defect in defects]))


def table(title, judged):
    """A section with a line for each recording."""
    head = ["kernel", "version", "device", "precision", "shape", "verdict", "model", "contract", "inferred", "cause", "ID"]
    return f"\n## {title}\n\n{rows_of(head, [line(*judgement) for judgement in judged])}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=str(recordings.ROOT / "build" / "assay"))
    tool = parser.parse_args().tool
    judged = [(r, verdicts(tool, r), inferred(tool, r)) for r in recordings.recordings()]
    judged.sort(key=lambda judgement: (judgement[0]["mechanism"], judgement[0]["id"]))
    healthy = [judgement for judgement in judged if judgement[0]["healthy"]]
    broken = [judgement for judgement in judged if not judgement[0]["healthy"]]
    passed = sum(all(row["verdict"] in PASSES for row in rows) for _, rows, _ in healthy)
    missed = sum(all(row["verdict"] in PASSES for row in rows) for _, rows, _ in broken)
    page = HEAD.format(healthy=len(healthy), passed=passed, broken=len(broken), caught=len(broken) - missed)
    page += causes() + table("Healthy", healthy) + table("Broken", broken)
    PAGE.write_text(page)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(str(error))
