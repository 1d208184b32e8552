#!/usr/bin/env python3
"""Installs a finished build into a folder and uses it as others do: find_package, pkg-config, the manual, completion.

    check.py --build BUILD [--cmake CMAKE] [--cxx COMPILER]
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        sys.exit(f"check.py: {' '.join(map(str, command))}: exit code {done.returncode}:\n{done.stdout}")
    return done.stdout


def demand(holds, what):
    if not holds:
        sys.exit(f"check.py: {what}")


def completed(share, *words):
    """The words that bash offers after these."""
    listed = " ".join(f"'{word}'" for word in ("assay", *words))
    script = f"source {share}/bash-completion/completions/assay; COMP_WORDS=({listed}); COMP_CWORD={len(words)}; _assay; echo ${{COMPREPLY[@]}}"
    return run("bash", "-c", script).split()


def check_pages(prefix):
    share, tool = prefix / "share", prefix / "bin" / "assay"
    page = (share / "man" / "man1" / "assay.1").read_text()
    verbs = re.findall(r"^  ([a-z]+) ", run(tool, "--help").partition("Subcommands:")[2], re.MULTILINE)
    demand(len(verbs) > 10 and all(f".B {verb}\n" in page and f".SH ASSAY {verb.upper()}\n" in page for verb in verbs), "the manual lacks a verb")
    for flag in re.findall(r"^  (?:-\w,)?(--[a-z-]+)", run(tool, "check", "--help"), re.MULTILINE):
        demand(flag.replace("-", "\\-") in page, f"the manual lacks {flag} of check")
    demand(completed(share, "che") == ["check"], "bash does not complete a verb")
    demand("--same-bits" in completed(share, "check", "--s"), "bash does not complete a flag")
    demand(completed(share, "check", "--format", "jun") == ["junit"], "bash does not complete a flag's words")
    demand("complete -c assay" in (share / "fish" / "vendor_completions.d" / "assay.fish").read_text(), "nothing for fish")
    if shutil.which("man"):
        shown = run("man", "-l", share / "man" / "man1" / "assay.1", env={"PATH": "/usr/bin:/bin", "MANPAGER": "cat", "TERM": "dumb"})
        # In images of Ubuntu for containers `man` is a script that says so.
        demand("ASSAY CHECK" in shown or "has been minimized" in shown, "man does not read the page")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--cxx", default="c++")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prefix, build = pathlib.Path(folder, "prefix"), pathlib.Path(folder, "build")
        run(options.cmake, "--install", options.build, "--prefix", prefix)
        check_pages(prefix)
        run(options.cmake, "-S", HERE / "downstream", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={options.cxx}")
        run(options.cmake, "--build", build)
        demand(run(build / "by_package") == "gated_deltanet is there\n", "the program of find_package says something else")
        if shutil.which("pkg-config"):
            environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PKG_CONFIG_PATH": str(next(prefix.glob("lib*/**/pkgconfig")))}
            flags = [run("pkg-config", f"--define-variable=prefix={prefix}", what, "assay", env=environment).split() for what in ("--cflags", "--libs")]
            run(options.cxx, *flags[0], HERE / "downstream" / "main.cpp", "-o", build / "by_pkg_config", *flags[1])
            demand(run(build / "by_pkg_config") == "gated_deltanet is there\n", "the program of pkg-config says something else")


if __name__ == "__main__":
    main()
