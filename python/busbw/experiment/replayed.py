"""A trial that is a replay of a recorded job: its command, and the times that `busbw replay --times` wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from busbw.base.errors import UsageError, UserError
from busbw.base.files import read_text
from busbw.base.options import options_of
from busbw.base.words import Reader
from busbw.experiment.trial import TOTAL, Point

REPLAY = "replay"
"""As the first word of what is measured: a recording, in the words of `busbw replay`."""
TIMES_NAME = "times.json"
MAX_BYTES = 64 << 20
MAX_LINES = 100_000


def check_words(words: Sequence[str], launch: Sequence[str]) -> None:
    """UsageError where a replay cannot be measured so."""
    if launch:
        raise UsageError("a replay runs on this host alone: --launch has no place beside it")
    given = Reader(options_of(REPLAY), "busbw replay", lenient=True).read(list(words[1:])).given
    if any(each.option is not None and each.option.name == "times" for each in given):
        raise UsageError("--times belongs to no experiment: it keeps the times of its trials itself")
    folders = [each for each in given if each.option is None]
    if len(folders) != 1:
        raise UsageError("a replay needs one folder of recordings: --replay FOLDER, then options of `busbw replay`")


def replay_words(words: Sequence[str], ranks: int, times: Path) -> list[str]:
    """What stands after `busbw`; one rank stands for all that were recorded."""
    return [REPLAY, *(["--ranks", str(ranks)] if ranks > 1 else []), *words[1:], "--times", str(times)]


def times_in(path: Path) -> tuple[dict[Point, float], dict[Point, float], int]:
    """Times in us and bus bandwidths in GB/s by point, and how many results were wrong; UserError where it is none."""
    text = read_text(path, MAX_BYTES, hint="no file of times is")
    try:
        raw = json.loads(text)
        if raw["schema"] != 1 or len(raw["calls"]) > MAX_LINES:
            raise ValueError("another schema, or too many lines")
        wrong = _count(raw["wrong"])
        times, rates = {}, {}
        for line in raw["calls"]:
            point = Point(
                _word(line["collective"]), _count(line["bytes"]),
                f"{line['collective']} of {_count(line['ranks'])} ranks",
                f"{_word(line['type'])} {_count(line['communicator'])}",
            )  # fmt: skip
            times[point], rates[point] = max(_figure(line["replayed_us"]), 1e-3), _figure(line["busbw_GBps"])
        total = Point(REPLAY, 0, TOTAL)
        times[total], rates[total] = max(_figure(raw["rank_us"]), 1e-3), 0.0
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise UserError(f"{path} has no times of a replay ({problem!r})") from None
    return times, rates, wrong


def _word(value: object) -> str:
    """Of the field's names, which hold nothing that parts a point."""
    if not isinstance(value, str) or not value.replace("_", "").isalnum() or len(value) > 40:
        raise ValueError(f"{str(value)[:40]!r} is no name")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError("no count")
    return value


def _figure(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e15:
        raise ValueError("no time or rate")
    return float(value)
