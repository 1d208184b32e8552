"""Pages that people look at, as a browser's tree: what is drawn is what was measured."""
import json
import os
import pathlib
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import assay
import numpy as np
import pytest
from assay._cases import said
from kernels import delta_rule

SHAPE = (2, 70, "4/2", 16)


def tree(page):
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


def drawn(page):
    """The drawings, without the heads within them."""
    return tree(page).findall(".//figure/svg")


def drawings(page, kind):
    return [svg for svg in drawn(page) if svg.get("class") == kind]


def numbers(words):
    return [float(x) for x in re.findall(r"-?[\d.]+", words)]


def runs(head):
    """Row, column, length and colour of what lies in a head's ground."""
    return [(int(y), int(x), int(n), path.get("class")) for path in head.iter("path") if path.get("class") != "h0" for x, y, n in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\3z", path.get("d"))]


def texts(svg, style=None):
    return [x.text for x in svg.iter("text") if style is None or x.get("class") == style]


def check_page(page):
    """One file that needs nothing else; every drawing has a name, takes the focus, and stays within its frame; every class has a rule."""
    for foreign in ("<script", "http:", "https:", "href", "src=", "url(", "@import", "javascript", "onload"):
        assert foreign not in page, foreign
    root = tree(page)
    (style,) = (x.text for x in root.iter("style"))
    assert "prefers-color-scheme: dark" in style and "max-width: 600px" in style and ":focus-visible" in style
    assert [meta.get("content") for meta in root.iter("meta") if meta.get("name") == "viewport"] == ["width=device-width, initial-scale=1"]
    assert all(div.get("tabindex") == "0" for div in root.iter("div") if div.get("class") == "wide")
    assert {div.get("class") for div in root.iter("div")} == {"wide"} and len(list(root.iter("div"))) == len(list(root.iter("table")))
    for svg in drawn(page):
        assert svg.get("role") == "img" and svg.get("tabindex") == "0" and svg.find("title").text
        _, _, width, height = numbers(svg.get("viewBox") or f"0 0 100 {svg.get('height')}")
        for rect in svg.iter("rect"):
            x, y, w, h = (float(rect.get(name).removesuffix("%")) for name in ("x", "y", "width", "height"))
            assert -0.1 <= x and -0.1 <= y and x + w <= width + 0.2 and y + h <= height + 0.2 and w > 0 and h > 0
        for head in svg.findall("svg"):
            _, _, columns, rows = numbers(head.get("viewBox"))
            assert head.find("title").text and all(y < rows and x + n <= columns and n > 0 for y, x, n, _ in runs(head))
        for line in svg.iter("polyline"):
            xs, ys = numbers(line.get("points"))[::2], numbers(line.get("points"))[1::2]
            assert min(xs) >= 0 and max(xs) <= width and min(ys) >= 0 and max(ys) <= height
    classes = {name for x in root.iter() for name in (x.get("class") or "").split()}
    ruled = classes - {"wide", "number", "plot"} - {svg.get("class") for svg in drawn(page)}
    assert ruled and all(f".{name} " in style or f".{name}{{" in style for name in ruled), ruled


@pytest.fixture(scope="module")
def failing():
    case = assay.case("deltanet", SHAPE, seed=3, cotangents=False)
    return assay.check(case, lambda **x: delta_rule(**x, forgets=lambda t: t >= 64), raises=False)


def test_a_failing_tensor_is_drawn_where_it_is_wrong(failing):
    page = failing.html()
    check_page(page)
    (heat,), (histogram,), (along,) = (drawings(page, kind) for kind in ("heat", "histogram", "along"))
    assert heat.get("width") == "100%" and heat.find("title").text.endswith(", the worst 6 of 8 heads, a line every 64 tokens; wrong: tokens 64..69 of 70 (chunk 1)")
    # Six of eight heads, tokens across, each with a line where the second chunk begins.
    heads, names = heat.findall("svg"), [x for x in texts(heat, "bad") if x.startswith("sequence ")]
    assert len(heads) == 6 and names == sorted(set(names)) == [head.find("title").text for head in heads]
    assert {head.get("viewBox") for head in heads} == {"0 0 70 16"}
    lines = [x for x in heat.iter("line") if numbers(x.get("y2"))[0] - numbers(x.get("y1"))[0] > 60]
    assert len(lines) == 6 and {x.get("x1") for x in lines} == {f"{6400 / 70:.2f}%"}
    # A mark below tokens 64 to 69, and numbers.
    (mark,) = (x for x in heat.iter("rect") if x.get("class") == "wrong")
    assert (mark.get("x"), mark.get("width")) == (f"{6400 / 70:.2f}%", f"{600 / 70:.2f}%")
    assert [x for x in texts(heat) if x.isdigit()][:5] == ["0", "16", "32", "48", "64"]
    # Elements beyond a correct kernel's errors are there, and nothing before.
    for head in heads:
        beyond = [column for _, column, _, colour in runs(head) if colour in ("h3", "h4", "h5")]
        assert beyond and min(beyond) >= 64
    # Every element is counted once.
    counted = sum(int(x.find("title").text.split()[0]) for x in histogram.iter("rect") if x.find("title") is not None)
    assert counted == 2 * 70 * 4 * 16
    z = np.abs(failing.error("o") / failing.expected("o").sigma)
    (curve,) = (numbers(x.get("points")) for x in along.iter("polyline") if x.get("class") == "curve")
    assert len(curve) == 2 * 70
    assert max(curve[1:128:2]) > min(curve[1:128:2]) > max(curve[129::2])  # up is more
    assert (z[:, :64] < 10).all() and (z[:, 64:] > 10).any()


def test_a_tensor_that_passes_has_no_drawing_of_errors(failing):
    page = failing.html()
    assert "final_state: " not in "".join(svg.find("title").text for svg in drawn(page))
    healthy = assay.check(failing.case, lambda **x: delta_rule(**x)).html()
    check_page(healthy)
    assert not drawn(healthy)
    for shown, word in ((page, "FAIL"), (healthy, "PASS")):
        first = tree(shown).find("body")[0]
        assert first.get("class") == f"band {word.lower()}" and first.text.startswith(f"{word}  ")


def test_a_page_shows_the_first_wrong_tensor_alone():
    case = assay.case("gated_deltanet", (1, 20, "4/2", 8), seed=3)
    wrong = {name: 1.5 * truth.hi for name, truth in assay.oracle(case).items()}
    page = assay.judge(case, wrong).html()
    check_page(page)
    assert [svg.get("class") for svg in drawn(page)] == ["heat", "histogram", "along"]
    assert len(page) < 300_000
    # In this order: the verdict, where, got and expected, the command, all tensors, the others' complaints folded, the legend.
    order = ["class=\"band fail\"", "class=\"heat\"", " expected ", "<code>", "<table>", "<details>", "class=\"histogram\"", "<pre>contract"]
    places = [page.index(word) for word in order]
    assert places == sorted(places)
    (folded,) = tree(page).iter("details")
    failing = [row[1].text for row in tree(page).iter("tr") if row.get("class") == "wrong"]
    assert len(failing) > 2 and "".join(folded.itertext()).count("\nFAIL  ") + 1 == len(failing)
    pills = [x for x in tree(page).iter("span") if x.get("class").startswith("pill ")]
    assert [x.text for x in pills].count("FAIL") == len(failing) and all(x.get("class") == f"pill {x.text.lower()}" for x in pills)


def test_the_matrix_has_a_cell_for_each_kernel_and_precision():
    page = said("report", "--mechanism", "deltanet,retnet", "--precision", "fp32,bf16", "--shape", "1,9,2,4,4", "--format", "html").decode()
    check_page(page)
    (matrix,) = drawings(page, "matrix")
    rows = assay.report("deltanet,retnet", precision="fp32,bf16", shape="1,9,2,4,4")["rows"]
    worst = {}
    for row in rows:
        key = f"{row['mechanism']} {row['form']} {row['precision']}"
        worst[key] = max(worst.get(key, 0), row["rms_z"])
    cells = {x.find("title").text: x.get("class") for x in matrix.iter("rect") if x.find("title") is not None}
    assert set(cells) == {f"{key}: PASS" for key in worst}
    assert all(cells[f"{key}: PASS"] == ("h0" if z < 1 else "h1" if z < 3 else "h2") for key, z in worst.items())


def test_drift_draws_its_laws_its_budget_and_its_sites():
    words = ["drift", "retnet", "--tokens", "1024", "--dim", "4", "--sequences", "1", "--predict-from", "512", "--draws", "0", "--budget", "0.5"]
    page = said(*words, "--format", "html").decode()
    check_page(page)
    facts = json.loads(said(*words, "--format", "json"))
    curves, (sites,) = drawings(page, "drift"), drawings(page, "sites")
    assert [svg.find("title").text.split(":")[0] for svg in curves] == [series["tensor"] for series in facts["series"]]
    for svg, series in zip(curves, facts["series"]):
        (measured,) = (numbers(x.get("points")) for x in svg.iter("polyline") if x.get("class") == "curve")
        assert len(measured) == 2 * len(series["windows"])
        assert any(x.get("class") == "law" for x in svg.iter("polyline")) == (series["fit"] is not None)
        assert sum(x.get("class") == "interval" for x in svg.iter("line")) == (series["prediction"] is not None)
        assert sum(x.get("class") == "limit" for x in svg.iter("line")) == 1
    bars = [x for x in sites.iter("rect") if x.get("class") == "bar"]
    assert [x.find("title").text.split()[0] for x in bars] == [site["site"] for site in facts["sites"]]
    widths = [float(x.get("width")) for x in bars]
    assert widths == sorted(widths, reverse=True)


def test_the_kill_table_is_drawn():
    words = [os.environ["ASSAY_LAB"], "mutants", "--mechanism", "value_averaging", "--trials", "1", "--held-out", "no"]
    page, facts = (subprocess.run([*words, "--format", how], capture_output=True, text=True, check=True).stdout for how in ("html", "json"))
    check_page(page)
    (kills,) = drawings(page, "kills")
    facts = json.loads(facts)
    shown = sum(1 for mutant in facts["mutants"] if mutant["shown"])
    cells = [x.find("title").text for x in kills.iter("rect")]
    assert cells[0].startswith("value_averaging chunkwise, assay, by contract: ") and cells[0].endswith(f"/{shown}")


def test_drawings_as_a_file(failing, tmp_path):
    failing.plot(tmp_path / "page.svg")
    svg = ElementTree.parse(tmp_path / "page.svg").getroot()
    assert svg.tag == "{http://www.w3.org/2000/svg}svg" and "prefers-color-scheme: dark" in (tmp_path / "page.svg").read_text()
    inner = [x.get("class") for x in svg.findall("{http://www.w3.org/2000/svg}svg")]
    assert inner == ["matrix", "heat", "histogram", "along"]


def test_the_picture_of_contracts_has_sites_of_the_kernel():
    docs = pathlib.Path(__file__).resolve().parents[3] / "docs"
    page = (docs / "mechanisms/deltanet.md").read_text().partition("## Kernel `chunkwise`")[2].partition("## Kernel")[0]
    role = dict(re.findall(r"^\| `(\w+)` \| [^|]* \| (\w+) \|", page, re.MULTILINE))
    roles = {"operand": "operand", "sum": "accumulator", "state": "accumulator", "out": "output"}
    boxes = re.findall(r'<rect class="(\w+)" [^>]*rx="6"/><text[^>]*>([^<]*)<', (docs / "pictures/sites.svg").read_text())
    assert len(boxes) == 7 and {(name, role.get(name)) for kind, names in boxes for name in names.split(", ")} == {(name, roles[kind]) for kind, names in boxes for name in names.split(", ")}
