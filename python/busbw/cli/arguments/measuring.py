"""The words of a measurement: which are the engine's, which say how ranks are started, and where the record goes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from busbw.base.errors import UsageError
from busbw.base.options import ENGINE, LAUNCH, MEASURING, options_of
from busbw.base.overwriting import refuse_overwriting
from busbw.base.words import Args, Given, Reader, value_of, values
from busbw.launch.engine import VARIABLE
from busbw.runs.destination import RecordChoice


@dataclass(frozen=True)
class Measurement:
    """One collective and everything that was said about measuring it, in the order in which it was said."""

    collective: str
    given: tuple[Given, ...]

    def has(self, name: str) -> bool:
        """Whether an option was given."""
        return any(each.option is not None and each.option.name == name for each in self.given)

    def texts(self, name: str) -> tuple[str, ...]:
        """What was given for an option, each time."""
        return tuple(each.text or "" for each in self.given if each.option is not None and each.option.name == name)

    def value(self, name: str) -> Any:
        """What the last text of an option means; None where it was not given."""
        for each in reversed(self.given):
            if each.option is not None and each.option.name == name:
                return value_of(each.option, each.text or "")
        return None

    @property
    def engine_words(self) -> tuple[str, ...]:
        """The engine's options as they were written; so is what this table does not know."""
        return tuple(w for each in self.given if each.option is None or each.option.half == ENGINE for w in each.words)

    @property
    def starts_ranks(self) -> bool:
        """Whether anything was said about a launch."""
        return any(each.option is not None and each.option.half == LAUNCH for each in self.given)

    @property
    def launch(self) -> Args:
        """The launch options."""
        return values([option for option in options_of(MEASURING) if option.half == LAUNCH], self.given)

    @property
    def record(self) -> RecordChoice:
        """Where the record goes."""
        named, runs = self.texts("record"), self.texts("runs")
        return RecordChoice(runs[-1] if runs else None, not self.has("no-record"), named[-1] if named else None)

    @property
    def ranks_per_process(self) -> int:
        """Threads times devices that the engine is asked for (-t, -g)."""
        counts = {option.name: value_of(option, option.default or "1")
                  for option in options_of(MEASURING) if option.name in {"nthreads", "ngpus"}}  # fmt: skip
        for each in self.given:
            if each.option is not None and each.option.name in counts:
                counts[each.option.name] = value_of(each.option, each.text or "")
        return int(counts["nthreads"] * counts["ngpus"])

    def without(self, *names: str) -> Measurement:
        """The same with these options left out."""
        kept = tuple(each for each in self.given if each.option is None or each.option.name not in names)
        return replace(self, given=kept)

    @property
    def words(self) -> tuple[str, ...]:
        """Everything again, the collective first."""
        return (self.collective, *(word for each in self.given for word in each.words))


def understand(collective: str, words: Sequence[str], before: Sequence[Given] = ()) -> Measurement:
    """Read what follows a collective; `before` are options that came before it.

    Where BUSBW_ENGINE names an engine, that one may know options which this table does not: it says so itself then.
    """
    prog = f"busbw {collective}"
    lenient = bool(os.environ.get(VARIABLE))
    read = Reader(options_of(MEASURING), prog, lenient=lenient).read(words)
    stray = [*([] if lenient else read.plain), *read.rest]
    if stray:
        raise UsageError(f"'{stray[0]}' is no option, and nothing else is expected; see `{prog} --help`")
    given = (*before, *read.given)
    refuse_overwriting(given)
    return Measurement(collective, given)
