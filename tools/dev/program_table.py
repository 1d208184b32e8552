"""A table of programs in records/: measures its rows, writes its page, or measures a few rows again and compares them with the page."""
import argparse


def main(doc, page, names, checked, rows, text):
    """rows(tool, name): those of a program; text(lines): the page with these."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    options = parser.parse_args()
    if options.check:
        there = page.read_text().splitlines()
        on_page = {line.split("|")[1].strip() for line in there if line.startswith("| ")} - {"program", "---"}
        missing = sorted(set(names) ^ on_page)
        wrong = [r for name in checked for r in rows(options.tool, name) if r not in there]
        print("\n".join([*(f"{page.name}: {name} has no row, or no program" for name in missing), *(f"now: {r}" for r in wrong)]))
        return 1 if missing or wrong else 0
    lines = []
    for name in options.programs or names:
        lines += rows(options.tool, name)
        print(lines[-1], flush=True)
    if options.write:
        page.write_text(text(lines))
    return 0
