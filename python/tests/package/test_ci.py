"""The jobs of docs/guides/ci.md, from install to exit code: green with a right kernel, red with a wrong one; and those that make a
release's wheels. Here stand in for what a machine of theirs has: a folder assay/ whose wheel is the one under test, a folder of the
wheels that it needs, sudo, and sbatch."""
import fnmatch
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/guides/ci.md").read_text()
# How pip makes a wheel of the folder assay/.
BACKEND = """
import pathlib, shutil

def build_wheel(folder, config_settings=None, metadata_directory=None):
    wheel = pathlib.Path({wheel!r})
    shutil.copy(wheel, folder)
    return wheel.name
"""
# Packages are missing until root installs them.
SETUP = '#!/bin/sh\n[ -n "$AS_ROOT" ]\n'
SUDO = '#!/bin/sh\nAS_ROOT=1 exec "$@"\n'
SBATCH = """#!/bin/sh
[ "$1" = --wait ] && [ "$(head -c 2 "$2")" = "#!" ] || exit 2
tasks=$(sed -n 's/^#SBATCH --array=1-//p' "$2")
code=0
for task in $(seq "$tasks"); do
  SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_TASK_COUNT=$tasks bash "$2"
  ended=$?
  [ $ended -le $code ] || code=$ended
done
exit $code
"""


def blocks(language, section):
    """Blocks of code of a section of the page."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def wheel():
    """The file that assay was installed from."""
    source = json.loads(importlib.metadata.distribution("assay").read_text("direct_url.json"))["url"]
    return pathlib.Path(urllib.parse.unquote(urllib.parse.urlsplit(source).path))


class Machine:
    """A machine that has the user's files, and runs a job's lines there. Jobs that install by the same lines share what the first has."""

    environments = {}  # by these lines

    def __init__(self, folder):
        self.home, self.work, self.venv, self.installed = folder, folder / "work", folder / "work/venv", set()
        for text, name in re.findall(r"^```python\n(# (\w+\.py)\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
            write(self.work / name, text)
        write(folder / "bin/sudo", SUDO)
        write(folder / "bin/sbatch", SBATCH)

    def clone_assay(self):
        write(self.work / "assay/backend.py", BACKEND.format(wheel=str(wheel())))
        write(self.work / "assay/pyproject.toml", '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n')
        write(self.work / "assay/tools/setup", SETUP)

    def break_kernel(self):
        kernel = (self.work / "kernel.py").read_text()
        assert "scale * (q" in kernel
        write(self.work / "kernel.py", kernel.replace("scale * (q", "(q"))

    def run(self, lines, **variables):
        """The exit code of lines in bash. All parts share what the first has installed."""
        if lines in self.environments and not self.venv.exists():
            self.venv.symlink_to(self.environments[lines])
            self.installed.add(lines)
        if lines in self.installed:
            return 0
        packages = os.environ.get("ASSAY_PACKAGES", str(ROOT / "build/python/wheels"))
        own = ("XDG_CACHE_HOME", "PYTHONPATH", "AS_ROOT")
        inherited = {name: value for name, value in os.environ.items() if name not in own and not name.startswith("PYTEST_XDIST_")}
        path = f"{self.home}/bin:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        given = {"HOME": str(self.home), "PATH": path, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": packages, "PIP_NO_CACHE_DIR": "1", "PIP_NO_COMPILE": "1"}
        ran = subprocess.run(["bash", "-e", "-c", lines], cwd=self.work, env=inherited | given | variables, capture_output=True, text=True)
        print(f"$ {lines}\n{ran.stdout}{ran.stderr}exit code {ran.returncode}")
        if ran.returncode == 0 and "pip install" in lines:
            self.installed.add(lines)
            self.environments[lines] = self.venv
        return ran.returncode


def filled(text, **values):
    """Text with GitHub's expressions computed."""
    return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: str(values[found[1].replace(".", "_")]), text)


def on_github(machine, which=0):
    (job,) = yaml.safe_load(blocks("yaml", "GitHub")[which])["jobs"].values()
    codes, cache = [], None if which == 0 else machine.home / ".cache/assay"
    for part in job["strategy"]["matrix"]["part"]:
        code = 0
        for step in job["steps"]:
            given = step.get("with", {})
            if step.get("uses", "").startswith("actions/checkout@") and given["submodules"]:
                machine.clone_assay()
            elif step.get("uses", "").startswith("actions/cache@"):
                keys = {filled(given["key"], matrix_part=part, github_run_id=run) for run in (1, 2)}
                assert len(keys) == 2 and all(key.startswith(filled(given["restore-keys"], matrix_part=part)) for key in keys)
                cache = given["path"].replace("~", str(machine.home))
            elif step.get("uses", "").startswith("actions/upload-artifact@"):
                assert step["if"] == "always()" and list(machine.work.glob(given["path"]))
            elif code == 0:
                code = machine.run(filled(step["run"], matrix_part=part), RUNNER_TOOL_CACHE=f"{machine.home}/tools")
        codes.append(code)
    assert any(pathlib.Path(cache).rglob("*.*"))  # what the next run restores
    return max(codes)


def on_a_runner_of_ones_own(machine):
    write(machine.home / "bin/sudo", "#!/bin/sh\nexit 1\n")
    machine.venv = machine.home / "tools/venv"
    code = on_github(machine, 1)
    assert not (machine.work / "venv").exists()  # the next checkout would delete it
    return code


def on_gitlab(machine):
    (text,) = blocks("yaml", "GitLab")
    (job,) = yaml.safe_load(text).values()
    if job["variables"]["GIT_SUBMODULE_STRATEGY"] == "recursive":
        machine.clone_assay()
    codes = []
    for part in range(1, job["parallel"] + 1):
        variables = {"CI_NODE_INDEX": str(part), "CI_NODE_TOTAL": str(job["parallel"]), "AS_ROOT": "1"}
        lines = [*job["before_script"], *job["script"]]
        codes.append(next((code for line in lines if (code := machine.run(line, **variables)) != 0), 0))
        assert job["artifacts"]["when"] == "always" and list(machine.work.glob(job["artifacts"]["paths"][0]))
    return max(codes)


def on_slurm(machine):
    script, submitted = blocks("bash", "Slurm")
    machine.clone_assay()
    write(machine.work / "checks.sbatch", script)
    return next((code for line in submitted.splitlines() if (code := machine.run(line)) != 0), 0)


@pytest.mark.xdist_group("jobs")  # which share what the first has installed
@pytest.mark.parametrize("job", [on_github, on_a_runner_of_ones_own, on_gitlab, on_slurm])
def test_a_job_is_red_where_the_kernel_is_wrong(tmp_path, job):
    machine = Machine(tmp_path)
    assert job(machine) == 0
    parts = sorted(machine.work.glob("part-*.json"))
    pages = [json.loads(path.read_text()) for path in parts]
    assert len(parts) > 1 and sum(map(len, pages)) == 3
    assert machine.run(f"{machine.venv}/bin/python merged.py {len(parts)}") == 0
    assert machine.run(f"{machine.venv}/bin/python merged.py 1") == 1  # the other parts are left out
    machine.break_kernel()
    assert job(machine) == 1
    assert machine.run(f"{machine.venv}/bin/python merged.py {len(parts)}") == 1


def test_a_release_has_wheels_that_give_a_verdict(tmp_path):
    """All but the building, which test package.wheel does: its command is there, what it writes is kept, each machine gets the wheels
    made for it, one judges, and all are released."""
    jobs = yaml.safe_load((ROOT / ".github/workflows/wheels.yml").read_text())["jobs"]
    _, made, kept = jobs["wheel"]["steps"]
    told = subprocess.run([*made["run"].split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"--out {pathlib.PurePath(kept['with']['path']).parent}\n" in told
    made_for = jobs["wheel"]["strategy"]["matrix"]
    names = {runner: {filled(kept["with"]["name"], matrix_runner=runner, matrix_python=python) for python in made_for["python"]} for runner in made_for["runner"]}
    fetched, *steps = jobs["verdict"]["steps"]
    assert jobs["verdict"]["strategy"]["matrix"]["runner"] == made_for["runner"]
    every = set.union(*names.values())
    for runner, own in names.items():
        assert set(fnmatch.filter(every, filled(fetched["with"]["pattern"], matrix_runner=runner))) == own
    machine = Machine(tmp_path)
    (machine.work / fetched["with"]["path"]).mkdir()
    shutil.copy(wheel(), machine.work / fetched["with"]["path"])
    assert [machine.run(step["run"]) for step in steps] == [0, 0]
    gathered, released = jobs["release"]["steps"]
    assert set(fnmatch.filter(every, gathered["with"]["pattern"])) == every and gathered["with"]["path"] == fetched["with"]["path"]
    write(tmp_path / "bin/gh", '#!/bin/sh\nprintf "%s\\n" "$@"\n')
    assert machine.run(f"{released['run']} >told", GITHUB_REF_NAME="v1.2", GITHUB_REPOSITORY="a/b") == 0
    told = (machine.work / "told").read_text().split("\n")
    assert told[:4] == ["release", "create", "v1.2", f"wheels/{wheel().name}"]
