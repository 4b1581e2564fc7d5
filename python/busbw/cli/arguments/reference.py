"""The tables of docs/reference/options.md and the schema of a launch, made from the table of options.

`python -m busbw.cli.arguments.reference` in a clone writes both anew; a test compares them with what is there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from busbw.base.options import ENGINE, LAUNCH, MEASURING, Option, actions_of, groups, options_of, title, words_of
from busbw.cli.verbs import COLLECTIVES, VERBS

BEGIN, END = "<!-- made by python -m busbw.cli.arguments.reference -->\n", "<!-- end of what is made -->\n"
_JSON_TYPES = {"count": "integer", "number": "number", "flag": "boolean"}


def tables() -> str:
    """Every option of every verb in Markdown."""
    engine = [each for each in options_of(MEASURING) if each.half == ENGINE]
    others = [each for each in options_of(MEASURING) if each.half != ENGINE]
    parts = [
        "## Options of a measurement\n",
        *_grouped(engine),
        "## Options that `busbw COLLECTIVE` and `busbw run` take too\n",
        *_grouped(others),
        "## Options of the other verbs\n",
    ]
    for verb in VERBS:
        if verb.name in COLLECTIVES or verb.name == "run":
            continue
        for name in [f"{verb.name} {action}" for action in actions_of(verb.name)] or [verb.name]:
            shapes = {"1": "{}", "?": "[{}]", "*": "[{} ...]", "+": "{} ...", "rest": "[{}]"}
            words = " ".join(shapes[each.count].format(each.name) for each in words_of(name))
            parts.append(f"### busbw {name} {words}".rstrip() + "\n")
            parts.append(_table([each for each in options_of(name) if each.name != "help"]))
    return "\n".join([*parts, "## Old names\n", _old()])


def launch_schema() -> dict[str, Any]:
    """JSON Schema of a launch: the options that say how ranks are started, as an object."""
    properties: dict[str, Any] = {}
    for each in options_of(MEASURING):
        if each.half != LAUNCH:
            continue
        one: dict[str, Any] = {"type": _JSON_TYPES.get(each.unit if each.value else "flag", "string")}
        low, high = each.range or (None, None)
        one |= {"enum": list(each.choices)} if each.choices else {}
        one |= {"minimum": low} if low is not None else {}
        one |= {"maximum": high} if high is not None else {}
        found = {"type": "array", "items": one} if each.repeats else one
        found["description"] = each.help + (
            f" (only with launcher {', '.join(each.launchers)})" if each.launchers else ""
        )
        properties[each.name] = found
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "How the ranks of a busbw measurement are started",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


def _grouped(options: list[Option]) -> list[str]:
    found = []
    for group in groups():
        inside = [each for each in options if each.group == group]
        if inside:
            found += [f"### {title(group)}\n", _table(inside)]
    return found


def _table(options: list[Option]) -> str:
    if not options:
        return "It takes no options.\n"
    lines = ["| option | default | meaning |", "|---|---|---|"]
    for each in options:
        names = ", ".join(([f"`-{each.letter}`"] if each.letter else []) + [f"`--{each.name}`"])
        value = f" {each.value}" if each.value else ""
        ours = " \\*" if each.half == ENGINE and not each.theirs else ""
        often = "; may be repeated" if each.repeats and "wo or more" not in each.help else ""
        lines.append(_row(f"{names}{value}", each.said or each.default or "", each.help + often + ours))
    return "\n".join(lines) + "\n"


def _old() -> str:
    lines = ["| verb | old name | now |", "|---|---|---|"]
    seen = set()
    for verb in VERBS:
        key = MEASURING if verb.name in COLLECTIVES else verb.name
        for each in options_of(key):
            for name in each.old:
                row = _row("COLLECTIVE" if key == MEASURING else key, f"`{name}`", f"`--{each.name}`")
                if row not in seen:
                    lines.append(row)
                    seen.add(row)
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def with_tables(page: str) -> str:
    """The page with its tables made anew."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + "\n" + tables() + "\n" + END + rest.partition(END)[2]


def main() -> int:
    """Write the page and the schema of the clone that this module lies in."""
    root = Path(__file__).resolve().parents[4]
    page = root / "docs" / "reference" / "options.md"
    page.write_text(with_tables(page.read_text()))
    (root / "schema" / "launch.schema.json").write_text(json.dumps(launch_schema(), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
