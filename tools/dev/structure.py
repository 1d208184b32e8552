#!/usr/bin/env python3
"""Checks what no compiler checks: that every room has its files and every file has its room, that includes point
downwards, that no text is left unfinished, that links lead somewhere, that pages have short sentences, and that CMake
compiles everything. One sentence per finding; exit 1 if any.

    structure.py [--build DIR]     the tree; with a build folder also what CMake compiles
    structure.py --self-test       plants each fault in the tree, in memory, and demands that it is found, and what is no
                                   fault, and demands that nothing is
"""
import argparse
import collections
import functools
import json
import os
import pathlib
import re
import sys

from faults_of_the_judge import obstacle

REFERENCE_FILES = [
    "reference/{}.hpp",
    "fixtures/{}.safetensors",
    "docs/mechanisms/{}.md",
]
# Where tests name the pages whose console blocks they run.
WALKERS = ("tools/dev/CMakeLists.txt", "python/tests/CMakeLists.txt", "Makefile")
# Lines of mechanisms.def that are no rooms: a file that wants one kind alone defines one macro alone.
DEFAULTS = {"#ifndef REFERENCE", "#define REFERENCE(name)", "#endif", "#undef REFERENCE"}
ROOM_FILES = REFERENCE_FILES + ["kernels/*/{}.hpp", "kernels/*/{}.cpp"]
# Other files that may lie beside the rooms' files: tests of a room's own forms, a device kernel where a room has one,
# and the files of the folder itself.
REFERENCE_EXTRAS = ["proptests/{}.cpp"]
ROOM_EXTRAS = REFERENCE_EXTRAS + ["kernels/*/{}_gpu.cpp"]
# The folders of kernels that hold rooms.
FAMILIES = ["attention", "decayed", "delta", "falcon", "ridge", "uniform"]
FOLDER_FILES = {"CMakeLists.txt", "README.md"}
# These hold one file per room and code of their own in subfolders; in fixtures only the suffix tells them apart.
ROOM_FOLDERS = {"reference": None, "proptests": None, "docs/mechanisms": None, "fixtures": ".safetensors"}
ROOM_FOLDERS |= {f"kernels/{family}": None for family in FAMILIES}

# An include may point to its own layer or to one before it.
LAYERS = ["reference", "oracles", "files", "language", "arguments", "kernels", "judge", "tools", "proptests"]

CPP = {".hpp", ".cpp", ".cu", ".cuh"}
PLANTED = "proptests/judge/planted_faults.json"
FOLDER_SOURCES = 30  # about twenty subjects, most of them a header and a source
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]) + r")\b")
TYPE = re.compile(r"^(?:struct|class) (\w+)(?: final)?(?: : [^;{]*)?\s*\{", re.MULTILINE)
TEST = re.compile(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", re.MULTILINE)
WORD = re.compile(r"[^\s,;:|()]+")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
EMBEDDED = re.compile(r'^\{"([^"]+)", R"text\(', re.MULTILINE)  # files/embed.cmake

# The calls of a tile program that round, and so may take random words.
DRAWING = re.compile(
    r"\bb\.(?:rows?|load_(?:row|col|acc)|dot|cast|abt?|atb|decays|(?:decay|gates_of|channel)_\w+)\(|"
    r"\b(?:in_registers|cast_weights|decay_scan\w*|row_sum)\(|\.total\("
)

# A link of a page, or of a string of a source that writes one; and a comment that cites a section.
LINK = re.compile(r"\]\(([^()\s:#\"]*)(?:#([^()\s\"]+))?\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`[^`]*`")
CITED = re.compile(r'\bdocs/([\w-]+\.md),(?:\s|//+)*"([^"\n]+)"')

# Prose of a page: code and comments are none, nor is a page that a program writes.
SENTENCE_WORDS = 45
GENERATED = "<!-- written by"
NO_PROSE = re.compile(r"^( *)```.*?^\1```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
NO_PROSE_LINE = re.compile(r"\s*(?:$|#+ |\|.*\|\s*$)")  # blank, a heading, a row of a table
ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
SENTENCE_END = re.compile(r"(?:(?<!\.)(?<!\be\.g)(?<!\bi\.e)[.!?]|(?<=\.{3})\.)[)\"'*_]*(?=\s)")

Compiled = collections.namedtuple("Compiled", "files texts")  # sources in the tree; texts of generated sources


# The caches are by one file's name or content: the self-test looks at nearly the same tree many times.
suffix_of = functools.cache(lambda path: pathlib.PurePosixPath(path).suffix)
folders_above = functools.cache(lambda path: frozenset(str(folder) for folder in pathlib.PurePosixPath(path).parents))
decoded = functools.cache(lambda content: content.decode(errors="replace"))  # not read_text: it hides carriage returns
includes, types, tests_in, words_of = (functools.cache(pattern.findall) for pattern in (INCLUDE, TYPE, TEST, WORD))


class Tree(dict):
    """Every file that belongs to the tree: {relative posix path: bytes}, sorted. A tree in memory takes no time to change."""

    def __init__(self, contents, executable):
        super().__init__(sorted(contents.items()))
        self.executable = executable
        self.folders = set().union(*(folders_above(path) for path in contents))

    def text(self, path):
        return decoded(self[path])

    def has(self, path):
        """Whether there is such a file or folder."""
        return path in self or path in self.folders

    def edited(self, edits):
        """The same with {path: bytes}; None deletes."""
        return Tree({path: content for path, content in {**self, **edits}.items() if content is not None}, self.executable)


def tree(root):
    """The Tree that lies there."""
    found = []
    for folder, folders, names in os.walk(root):
        at_root = pathlib.Path(folder) == root
        folders[:] = sorted(
            name
            for name in folders
            if name not in {".git", ".cache", "__pycache__"} and not (at_root and re.fullmatch(r"build(-.*)?", name))
        )
        found += [pathlib.Path(folder, name) for name in names]
    contents = {path.relative_to(root).as_posix(): path.read_bytes() for path in found if path.exists()}
    return Tree(contents, {path for path in contents if os.access(root / path, os.X_OK)})


def listed_rooms(files, findings):
    rooms = {}  # name: the files it must have
    for number, line in enumerate(files.text("mechanisms.def").splitlines(), start=1):
        if not line.strip() or line.startswith("//") or line in DEFAULTS:
            continue
        match = re.fullmatch(r"(MECHANISM|REFERENCE)\(([a-z][a-z0-9_]*)\)", line)
        if not match:
            findings.append(
                f"mechanisms.def:{number}: this is neither a comment nor MECHANISM(snake_case_name) nor"
                f" REFERENCE(snake_case_name): {line}"
            )
        elif match[2] in rooms:
            findings.append(f"mechanisms.def:{number}: {match[2]} is listed twice.")
        else:
            rooms[match[2]] = ROOM_FILES if match[1] == "MECHANISM" else REFERENCE_FILES
    return rooms


def places(pattern, files):
    """The files of that name; `*` is a family of kernels."""
    names = {pattern.replace("*", family) for family in (FAMILIES if "*" in pattern else [""])}
    return {name for name in names if name in files}


def check_rooms(files, findings):
    rooms = listed_rooms(files, findings)
    for room, patterns in rooms.items():
        for pattern in patterns:
            if not places(pattern.format(room), files):
                findings.append(f"{pattern.format(room)} is missing, but mechanisms.def lists {room}.")
    known = {path for room, patterns in rooms.items() for pattern in patterns for path in places(pattern.format(room), files)}
    for room, patterns in rooms.items():
        extras = ROOM_EXTRAS if patterns is ROOM_FILES else REFERENCE_EXTRAS
        known |= {path for pattern in extras for path in places(pattern.format(room), files)}
    for path in files:
        folder, _, name = path.rpartition("/")
        suffix = ROOM_FOLDERS.get(folder, "")
        belongs_to_a_room = suffix is None or (suffix and name.endswith(suffix))
        if belongs_to_a_room and name not in FOLDER_FILES and path not in known:
            findings.append(f"{path} belongs to no room: mechanisms.def does not list {name.partition('.')[0]}.")


@functools.cache
def line_findings(text, is_cpp):
    """The faults of single lines, as (number, sentence)."""
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if is_cpp and "\t" in line:
            found.append((number, "a tab; C++ is indented with spaces."))
        if line != line.rstrip():
            found.append((number, "trailing whitespace."))
        if unfinished := UNFINISHED.search(line):
            found.append((number, f"{unfinished[0]} marks unfinished work; finish it or open an issue."))
        if re.match(r"(<{7}|>{7}) ", line):
            found.append((number, "a conflict marker."))
    return found


def check_text(files, findings):
    for path, content in files.items():
        suffix = suffix_of(path)
        if b"\0" in content[:8000]:  # as git tells binary files from text
            continue
        text = decoded(content)
        findings += [f"{path}:{number}: {what}" for number, what in line_findings(text, suffix in CPP)]
        if text and not text.endswith("\n"):
            findings.append(f"{path}: the last line does not end.")
        if suffix == ".hpp" and not re.search(r"^#pragma once$", text, re.MULTILINE):
            findings.append(f"{path}: a header without #pragma once.")
        if text.startswith("#!") and path not in files.executable:
            findings.append(f"{path}: a script that cannot be executed.")


def check_includes(files, findings):
    for path in files:
        layer = path.partition("/")[0]
        if suffix_of(path) not in CPP or layer not in LAYERS:
            continue
        for included in includes(files.text(path)):
            target = included.partition("/")[0]
            if included not in files:
                findings.append(f'{path}: #include "{included}" names no file of the tree; includes start at the root.')
            elif target in LAYERS and LAYERS.index(target) > LAYERS.index(layer):
                findings.append(f'{path}: #include "{included}" points upwards; {layer} knows nothing of {target}.')


def check_folders(files, findings):
    """A folder has one subject; folders with a file per room are as long as the list of rooms."""
    sources = collections.Counter(
        os.path.dirname(path) for path in files if suffix_of(path) in CPP | {".py"} and path.partition("/")[0] in LAYERS
    )
    for folder, count in sorted(sources.items()):
        if count > FOLDER_SOURCES and folder not in ROOM_FOLDERS:
            findings.append(f"{folder}: {count} sources, more than {FOLDER_SOURCES}; move those of one subject to a folder of their own.")


def check_cycles(files, findings):
    """A header and its source are one stem; no stem includes itself by way of another. A room's unit in kernels stands
    above its tile program and the plan that launches it: it is no part of the stem."""
    stems = {}
    for path in files:
        is_unit = suffix_of(path) != ".hpp" and path.startswith(tuple(f"kernels/{family}/" for family in FAMILIES))
        if suffix_of(path) in CPP and not is_unit:
            below = {included.rpartition(".")[0] for included in includes(files.text(path))}
            stems.setdefault(path.rpartition(".")[0], set()).update(below)
    done = set()

    def follow(stem, above):
        if stem in above:
            findings.append(f"{stem} includes itself: {' -> '.join(above[above.index(stem):] + [stem])}.")
        elif stem not in done:
            for included in sorted(stems.get(stem, set()) - {stem}):
                follow(included, above + [stem])
            done.add(stem)

    for stem in sorted(stems):
        follow(stem, [])


def check_programs(files, findings):
    """Headers of kernels share a namespace, and no unit sees all: of two types of one name a linker takes either."""
    home = {}
    for path in files:
        if path.startswith("kernels/") and suffix_of(path) in {".hpp", ".cuh"}:
            for name in types(files.text(path)):
                if home.setdefault(name, path) != path:
                    findings.append(f"{path}: {name} is also defined in {home[name]}; names of tile programs are unique.")


def arguments_from(text, begin):
    """Those of the call whose parenthesis opens before `begin`."""
    found, depth, first = [], 1, begin
    for i in range(begin, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
        elif text[i] == "," and depth == 1:
            found, first = found + [text[first:i]], i + 1
        if depth == 0:
            return found + [text[first:i]]
    return []


@functools.cache
def random_calls(text):
    """Lines of calls of which two arguments round at random."""
    text = re.sub(r"//[^\n]*", lambda comment: " " * len(comment[0]), text)
    lines = []
    for call in re.finditer(r"[\w>]\(", text):
        drawing = [
            argument
            for argument in arguments_from(text, call.end())
            if DRAWING.search(argument) and not re.match(r"\s*\[", argument)  # a lambda runs later
        ]
        if len(drawing) > 1:
            lines.append(text.count("\n", 0, call.start()) + 1)
    return lines


def check_draws(files, findings):
    """Compilers choose the order of a call's arguments: two that round at random would share out their words as it likes."""
    for path in files:
        if not re.fullmatch(r"kernels/(?!(?:host|cuda|draws)/)\w+/\w+\.hpp", path):
            continue
        for line in random_calls(files.text(path)):
            findings.append(f"{path}:{line}: two arguments of a call round at random, in an order that the compiler chooses.")


@functools.cache
def sections(text):
    """Headings of a page, as anchors."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@functools.cache
def links(text, is_page):
    """The places that it links to, as (path, anchor), and the sections that it cites."""
    return LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text)) if is_page else text), CITED.findall(text)


def check_links(files, findings):
    pages = {path: files.text(path) for path in files if path.endswith(".md")}
    for path in files:
        suffix = suffix_of(path)
        if suffix not in CPP | {".md", ".py"} or path.startswith("tools/dev/"):
            continue
        # A source writes pages in docs, in a folder there, or in records.
        folders = [os.path.dirname(path)] if suffix == ".md" else ["docs", "docs/mechanisms", "records"]
        found, cited = links(files.text(path), suffix == ".md")
        for target, anchor in found:
            if "{" in target or (suffix != ".md" and not target.endswith(".md")):
                continue
            places = [os.path.normpath(os.path.join(folder, target)) if target else path for folder in folders]
            there = [place for place in places if files.has(place)]
            if not there:
                findings.append(f"{path}: links to {target}, which is not there.")
            elif anchor and anchor not in sections(pages.get(there[0], "")):
                findings.append(f"{path}: links to {there[0]}#{anchor}, a section that is not there.")
        for page, section in cited:
            slug = re.sub(r"[^\w\- ]", "", section.lower()).replace(" ", "-")
            if slug not in sections(pages.get(f"docs/{page}", "")):
                findings.append(f'{path}: cites docs/{page}, "{section}", a section that is not there.')
    check_promises(pages, findings)
    check_tests(files, pages, findings)
    check_walked(files, pages, findings)


def check_tests(files, pages, findings):
    """Tests that a page names are there, and in the program that it names."""
    tests = {}  # suite -> the folders and names of its tests
    for path in files:
        if path.startswith("proptests/") and path.endswith(".cpp"):
            for suite, name in tests_in(files.text(path)):
                tests.setdefault(suite, []).append((os.path.basename(os.path.dirname(path)), name))
    for page, text in pages.items():
        for suite, name in re.findall(r"`([A-Z]\w+)\.(\w+)`", text):
            if suite in tests and name not in {known for _, known in tests[suite]}:
                findings.append(f"{page}: names the test {suite}.{name}, which is not there.")
        for program, asked in re.findall(r"proptests/test_(\w+) --gtest_filter='?([^'`\s]+)", text):
            pattern = re.compile(asked.replace(".", r"\.").replace("*", ".*"))
            if not any(folder == program and pattern.fullmatch(f"{suite}.{name}")
                       for suite, known in tests.items() for folder, name in known):
                findings.append(f"{page}: runs {asked} of test_{program}, which has no such test.")


def check_walked(files, pages, findings):
    """Finds pages whose console no test runs: a test names the page in one of WALKERS. Every transcript is run."""
    tests = "\n".join(files.text(path) for path in WALKERS if path in files)
    for page, text in pages.items():
        shown = "\n```console\n" in text and not page.startswith("proptests/transcripts/")
        if shown and not re.search(rf"(?<![\w/-]){re.escape(page.removesuffix('.md'))}(?![\w-])", tests):
            findings.append(f"{page}: shows commands that no test runs; {WALKERS[0]} lists pages that are walked.")


def check_promises(pages, findings):
    """A promise of README.md has numbers, in bold, and links to the pages that they are from."""
    for promise in re.findall(r"^\d+\. .*(?:\n +.*)*", pages.get("README.md", ""), re.MULTILINE):
        words = {word for target, _ in LINK.findall(promise) for word in words_of(pages.get(target, ""))}
        words |= {word.rstrip(".") for word in words} | {part for word in words for part in word.split("/")}
        for number in re.findall(r"\*\*([\d.⁰¹²³⁴-⁹⁻]+)\*\*", promise):
            if number not in words:
                findings.append(f"README.md: {number} is on none of the pages that its promise links to.")


def paragraphs(text):
    """Those of a page's prose, as (number of the first line, text). An item of a list is one."""
    found, indent, is_open = [], 0, False
    for number, line in enumerate(NO_PROSE.sub(lambda match: "\n" * match[0].count("\n"), text).split("\n"), start=1):
        depth = len(line) - len(line.lstrip())
        if NO_PROSE_LINE.match(line):
            is_open, indent = False, indent if depth or not line else 0  # a heading ends a list
            continue
        if not is_open:
            indent = indent if depth else 0
            if depth >= indent + 4:  # a block of code, or a formula
                continue
        item = ITEM.match(line)
        if is_open and not item:
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line}")
        else:
            found.append((number, line))
        indent, is_open = item.end() if item else indent, True
    return found


@functools.cache
def long_sentences(text):
    """Those of more than so many words, as (number of the line, words, how it begins). Code between backticks is a word."""
    found = []
    for number, paragraph in paragraphs(text):
        plain = INLINE.sub(lambda match: re.sub(r"\S| ", "x", match[0]), paragraph)
        ends = [0, *(match.end() for match in SENTENCE_END.finditer(plain)), len(plain)]
        for begin, end in zip(ends, ends[1:]):
            words = len([word for word in plain[begin:end].split() if re.search(r"\w", word)])
            if words > SENTENCE_WORDS:
                begin += len(plain[begin:end]) - len(plain[begin:end].lstrip())
                found.append((number + plain.count("\n", 0, begin), words, " ".join(paragraph[begin:end].split()[:6])))
    return found


def check_sentences(files, findings):
    """Readers are in a hurry: about 20 words are a sentence, and 45 are two."""
    for path in files:
        text = files.text(path) if path.endswith(".md") else GENERATED
        if not text.startswith(GENERATED):
            findings += [
                f'{path}:{number}: a sentence of {words} words, more than {SENTENCE_WORDS}; split "{begin} ..."'
                for number, words, begin in long_sentences(text)
            ]


def check_planted(files, findings):
    """A fault of the judge can be planted: the piece of source that it is put in place of stands there once."""
    for fault in json.loads(files.text(PLANTED)):
        if why := obstacle(files.text(fault["file"]) if fault["file"] in files else "", fault):
            findings.append(f"{PLANTED}: {why}")


def check_compiled(files, compiled, findings):
    reached, pending = set(), [path for path in compiled.files if path in files]
    for text in compiled.texts:
        pending += [path for path in INCLUDE.findall(text) + EMBEDDED.findall(text) if path in files]
    while pending:
        path = pending.pop()
        if path not in reached:
            reached.add(path)
            pending += [included for included in includes(files.text(path)) if included in files]
    for path in files:
        if path.startswith(("python/native/", "tools/install/downstream/")):  # projects of their own
            continue
        if suffix_of(path) in {".hpp", ".cpp", ".cuh"} and path not in reached:
            findings.append(f"{path}: no target of CMake compiles or includes it.")


def check(files, compiled=None):
    findings = []
    if "mechanisms.def" not in files:
        return ["mechanisms.def is missing."]
    for one in (check_rooms, check_text, check_includes, check_folders, check_cycles, check_programs, check_draws, check_links, check_sentences, check_planted):
        one(files, findings)
    if compiled:
        check_compiled(files, compiled, findings)
    return findings


def read_compiled(root, build):
    database = build / "compile_commands.json"
    if not database.exists():
        sys.exit(f"structure: {database} does not exist: configure with CMAKE_EXPORT_COMPILE_COMMANDS=ON first.")
    files, texts = set(), []
    for entry in json.loads(database.read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.is_relative_to(build):
            texts.append(path.read_text().replace(f'"{root}/', '"'))  # a batch of units includes them by their full path
        elif path.is_relative_to(root):
            files.add(path.relative_to(root).as_posix())
    return Compiled(files, texts)


def planted_faults(files, room, with_build):
    """Pairs of the edits that make a fault, {path: new text, or None to delete}, and what must be found."""
    listed, header = "mechanisms.def", f"reference/{room}.hpp"
    (program,) = places(f"kernels/*/{room}.hpp", files)

    def add(path, text):
        return {path: files.text(path) + text}

    faults = [
        (add(listed, f"MECHANISM({room})\n"), f"{room} is listed twice"),
        (add(listed, "MECHANISM(CamelCase)\n"), "neither a comment nor MECHANISM"),
        (add(listed, "#define STRAY\n"), "neither a comment nor MECHANISM"),
        (add(listed, "// carriage return\r\n"), "mechanisms.def:.*trailing whitespace"),
        (add(program, 'auto x = b.rows("S"_s, plus, b.dot("S"_s, y, y), b.load_row("S"_s, n, in, 0, 0));\n'), f"{program}:.*two arguments"),
        (add(header, "\t// tab\n"), f"{header}:.*a tab"),
        (add(header, "// trailing \n"), f"{header}:.*trailing whitespace"),
        (add(header, "// TO" + "DO later\n"), f"{header}:.*unfinished work"),
        (add("CMakeLists.txt", "# FIX" + "ME\n"), "CMakeLists.txt:.*unfinished work"),
        (add(header, "<<<<<<< ours\n"), f"{header}:.*conflict marker"),
        (add(header, "// no end of line"), f"{header}: the last line does not end"),
        ({header: "namespace assay {}\n"}, f"{header}: a header without #pragma once"),
        ({"tools/dev/planted": "#!/bin/sh\n"}, "tools/dev/planted: a script that cannot be executed"),
        (add(header, '#include "reference/core/nowhere.hpp"\n'), f"{header}:.*nowhere.hpp.*names no file"),
        (add(header, f'#include "{program}"\n'), f"{header}:.*points upwards"),
        ({f"kernels/falcon/{room}_old.hpp": "#pragma once\n"}, f"kernels/falcon/{room}_old.hpp belongs to no room"),
        (add(program, "struct Visibility {\n};\n"), "Visibility is also defined in kernels/"),
        ({f"files/many{i}.hpp": "#pragma once\n" for i in range(FOLDER_SOURCES)}, f"files: \\d+ sources, more than {FOLDER_SOURCES}"),
        (add("reference/core/error.hpp", f'#include "{header}"\n'), "includes itself: .*reference/core/error"),
    ]
    faults += [
        (add("README.md", "[no page](docs/nowhere.md)\n"), "README.md: links to docs/nowhere.md"),
        (add("docs/check.md", "[no section](judge-derivation.md#nowhere)\n"), "docs/check.md: links to docs/judge-derivation.md#nowhere"),
        (add(header, '// "[no section](judge-derivation.md#nowhere)"\n'), f"{header}: links to docs/judge-derivation.md#nowhere"),
        (add(header, '// docs/judge-derivation.md,\n// "Nowhere"\n'), f'{header}: cites docs/judge-derivation.md, "Nowhere"'),
        (add("docs/check.md", "`Check.passes_nothing`\n"), "docs/check.md: names the test Check.passes_nothing"),
        (add("docs/check.md", "build/proptests/test_core --gtest_filter='Check.*'\n"), "docs/check.md: runs Check.* of test_core"),
        ({"docs/planted.md": "A page\n\n```console\n$ true\n```\n"}, "docs/planted.md: shows commands that no test runs"),
        ({"judge/verdict/slices.cpp": files.text("judge/verdict/slices.cpp").replace("(index + 1) * slice_chunk - 1", "0")}, "rows_of_chunk_one_too_many: its piece stands 0 times"),
        ({PLANTED: files.text(PLANTED).replace('"from": "sign > 0"', '"from": "sign > 0 ?"')}, "mask_sides_exchanged: its piece is neither"),
        (add("README.md", "1. **123456** hold ([judge](docs/judge-derivation.md))\n"), "README.md: 123456 is on none"),
    ]
    for pattern in ROOM_FILES:
        (place,) = places(pattern.format(room), files)
        faults.append(({place: None}, re.escape(f"{pattern.format(room)} is missing")))
        faults.append((add(listed, "MECHANISM(planted)\n"), re.escape(f"{pattern.format('planted')} is missing")))
    for pattern in ROOM_FILES + ROOM_EXTRAS:
        place = pattern.format("planted").replace("*", FAMILIES[0])
        faults.append(({place: "#pragma once\n"}, f"{place} belongs to no room"))
    if with_build:
        orphan, pair = "oracles/core/orphan", "tools/orphan"
        faults += [
            ({f"{orphan}.cpp": "\n"}, f"{orphan}.cpp: no target"),
            ({f"{orphan}.hpp": "#pragma once\n"}, f"{orphan}.hpp: no target"),
            ({"kernels/cuda/stray.cuh": "#pragma once\n"}, "kernels/cuda/stray.cuh: no target"),
            ({f"{pair}.cpp": f'#include "{pair}.hpp"\n', f"{pair}.hpp": "#pragma once\n"}, f"{pair}.hpp: no target"),
        ]
    return faults


def planted_sentences(files):
    """As planted_faults, and edits of which nothing must be found."""
    page = "docs/check.md"
    line = files.text(page).count("\n") + 2  # of what is added, after a blank line
    short = " ".join(["word"] * SENTENCE_WORDS)
    long, what = f"{short} word", f"a sentence of {SENTENCE_WORDS + 1} words"

    def add(text):
        return {page: f"{files.text(page)}\n{text}\n"}

    faults = [
        (add(f"Short.\nPoint; {short}."), rf'{page}:{line + 1}: {what}.* "Point; word word word word word \.\.\."'),
        (add(f"{short}\nword"), f"{page}:{line}: {what}"),
        (add(f"- item\n- {long}"), f"{page}:{line + 1}: {what}"),
        (add(f"- item\n\n    {long}"), f"{page}:{line + 2}: {what}"),
        (add(f"A `word. It is`, i.e. {short[10:]}"), f"{page}:{line}: {what}"),
        (add(f"Words, ... {short}"), f"{page}:{line}: {what}"),
        (add(f"|x| is {short[5:]}"), f"{page}:{line}: {what}"),
    ]
    harmless = [
        add(f"{short}. {short}, ....\n{short}?\n- {short}\n- {short}"),
        add(f"A `{long}` {short[10:]}"),
        add(f"| {long} |\n|---|\n| {long} |\n\n### {long}\n<!-- {long} -->"),
        add(f"Code.\n\n    {long}\n\n```\n{long}\n\n{long}\n```\n\n- item\n\n      {long}\n\n### Code\n\n    {long}"),
        {"docs/planted.md": f"{GENERATED} planted.py -->\n\n{long}.\n"},
    ]
    return faults, harmless


def self_test(files, compiled):
    """Plants one fault after the other; staying silent, or saying something else, is a failure. Returns the failures."""
    room = next(iter(listed_rooms(files, [])))
    failures = 0
    before = set(check(files, compiled))
    faults, harmless = planted_sentences(files)
    faults += planted_faults(files, room, compiled is not None)
    for edits, expected in faults + [(edits, None) for edits in harmless]:
        planted = files.edited({path: text if text is None else text.encode() for path, text in edits.items()})
        found = set(check(planted, compiled)) - before
        if not (any(re.search(expected, finding) for finding in found) if expected else not found):
            failures += 1
            print(f"planted in {', '.join(edits)}: {expected or 'nothing'} was to be found; found: {sorted(found) or 'nothing'}.")
    print(f"structure: planted {len(faults)} faults and {len(harmless)} that are none, {failures} failures.")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[2])
    parser.add_argument("--build", type=pathlib.Path, help="a configured build folder")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    root = options.root.resolve()
    compiled = read_compiled(root, options.build.resolve()) if options.build else None
    files = tree(root)
    if options.self_test:
        return 1 if self_test(files, compiled) else 0
    findings = check(files, compiled)
    for finding in findings:
        print(finding)
    print(f"structure: {len(findings)} findings." if findings else "structure: nothing found.")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
