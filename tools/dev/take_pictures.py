#!/usr/bin/env python3
"""Takes the pictures of README.md and docs/check.md from the real page of README's kernel, in Debian's Chromium.

    build/python/bin/python tools/dev/take_pictures.py [--tool build/assay] [--out docs/pictures]

page.png is 1280 pixels wide and light, page-narrow.png 390 and dark: a telephone's.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASE = ["mdn", "--shape", "1,128,2,16,8", "--fill", "log_alpha=-0.05", "--fill", "log_mu=-0.5", "--no-cotangents", "-o", "case.safetensors"]
CHECK = ["case.safetensors", "--kernel", "python docs/examples/mdn.py {case} {out}", "--why", "--format", "html", "-o", "page.html"]
# Name, width, height, and Chromium's number of the colour scheme.
PICTURES = [("page.png", 1280, 740, 1), ("page-narrow.png", 390, 844, 0)]


def page(tool, folder):
    """Makes the page as README does, with its paths, in a folder that has its own build/assay and docs."""
    (folder / "build").mkdir()
    (folder / "build" / "assay").symlink_to(tool)
    (folder / "docs").symlink_to(ROOT / "docs")
    paths = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    for verb, words, codes in (("case", CASE, (0,)), ("check", CHECK, (1,))):
        ran = subprocess.run(["build/assay", verb, *words], cwd=folder, env={**os.environ, "PATH": paths}, stderr=subprocess.PIPE, text=True)
        if ran.returncode not in codes:
            sys.exit(f"take_pictures.py: assay {verb}: exit code {ran.returncode}: {ran.stderr}")
    return folder / "page.html"


def take(shown, picture, width, height, scheme, folder):
    program = shutil.which("chromium")
    if program is None:
        sys.exit("take_pictures.py: chromium: not installed; tools/setup --test does so")
    # A window is 500 pixels wide at least, and its picture is cut: the page lies in a frame.
    around = folder / "around.html"
    around.write_text(
        '<!DOCTYPE html><html><head><meta charset="utf-8"><style>:root { color-scheme: light dark } body { margin: 0 }</style></head>'
        f'<body><iframe src="{shown.name}" width="{width}" height="{height}" style="border: 0; display: block"></iframe></body></html>'
    )
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder / 'profile'}", f"--blink-settings=preferredColorScheme={scheme}"]
    size = [f"--window-size={width},{height}", f"--screenshot={picture.resolve()}"]
    subprocess.run([program, *flags, *size, around.as_uri()], check=True, stderr=subprocess.DEVNULL, timeout=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=pathlib.Path, default=ROOT / "build" / "assay")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "pictures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shown = page(options.tool.resolve(), folder)
        for picture, width, height, scheme in PICTURES:
            take(shown, options.out / picture, width, height, scheme, folder)


if __name__ == "__main__":
    main()
