"""Writes json/FAMILY.json, or FOLDER/FAMILY.json: the rows of every family, in the order of its file."""
import importlib
import pathlib
import sys

import rows

FAMILIES = (
    "lla_family", "delta_family", "falcon_gains", "falcon_chunks", "falcon_family", "falcon_relations", "lla_errata", "delta_errata",
    "falcon_errata",
)  # fmt: skip


def main(folder):
    """Programs share nothing beyond a file."""
    folder.mkdir(exist_ok=True)
    for family in FAMILIES:
        first = len(rows.rows)
        importlib.import_module(family)
        text = rows.text(rows.rows[first:])
        (folder / f"{family}.json").write_text(text, encoding="utf-8", newline="\n")
        print(f"{family}.json: {len(rows.rows) - first} rows, {len(text)} bytes")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else rows.HERE / "json")
