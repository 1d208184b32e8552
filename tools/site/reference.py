"""The reference of Python and C++ on the site, from their sources: what is public, and what its comments say of it."""
import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python/assay"
# Headers that programs outside of the tree include.
HEADERS = [
    "tools/gtest.hpp", "judge/court/judge_answer.hpp", "judge/verdict/judge.hpp", "judge/sigma/expected.hpp", "judge/contract/contract.hpp",
    "oracles/core/oracle.hpp", "oracles/core/room.hpp", "files/problem_file.hpp", "files/safetensors.hpp", "tools/verbs/command.hpp",
    "tools/plugin/assay_plugin.h",
]  # fmt: skip


# ---- Python ----


def tree_of(path):
    return ast.parse(path.read_text())


def assigned(tree, name):
    """The value that a module gives a name, a literal."""
    return next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name)


def property_docstring(node):
    """The docstring of `name = property(..., doc="...")`."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "property":
        return next((keyword.value.value for keyword in node.value.keywords if keyword.arg == "doc"), "")
    return None


def docstrings(nodes):
    """{name: docstring} of functions and classes, members as Class.member."""
    found = {}
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = ast.get_docstring(node) or ""
        if isinstance(node, ast.ClassDef):
            for name, words in docstrings(node.body).items():
                found[f"{node.name}.{name}"] = words
        elif (words := property_docstring(node)) is not None:
            found[node.targets[0].id] = words
    return found


def said_by_sources():
    """{name: docstring} of all that `import assay` has, each from its own module; the stubs say it of what is compiled."""
    found = docstrings(tree_of(PACKAGE / "__init__.pyi").body)
    for home, names in assigned(tree_of(PACKAGE / "__init__.py"), "_HOMES").items():
        files = sorted((PACKAGE / home).glob("*.py")) if (PACKAGE / home).is_dir() else [PACKAGE / f"{home}.py"]
        for path in files if home != "_native" else ():
            every = docstrings(tree_of(path).body)
            found |= {name: words for name, words in every.items() if name.partition(".")[0] in names and words}
    return found


def signature(node, name):
    text = ast.unparse(ast.FunctionDef(name, node.args, [ast.Expr(ast.Constant(...))], [], node.returns, lineno=0))
    return re.sub(r"\((self|cls)(, )?", "(", text.removeprefix("def ").partition(":\n")[0])


def markdown(docstring):
    """A docstring as markdown: indented parts are code."""
    return docstring.replace("<", "&lt;")


def adapters():
    """Lines on assay.adapters: each module with its functions."""
    lines = ["## adapters", "", markdown(ast.get_docstring(tree_of(PACKAGE / "adapters/__init__.py"))), ""]
    for path in sorted((PACKAGE / "adapters").glob("[a-z]*.py")):
        tree = tree_of(path)
        made = [node.targets[0].id for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
        made = [name for name in made if name.islower()]
        if made:
            words = ast.get_docstring(tree).partition("\n\n")[0].replace("\n", " ")
            lines.append(f"- `assay.adapters.{path.stem}`: {', '.join(f'`{name}`' for name in made)}. {words}")
    return [*lines, ""]


def executors(findings):
    """Lines on assay.executors: each function that makes one."""
    tree = tree_of(PACKAGE / "executors.py")
    lines = ["## executors", "", markdown(ast.get_docstring(tree)), ""]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                findings.append(f"assay.executors.{node.name}: no docstring says what it is.")
            lines += ["```python", signature(node, f"assay.executors.{node.name}"), "```", "", markdown(ast.get_docstring(node) or ""), ""]
    return lines


def member(node, owner, said, findings):
    """A line on a method, a property or a field."""
    if isinstance(node, ast.AnnAssign):
        return f"- `{ast.unparse(node)}`"
    words = said.get(f"{owner}.{node.name}", "").split("\n\n")[0].replace("\n", " ")
    if not words:
        findings.append(f"assay.{owner}.{node.name}: no docstring says what it is.")
    is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)
    shown = f"{node.name} -> {ast.unparse(node.returns)}" if is_property else signature(node, node.name)
    return f"- `{shown}`: {words}"


def python_page(findings):
    """The page of all that the stubs list, with the words of the sources on it; a name without words is a finding."""
    said, lines = said_by_sources(), ["# Python", "", "What `import assay` has; [From Python](../python.md) shows it at work.", ""]
    for node in tree_of(PACKAGE / "__init__.pyi").body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        if not said.get(node.name):
            findings.append(f"assay.{node.name}: no docstring says what it is.")
        lines += [f"## {node.name}", ""]
        if isinstance(node, ast.FunctionDef):
            lines += ["```python", signature(node, f"assay.{node.name}"), "```", ""]
        lines += [markdown(said.get(node.name, "")), ""]
        if isinstance(node, ast.ClassDef):
            shown = [inner for inner in node.body if isinstance(inner, ast.AnnAssign) or (isinstance(inner, ast.FunctionDef) and not inner.name.startswith("__"))]
            lines += [*(member(inner, node.name, said, findings) for inner in shown), ""]
    return "\n".join([*lines, *adapters(), *executors(findings)]) + "\n"


# ---- C++ ----


def matching(text, start):
    """Where the bracket that opens at start closes; strings and comments are passed over."""
    depth, i = 0, start
    while i < len(text):
        if text.startswith("//", i):
            i = text.find("\n", i)
            continue
        if text[i] in "\"'" and not (text[i] == "'" and text[i - 1].isalnum()):
            quote, i = text[i], i + 1
            while text[i] != quote:
                i += 2 if text[i] == "\\" else 1
        elif text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return i
        i += 1
    raise ValueError("a bracket that nothing closes")


def declaration(text, start):
    """(what is declared at start, where it ends): a type whole but for its private part, anything else without its body.

    >>> declaration("inline int f(int x = 1) { return x; }", 0)[0]
    'inline int f(int x = 1);'
    >>> declaration("int a[] = {1, 2};", 0)[0]
    'int a[] = {1, 2};'
    >>> declaration("struct A {\\n  int b = {};  ///< c\\n  int d() const { return b; }\\n private:\\n  int e;\\n};", 0)[0]
    'struct A {\\n  int b = {};  ///< c\\n  int d() const;\\n};'
    """
    i, of_type = start, re.match(r"(template <.*?>\s*)?(struct|class|enum|union)\b", text[start:], re.DOTALL)
    while text[i] != ";":
        if text[i] in "([" or (text[i] == "{" and not of_type and re.search(r"=\s*$", text[start:i])):
            i = matching(text, i)
        elif text[i] == "{" and of_type:
            end = matching(text, i)
            return type_of(text[start:i], text[i + 1 : end]), text.index(";", end)
        elif text[i] == "{":  # the body of a function
            return text[start:i].rstrip() + ";", matching(text, i)
        i += 1
    return text[start : i + 1], i


def type_of(head, body):
    body = re.split(r"^ *(?:private|protected):", body, maxsplit=1, flags=re.MULTILINE)[0].rstrip()
    while found := re.search(r"\)(?: const| noexcept| override)*(?:\s*:[^;{}]*)?\s*\{", body):
        body = body[: found.end() - 1].rstrip() + ";" + body[matching(body, found.end() - 1) + 1 :]
    return head + "{" + (body + "\n" if "\n" in body else body) + "};"


def declarations(text):
    """(comment, declaration) of what has a comment of three slashes in front, and of macros."""
    at = 0
    while found := re.compile(r"^((?:///.*\n)+)(?://[^/].*\n)*|^#define (\w+\(.*?\))", re.MULTILINE).search(text, at):
        if found[2]:
            yield "", "#define " + found[2]
            at = found.end()
            continue
        shown, at = declaration(text, found.end())
        yield " ".join(line.removeprefix("///").strip() for line in found[1].splitlines()), shown


def header(name):
    """Lines on a header. One of C is shown whole: its comments stand at what they are about."""
    text = (ROOT / name).read_text()
    if name.endswith(".h"):
        about, _, rest = text.removeprefix("/*").partition("*/")
        return [f"## {name}", "", " ".join(about.split()).replace("<", "&lt;"), "", "```c", rest.strip(), "```", ""]
    lines, about = [f"## {name}", ""], re.search(r"^#pragma once\n((?://.*\n)+)", text, re.MULTILINE)
    for paragraph in about[1].replace("// ", "").replace("//\n", "\n").split("\n\n") if about else ():
        # An indented paragraph is code.
        lines += ["  " + paragraph.rstrip() if paragraph.startswith("  ") else " ".join(paragraph.split()).replace("<", "&lt;"), ""]
    for comment, shown in declarations(text):
        lines += ["```cpp", shown, "```", "", *([comment.replace("<", "&lt;"), ""] if comment else [])]
    return lines


def cpp_page():
    about = "What programs include; `find_package(assay)` and `pkg-config assay` say where it is. Everything is in `namespace assay`."
    return "\n".join(["# C++", "", about, "", *(line for name in HEADERS for line in header(name))]) + "\n"
