"""Pages in Debian's Chromium: what is laid out, from 390 to 1600 pixels, in light and dark, and reached with the keyboard."""
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import assay
import pytest
from kernels import delta_rule

WIDTHS = (390, 600, 1024, 1600)
RECORD = pathlib.Path(__file__).parents[3] / "records/gpu/nvidia-h200.json"
PROBE = pathlib.Path(__file__).with_name("probe.js")
pytestmark = pytest.mark.xdist_group("browser")  # whose pages are made once


def failing():
    case = assay.case("deltanet", (2, 70, "4/2", 16), seed=3, cotangents=False)
    return assay.check(case, lambda **x: delta_rule(**x, forgets=lambda t: t >= 64), raises=False).html()


def page_of(*words, program=(sys.executable, "-m", "assay")):
    ran = subprocess.run([*program, *words, "--format", "html"], text=True, stdout=subprocess.PIPE)
    assert ran.returncode in (0, 1)
    return ran.stdout


@pytest.fixture(scope="module")
def pages():
    drift = ("--tokens", "1024", "--dim", "4", "--sequences", "1", "--predict-from", "512", "--draws", "0", "--budget", "0.5")
    check, lab = failing(), (os.environ["ASSAY_LAB"],)
    return {
        "check": check, "a long name": check.replace("<h1>", "<h1>" + 20 * "a_folder_with_a_name/"), "report": page_of("report", "--mechanism", "softmax_attention,affine_linear_attention", "--precision", "fp32,bf16", "--shape", "1,9,2,4,4"),
        "drift": page_of("drift", "retnet", *drift), "mutants": page_of("mutants", "--mechanism", "retnet", "--trials", "1", program=lab),
        "paper": page_of("paper", "mdn-stability", program=lab), "ratios": page_of("paper", "parallax-ratios", "--record", str(RECORD), program=lab),
    }  # fmt: skip


def browse(around, *flags):
    """The page's tree once it has been loaded."""
    program = shutil.which("chromium")
    assert program, "chromium: not installed; tools/setup --test does so"
    profile = around.parent / "profile"
    words = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}", "--window-size=1700,1200", *flags, "--dump-dom", around.as_uri()]
    ran = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def seen(pages, folder, *flags):
    """The probe's findings in each page at each width."""
    frames = "".join(
        f'<iframe title="{name}" width="{width}" height="900" style="border:0" srcdoc="{html.escape(page)}"></iframe>'
        for name, page in pages.items()
        for width in WIDTHS
    )
    around = folder / "around.html"
    around.write_text(f'<!DOCTYPE html><html><head><meta charset="utf-8"><style>:root {{ color-scheme: light dark; }}</style></head><body>{frames}<script>{PROBE.read_text()}</script></body></html>')
    (found,) = re.findall(r"<body>(\[.*\])</body>", browse(around, *flags), re.DOTALL)
    return json.loads(html.unescape(found))


@pytest.mark.parametrize("dark", [False, True])
def test_pages_are_whole_at_every_width_and_in_both_schemes(pages, tmp_path, dark):
    found = seen(pages, tmp_path, *(["--blink-settings=preferredColorScheme=0"] if dark else []))
    assert len(found) == len(pages) * len(WIDTHS)
    for one in found:
        assert one["faults"] == [], one
        assert one["dark"] == dark and one["drawings"] >= 1 and one["stops"] >= 2
        assert one["text"] > 7  # WCAG's AAA, of what is read; marks in drawings have 3 at least
    assert {one["width"] for one in found} >= {390, 600} and max(one["width"] for one in found) > 1500


def test_what_would_be_wrong_is_seen(pages, tmp_path):
    """The probe sees each of these."""
    page = pages["check"]
    broken = {
        "wide": page.replace("<h1>", "<h1 style='width:3000px'>"),
        "unreachable": page.replace('tabindex="0"', 'tabindex="0" style="display:none"', 1),
        "pale": page.replace("svg text { fill: var(--ink); }", "svg text { fill: #ccc; }"),
        "cut": page.replace("<text x=", "<text dx='400' x=", 1),
        "bare": re.sub(r":focus-visible \{[^}]*\}", ":focus-visible { outline: none !important; } *:focus { outline: none !important; }", page),
        "small": page.replace("min-width:", "max-width:200px;--x:"), "narrow": page.replace('width="100%" height', 'width="50%" height'), "alive": page.replace("</body>", "<script>1</script></body>"),
    }  # fmt: skip
    assert all(text != page for text in broken.values())
    faults = {name: [] for name in broken}
    for one in seen(broken, tmp_path):
        faults[one["name"]] += one["faults"]
    words = {"wide": "the page is", "unreachable": "does not reach", "pale": "contrast", "cut": "ends at", "bare": "has the focus", "alive": "a script", "small": "words of", "narrow": "is not as wide"}
    assert all(any(words[name] in fault for fault in faults[name]) for name in broken), faults
