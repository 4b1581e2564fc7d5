"""What readers of other tools' tables share: a table that opens, takes rows and closes, with bandwidths from times."""

from __future__ import annotations

from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink
from busbw.records import Case, Collective
from busbw.records.bandwidth import algbw_GBps, busbw_GBps

MAX_ROWS = 20_000


class OpenTable:
    """The table that is being read; it becomes a run when it closes."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.draft: Draft | None = None
        self.around: Surroundings | None = None

    def open(self, draft: Draft, around: Surroundings) -> None:
        """Close what is open and start the next."""
        self.close()
        self.draft, self.around = draft, around

    def add(self, case: Case, line: str) -> None:
        """A row."""
        assert self.draft is not None and self.around is not None
        self.draft.cases.append(case)
        self.draft.rows += 1
        self.draft.content.append(line)
        if self.draft.rows >= MAX_ROWS:
            rest = Draft(
                self.draft.format, self.draft.tool, self.draft.line, self.draft.collective, size=self.draft.size
            )
            self.open(rest, self.around)

    def close(self) -> None:
        """The table ends."""
        draft, around = self.draft, self.around
        self.draft = self.around = None
        if draft is not None and around is not None:
            if draft.cases:
                self._sink.sweep_ends(draft, around)
            else:
                self._sink.problem(draft.line, "a table starts here, but holds no rows")


def bandwidths(
    collective: Collective, size: int, time_us: float | None, ranks: int | None
) -> tuple[float | None, float | None]:
    """(algorithm, bus) bandwidth in GB/s of a time, where the number of ranks is known."""
    if not ranks or not time_us or time_us <= 0:
        return None, None
    algbw, busbw = algbw_GBps(collective, size, time_us, ranks), busbw_GBps(collective, size, time_us, ranks)
    return None if algbw is None else round(algbw, 6), None if busbw is None else round(busbw, 6)


def op_of_collective(collective: Collective) -> str | None:
    """The reduction that tools without a choice of one use."""
    return "sum" if collective in ("all_reduce", "reduce_scatter", "reduce") else None
