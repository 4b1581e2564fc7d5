"""`busbw compare A B ...`: is B faster than A, where, by how much, how sure?"""

from __future__ import annotations

import json
import sys

from busbw.analysis.comparison import Comparison, Options, Side, compare_all
from busbw.base.errors import UsageError
from busbw.base.words import Args
from busbw.cli.sources import SOURCES_HELP, resolve, sharing
from busbw.records import Collective

EPILOG = f"""\
{SOURCES_HELP}
A+B+C names runs that repeat each other: they are one side, and their
differences are its noise.

exit code: 0 compared, 1 a run cannot be read or compared, 2 wrong usage or a
run that is not there

examples:
  busbw compare before.jsonl after.jsonl
  busbw compare old.log new.log --sizes 1M-1G
  busbw compare monday+tuesday+wednesday thursday
  busbw compare mine catalogue:nc48v4 --allow-different
"""


def run(args: Args) -> int:
    from busbw.base.text import wants_colour
    from busbw.report.comparison import comparison_json, comparison_text

    options = Options(allow_different=args.allow_different, margin=args.margin, sizes=args.sizes, ranks=args.ranks)
    found = comparisons(args.run, args.runs, options, args.collective)
    if args.json:
        print(json.dumps([comparison_json(each) for each in found], indent=2, ensure_ascii=False))
        return 0
    colour = wants_colour(sys.stdout)
    print("\n".join(comparison_text(each, colour=colour, table=not args.no_table) for each in found), end="")
    return 0


def comparisons(
    words: list[str], runs: str | None, options: Options, collective: Collective | None = None
) -> list[Comparison]:
    """Every other side against the first."""
    sides = [side for word in sharing(words) for side in _sides(word, runs, collective)]
    if len(sides) < 2:
        raise UsageError(f"'{words[0]}' is one run, and comparing needs two; see `busbw compare --help`")
    return compare_all(sides, options)


def _sides(word: str, runs: str | None, collective: Collective | None) -> list[Side]:
    from pathlib import Path

    parts = word.split("+") if "+" in word and not Path(word).exists() else [word]
    found = resolve(parts, runs, collective=collective)
    if len(parts) > 1:
        return [Side(word, tuple(each.record for each in found))]
    return [Side(each.label, (each.record,)) for each in found]
