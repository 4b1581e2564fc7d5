"""Where the time of a batch goes: when threads start, how long they launch, how often they ask whether it has ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import mean, median
from typing import NamedTuple


class Event(NamedTuple):
    kind: str  # c: a call, p: a poll that found the operation running
    count: int
    begin: int  # ns
    end: int


@dataclass
class Batch:
    """Calls of one rank without a poll between them, and the polls behind them."""

    calls: list[Event] = field(default_factory=list)
    polls: list[Event] = field(default_factory=list)


def read(lines: Iterable[str]) -> dict[tuple[int, int], list[Event]]:
    """Events by process and thread, as libbusbw_test_timeline.so wrote them."""
    ranks: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for line in lines:
        process, thread, kind, *numbers = line.split()
        ranks[int(process), int(thread)].append(Event(kind, *map(int, numbers)))
    return {rank: events for rank, events in ranks.items() if any(event.kind == "c" for event in events)}


def batches(events: Iterable[Event]) -> Iterator[Batch]:
    batch = Batch()
    for event in events:
        if event.kind == "p":
            batch.polls.append(event)
        else:
            if batch.polls or (batch.calls and batch.calls[-1].count != event.count):
                yield batch
                batch = Batch()
            batch.calls.append(event)
    yield batch


def _timed(batch: Batch, iterations: int) -> Batch:
    """Without the operation before, where no poll found that running."""
    return Batch(batch.calls[-iterations:], batch.polls)


def summary(ranks: dict[tuple[int, int], list[Event]], iterations: int) -> list[dict[str, float]]:
    """By count of elements, means in us over the timed batches: those of as many calls.

    `wait`: from a rank's first call to that of the last rank, mean over the ranks. `call`: one launch. `between`: from
    the begin of one call to that of the next. `poll`: from one poll to the next. `batch`: from the first call to the
    last poll that found it running, by call.
    """
    timed = [
        [_timed(b, iterations) for b in batches(events) if len(b.calls) >= iterations] for events in ranks.values()
    ]
    if len({len(each) for each in timed}) != 1:
        raise ValueError(f"the ranks made {sorted({len(each) for each in timed})} timed batches: not the same number")
    rows: dict[int, list[dict[str, float]]] = defaultdict(list)
    for together in zip(*timed, strict=True):
        begins = [batch.calls[0].begin for batch in together]
        polls = [b.begin - a.begin for batch in together for a, b in zip(batch.polls, batch.polls[1:], strict=False)]
        found = {
            "wait": max(begins) - mean(begins),
            "call": mean(call.end - call.begin for batch in together for call in batch.calls),
            "between": mean((b.calls[-1].begin - b.calls[0].begin) / max(1, iterations - 1) for b in together),
            "batch": mean((b.polls or b.calls)[-1].end - b.calls[0].begin for b in together) / iterations,
        }
        rows[together[0].calls[0].count].append({**found, **({"poll": median(polls)} if polls else {})})
    return [
        {"count": count}
        | {key: mean(b[key] for b in found if key in b) / 1e3 for key in sorted({k for b in found for k in b})}
        for count, found in sorted(rows.items())
    ]
