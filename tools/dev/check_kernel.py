#!/usr/bin/env python3
"""`assay check` on a kernel in numpy: docs/examples/deltanet.py passes, and copies with a bug each fail where the bug is.

    check_kernel.py --tool ASSAY
"""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

KERNEL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples" / "deltanet.py"

# What is replaced by what; the tensors that then fail; what is said of where `o` or the first of them is wrong. A state
# in bf16 is within the error of some algorithm, so only the contract that promises fp32 sums sees it.
BUGS = [
    ("q[b, t, h // group]", "q[b, t, h % k.shape[2]]", ["o"], "heads 1..2 of 4, all tokens"),
    ("scale * (", "(scale if t < 64 else 1) * (", ["o"], "all heads, tokens 64..69 of 70 (chunk 1)"),
    ("h // group]\n            S", "h // group] * (t % 64 != 0)\n            S", ["final_state", "o"], ""),
    ("o[b, t, h] = ", "o[b, t, h] = 0 if t == 69 else ", ["o"], "all heads, the last token 69 of 70"),
    ("scale * (", "scale * (numpy.arange(16) < 15) * (", ["o"], "the last value dimension 15 of 16"),
    ("\n    save_file", "\n    o[1, 7, 3, 5] = numpy.nan\n    save_file", ["o"], "sequence 1 of 2, head 3 of 4, token 7 of 70"),
    ("S += numpy", "S[:] = S.astype(ml_dtypes.bfloat16)\n            S += numpy", ["final_state"], "", "bf16"),
    ("state.astype(", "state.transpose(0, 1, 3, 2).astype(", ["final_state"], "all heads"),
]


def check(tool, case, kernel, contract=None):
    command = shlex.join([sys.executable, str(kernel)]) + " {case} {out}"
    by = ["--contract", contract] if contract else []
    check_it = [tool, "check", case, "--kernel", command, "--format", "json", "--quick", *by]
    run = subprocess.run(check_it, capture_output=True, text=True)
    if run.returncode not in (0, 1):
        sys.exit(f"{kernel.name}: exit code {run.returncode}: {run.stderr}")
    rows = json.loads(run.stdout)["rows"]
    return run.returncode, {row["tensor"]: row for row in rows if row["verdict"] != "PASS"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    tool = parser.parse_args().tool
    healthy, failures = KERNEL.read_text(), []
    with tempfile.TemporaryDirectory() as folder:
        case = f"{folder}/case.safetensors"
        make = [tool, "case", "deltanet", "--shape", "2,70,4/2,16", "--no-cotangents", "-o", case]
        subprocess.run(make, check=True)
        code, failed = check(tool, case, KERNEL)
        if code != 0 or failed:
            failures.append(f"the healthy kernel: exit code {code}, {failed}")
        for number, (old, new, tensors, where, *contract) in enumerate(BUGS):
            if healthy.count(old) != 1:
                failures.append(f"bug {number}: {old!r} stands {healthy.count(old)} times in {KERNEL.name}")
                continue
            broken = pathlib.Path(folder, f"bug_{number}.py")
            broken.write_text(healthy.replace(old, new))
            if contract:
                passed_by_model = check(tool, case, broken)
                if passed_by_model != (0, {}):
                    failures.append(f"bug {number}, {new!r}: the model: {passed_by_model}")
            code, failed = check(tool, case, broken, *contract)
            first = failed.get("o", failed.get(tensors[0], {"where": "nowhere"}))
            if code != 1 or sorted(failed) != tensors or where not in first["where"]:
                failures.append(f"bug {number}, {new!r}: exit code {code}, {sorted(failed)}, {first['where']}")
    for failure in failures:
        print(failure)
    print(f"check_kernel: {len(BUGS)} bugs, {len(failures)} failures.")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
