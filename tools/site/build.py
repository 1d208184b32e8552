#!/usr/bin/env python3
"""Writes the pages of the documentation as a site has them: the tree's own, with links that hold there, and the reference of
Python and C++ from their sources. `make site` makes HTML of them with MkDocs.

    build.py --out DIR             DIR/mkdocs.yml and DIR/pages; exit code 1 if a link leads nowhere
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import sys

import reference

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAV = [
    ("Start", [("Five minutes to a verdict", "docs/guides/first-verdict.md"), ("What assay is", "README.md"), ("Questions", "docs/guides/faq.md"), ("Glossary", "docs/glossary.md")]),
    ("Do", [
        ("Check my Triton kernel", "docs/guides/triton.md"), ("My kernel fails: what now", "docs/guides/it-fails.md"),
        ("My bf16 run drifts", "docs/guides/bf16-drifts.md"), ("Contracts", "docs/contracts.md"), ("CI: GitHub, GitLab, Slurm, xdist", "docs/guides/ci.md"),
        ("From Python", "docs/python.md"), ("Generated kernels: audits", "docs/audit.md"), ("Same bits, two kernels", "docs/guides/invariance.md"), ("Which keys", "docs/guides/choices.md"), ("A mechanism of your own", "docs/own-mechanism.md"),
        ("Three published defects", "docs/tutorial.md"), ("The papers' own tables", "docs/papers.md"),
    ]),
    ("Verbs", [
        ("check", "docs/check.md"), ("report", "docs/report.md"), ("drift", "docs/drift.md"), ("oracle", "docs/oracle.md"), ("What a check costs", "docs/costs.md"), ("baseline", "docs/baseline.md"),
        ("Case files", "docs/case-format.md"), ("Arguments of kernels", "docs/arguments.md"), ("The mechanism language", "docs/mechanism-language.md"),
    ]),
    ("Judge", [("What it asks", "docs/judge.md"), ("Derived", "docs/judge-derivation.md"), ("Published bugs", "docs/published-bugs.md"), ("Questions of 2026", "docs/questions-2026.md"), ("Attacks and their tests", "docs/findings.md"), ("Errors of the fast engines", "docs/error-analysis.md"), ("Errata", "docs/errata.md")]),
    ("Mathematics", "docs/mechanisms"),
    ("Records", "records"),
    ("Reference", [("Python", "api/python.md"), ("C++", "api/cpp.md")]),
]  # fmt: skip
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s:#]*)(#[^()\s]+)?\)")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


def site_path(source):
    """Where a page of the tree is on the site."""
    if source == "README.md":
        return "index.md"
    return source.removeprefix("docs/")


def sources():
    found = ["README.md", *(p.relative_to(ROOT).as_posix() for folder in ("docs", "docs/guides", "docs/mechanisms", "records") for p in sorted((ROOT / folder).glob("*.md")))]
    return {source: site_path(source) for source in found}


def relinked(text, source, pages, findings):
    """The page with links as they are on the site; what the site has not is named, not linked."""
    here = os.path.dirname(pages[source])

    def link(match):
        picture, words, target, anchor = match.groups()
        if not target:
            return match[0]
        place = os.path.normpath(os.path.join(os.path.dirname(source), target))
        if picture and (ROOT / place).exists():  # write copies it
            return f"{picture}[{words}]({os.path.relpath(site_path(place), here or '.')})"
        if place in pages:
            return f"{picture}[{words}]({os.path.relpath(pages[place], here or '.')}{anchor or ''})"
        if not (ROOT / place).exists():
            findings.append(f"{source}: links to {target}, which is not there.")
        return words if words.startswith("`") else f"{words} (`{place}`)"

    return "".join(part if i % 2 else LINK.sub(link, part) for i, part in enumerate(CODE.split(text)))


def nav_of(pages):
    def entry(name, what):
        if isinstance(what, list):
            return {name: [{title: pages.get(path, path)} for title, path in what]}
        return {name: [site for source, site in pages.items() if os.path.dirname(source) == what]}

    return [entry(name, what) for name, what in NAV]


def config(pages, out):
    palette = [
        {"media": "(prefers-color-scheme: light)", "scheme": "default", "toggle": {"icon": "material/weather-night", "name": "dark"}},
        {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "toggle": {"icon": "material/weather-sunny", "name": "light"}},
    ]
    return {
        "site_name": "assay", "docs_dir": "pages", "site_dir": str((out / "html").resolve()), "use_directory_urls": False, "nav": nav_of(pages),
        "theme": {"name": "material", "font": False, "palette": palette, "features": ["navigation.tabs", "navigation.top", "content.code.copy"]},
        "markdown_extensions": ["tables", "fenced_code", "pymdownx.highlight", "pymdownx.superfences", {"toc": {"permalink": True}}],
        "plugins": ["search"], "validation": {"anchors": "warn", "links": {"not_found": "warn"}},
    }  # fmt: skip


def write(out):
    """All pages; what leads nowhere, in sentences."""
    findings, pages = [], sources()
    shutil.rmtree(out / "pages", ignore_errors=True)
    texts = {site: relinked((ROOT / source).read_text(), source, pages, findings) for source, site in pages.items()}
    texts |= {"api/python.md": reference.python_page(findings), "api/cpp.md": reference.cpp_page()}
    for site, text in texts.items():
        (out / "pages" / site).parent.mkdir(parents=True, exist_ok=True)
        (out / "pages" / site).write_text(text)
    for picture in (p for p in (ROOT / "docs").glob("*/*") if p.suffix in (".svg", ".png")):
        (out / "pages" / picture.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, out / "pages" / picture.parent.name)
    listed = [path for entry in nav_of(pages) for value in entry.values() for item in value for path in (item.values() if isinstance(item, dict) else [item])]
    findings += [f"the navigation has {path}, which is no page." for path in listed if path not in texts]
    findings += [f"{site}: is in no part of the navigation." for site in texts if site not in listed and site not in UNLISTED]
    # YAML reads JSON.
    (out / "mkdocs.yml").write_text(json.dumps(config(pages, out), indent=1) + "\n")
    return findings


# Pages that others lead to.
UNLISTED = {"records.md"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    options = parser.parse_args()
    findings = write(options.out)
    for finding in findings:
        print(finding)
    print(f"site: {len(findings)} findings.")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
