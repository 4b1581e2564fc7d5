"""The first and last lines of records that differ in little from others: the runs of one log are thousands alike."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

from busbw.records.model import End, Rank, Run
from busbw.records.writer import ranks_to_json, run_to_json, to_json

MAX_KNOWN = 256
"""Kinds of runs whose text is remembered."""

_SAME = attrgetter(
    "started", "tool", "library", "program", "arguments", "launcher", "processes", "threads_per_process",
    "devices_per_thread", "machine", "conf", "tags", "notes",
    "source.file", "source.format", "source.heading", "source.command", "source.url",
)  # fmt: skip
_END_SAME = attrgetter(
    "outcome", "cases", "finished", "reason", "exit_code", "out_of_bounds", "average_busbw_GBps", "library_sha256"
)
_NAME = "busbw-no-name"
_LINE = 7_777_777_777_777
_PLACES = (f'"run":"{_NAME}"', '"ranks":[]', f'"line":{_LINE}')

Pieces = tuple[str, str, str, str]


class RunLines:
    """What `run_to_json` gives, by the text of a run that differs in its name, its ranks and its line only."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Pieces | None] = {}
        self._ranks: tuple[Rank, ...] = ()
        self._ranks_text = ""

    def of(self, run: Run) -> str:
        """The line of a run, without the newline."""
        pieces = self._pieces(run)
        if pieces is None or run.source is None:
            return run_to_json(run)
        if run.ranks != self._ranks:
            self._ranks, self._ranks_text = run.ranks, ranks_to_json(run.ranks)
        start, behind_name, behind_ranks, behind_line = pieces
        return (
            f'{start}"run":"{run.run}"{behind_name}"ranks":[{self._ranks_text}]{behind_ranks}'
            f'"line":{run.source.line}{behind_line}'
        )

    def _pieces(self, run: Run) -> Pieces | None:
        if run.source is None or run.source.line is None or run.extra or not is_plain(run.run):
            return None
        options = run.options
        try:
            # Types too: 1, 1.0 and true are equal and no two of them the same text.
            types = map(type, options.values())
            key = (_SAME(run), *run.system.items(), *options, *options.values(), *types, *run.environment.items())
            if key not in self._known:
                if len(self._known) >= MAX_KNOWN:
                    self._known.clear()
                self._known[key] = _pieces_of(run)
            return self._known[key]
        except TypeError:  # a list among the options
            return None


def _pieces_of(run: Run) -> Pieces | None:
    """The text around name, ranks and line; None where a text of the run looks like one of these places."""
    assert run.source is not None
    text = run_to_json(replace(run, run=_NAME, ranks=(), source=replace(run.source, line=_LINE)))
    pieces = []
    for place in _PLACES:
        before, found, text = text.partition(place)
        if not found:
            return None
        pieces.append(before)
    return None if any(place in each for place in _PLACES for each in [*pieces, text]) else (*pieces, text)  # type: ignore[return-value]


@lru_cache(maxsize=1024)
def is_plain(name: str) -> bool:
    """Whether a name stands in JSON as it is."""
    return name.isascii() and name.isprintable() and '"' not in name and "\\" not in name


def end_to_json(end: End) -> str:
    """What `to_json` gives for the end of a run."""
    if end.phases_s or end.strangers or end.extra or not is_plain(end.run):
        return to_json(end)
    before, behind = _end_pieces(*_END_SAME(end))
    return f'{before}"run":"{end.run}"{behind}'


@lru_cache(maxsize=MAX_KNOWN, typed=True)
def _end_pieces(*same: Any) -> tuple[str, str]:
    before, _, behind = to_json(End(_NAME, *same)).partition(_PLACES[0])
    return before, behind
