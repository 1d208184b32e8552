#!/usr/bin/env python3
"""Writes assay's page of the manual and its completion for bash, zsh and fish, from what the program's own --help says.

    pages.py --tool PREFIX/bin/assay --share PREFIX/share
"""
import argparse
import pathlib
import re
import subprocess


def said(tool, *words):
    return subprocess.run([tool, *words], capture_output=True, text=True, check=True).stdout


def parts(help_text):
    """A verb's help: (what it does, its usage, [(heading, [(flag, words)])])."""
    lines = help_text.splitlines()
    summary, usage = lines[0], next((line.removeprefix("Usage: ") for line in lines if line.startswith("Usage: ")), "")
    sections = []
    for line in lines[2:]:
        if re.fullmatch(r"\S.*:", line):
            sections.append((line[:-1], []))
        elif sections and re.match(r"  \S", line):
            flag, _, words = line.strip().partition("  ")
            sections[-1][1].append([flag, words.strip()])
        elif sections and sections[-1][1] and line.strip():
            entry = sections[-1][1][-1]
            entry[1] = f"{entry[1]} {line.strip()}".strip()
    return summary, usage, sections


def verbs_of(tool):
    listed = dict(parts(said(tool, "--help"))[2])["Subcommands"]
    return [(name, words, parts(said(tool, name, "--help"))) for name, words in listed]


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def manual(tool, version, verbs):
    summary = parts(said(tool, "--help"))[0].removeprefix("assay: ")
    page = [f'.TH ASSAY 1 "" "assay {version}"', ".SH NAME", f"assay \\- {roff(summary)}", ".SH SYNOPSIS", ".B assay", "VERB [OPTIONS]", ".SH VERBS"]
    for name, words, _ in verbs:
        page += [".TP", f".B {name}", roff(words)]
    for name, words, (_, usage, sections) in verbs:
        page += [f".SH ASSAY {name.upper()}", roff(f"{words[0].upper()}{words[1:]}."), ".PP", roff(usage)]
        for heading, entries in sections:
            page += [f".SS {heading}"]
            for flag, meaning in entries:
                page += [".TP", f".B {roff(flag)}", roff(meaning)]
    page += [".SH EXIT STATUS", "0: passed; 1: something that was judged did not pass; 2: bad use or bad input, said in one sentence; 3: assay itself broke."]
    return "\n".join(page) + "\n"


def flags_of(sections):
    """{flag: the words that it takes, if these are listed}"""
    found = {}
    for _, entries in sections:
        for entry, _ in entries:
            choices = re.search(r"\{([^}]*)\}", entry)
            for flag in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", entry.split(" Excludes")[0]):
                found[flag] = choices[1].split(",") if choices else []
    return found


def bash(verbs):
    lines = ["# Completion of assay for bash.", "_assay() {", '  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}',
             "  COMPREPLY=()", '  if [ "$COMP_CWORD" -eq 1 ]; then', f"    COMPREPLY=($(compgen -W '{' '.join(name for name, *_ in verbs)} --help --version' -- \"$word\"))",
             "    return", "  fi", '  case "$verb $before" in']  # fmt: skip
    for name, _, (_, _, sections) in verbs:
        for flag, choices in flags_of(sections).items():
            if choices:
                lines.append(f"    '{name} {flag}') COMPREPLY=($(compgen -W '{' '.join(choices)}' -- \"$word\")); return ;;")
    lines += ["  esac", '  case "$verb" in']
    for name, _, (_, _, sections) in verbs:
        lines.append(f"    {name}) [[ $word == -* ]] && COMPREPLY=($(compgen -W '{' '.join(flags_of(sections))}' -- \"$word\")) ;;")
    return "\n".join([*lines, "  esac", "}", "complete -o default -F _assay assay", ""])


def zsh(verbs):
    """zsh reads what is written for bash."""
    return "#compdef assay\nautoload -U +X bashcompinit && bashcompinit\n" + bash(verbs)


def fish(verbs):
    def quoted(text):
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    lines = ["# Completion of assay for fish."]
    for name, words, (_, _, sections) in verbs:
        lines.append(f"complete -c assay -n __fish_use_subcommand -a {name} -d {quoted(words)}")
        for flag, choices in flags_of(sections).items():
            switch = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            takes = f" -x -a {quoted(' '.join(choices))}" if choices else ""
            lines.append(f"complete -c assay -n '__fish_seen_subcommand_from {name}' {switch}{takes}")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--share", required=True, type=pathlib.Path)
    options = parser.parse_args()
    version, verbs = said(options.tool, "--version").split()[-1], verbs_of(options.tool)
    for place, text in [
        ("man/man1/assay.1", manual(options.tool, version, verbs)),
        ("bash-completion/completions/assay", bash(verbs)),
        ("zsh/site-functions/_assay", zsh(verbs)),
        ("fish/vendor_completions.d/assay.fish", fish(verbs)),
    ]:
        path = options.share / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
