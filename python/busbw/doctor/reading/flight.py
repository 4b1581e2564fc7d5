"""PyTorch's flight recorder, as JSON: which collective each rank was in when the job stood still, and who lags.

A dump is an object with `entries`, of which each has `collective_seq_id` (older: `seq_id`), `profiling_name`
("nccl:all_reduce"), `state` (scheduled, started, completed), `input_sizes`, `process_group`, and often the `rank` at
the top (torch/csrc/distributed/c10d/FlightRecorder.hpp). Several ranks may be in one file, as an object or a list.
"""

from __future__ import annotations

import gc
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from busbw.base.secrets import hide_values, shortened

MAX_BYTES = 256 << 20
MAX_ENTRIES = 1_000_000
_RANK_IN_NAME = re.compile(r"rank[_-]?(?:[A-Za-z][\w.-]*_)?(\d{1,7})(?=\D*$)|_(\d{1,7})(?:\.json)?$")


@dataclass(frozen=True, slots=True)
class Call:
    """One collective of one rank."""

    group: str
    number: int
    name: str
    state: str
    sizes: str


@dataclass(frozen=True, slots=True)
class Flight:
    """What one rank recorded; `rank` is -1 where nothing names it."""

    source: str
    rank: int
    calls: tuple[Call, ...]


def looks_like(start: str) -> bool:
    """Whether a file that begins so may be a dump of the flight recorder."""
    return start.lstrip()[:1] in {"{", "["} and '"entries"' in start and '"profiling_name"' in start


def read_flights(text: str, source: str) -> tuple[Flight, ...]:
    """The dumps in a JSON text; () where it is none."""
    collects = gc.isenabled()
    # JSON holds no cycles, and to look for some takes 40 % of the time of a dump of 30 MB.
    gc.disable()
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    finally:
        if collects:
            gc.enable()
    return tuple(_flights(raw, source))


def bare(text: str, source: str) -> str:
    """The dumps with what is read of them and nothing else: no frames, no paths of a program."""
    return json.dumps([
        {"rank": each.rank, "entries": [
            {"collective_seq_id": call.number, "profiling_name": call.name, "state": call.state,
             "input_sizes": call.sizes, "process_group": call.group}
            for call in each.calls
        ]}
        for each in read_flights(text, source)
    ])  # fmt: skip


def _flights(raw: Any, source: str) -> Iterator[Flight]:
    if isinstance(raw, list):
        # In one list without names they stand in their order.
        named = any(isinstance(each, dict) and {"rank", "global_rank"} & each.keys() for each in raw) or len(raw) < 2
        for at, each in enumerate(raw[:10_000]):
            yield from _flights(each if named or not isinstance(each, dict) else {"rank": at, **each}, source)
    elif isinstance(raw, dict) and isinstance(raw.get("entries"), list):
        calls = tuple(call for each in raw["entries"][:MAX_ENTRIES] if (call := _call(each)) is not None)
        yield Flight(source, _rank(raw, source), calls)
    elif isinstance(raw, dict):
        for name, each in list(raw.items())[:10_000]:
            if isinstance(each, dict) and "entries" in each:
                yield from _flights({"rank": name, **each}, source)


def _rank(raw: Mapping[str, Any], source: str) -> int:
    named = raw.get("rank", raw.get("global_rank"))
    if isinstance(named, int) or (isinstance(named, str) and named.isdecimal() and len(named) < 8):
        return int(named)
    found = _RANK_IN_NAME.search(source)
    return int(found[1] or found[2]) if found else -1


def _call(raw: Any) -> Call | None:
    if not isinstance(raw, dict):
        return None
    number = raw.get("collective_seq_id", raw.get("seq_id"))
    if not isinstance(number, int) or raw.get("is_p2p"):
        return None
    group = raw.get("process_group", raw.get("pg_name", raw.get("pg_id", 0)))
    if isinstance(group, list) and len(group) == 2:  # its name and what it is for
        group = f"{group[0]} ({group[1]})" if group[1] else group[0]
    name, state = str(raw.get("profiling_name", "?")), str(raw.get("state", "?"))[:20]
    # Gloo has no events of a GPU that would end it: what has come to its end is taken off the list, and no more.
    if raw.get("retired") is True and name.startswith("gloo:"):
        state = "completed"
    return Call(
        _public(shortened(str(group), 80)), number, _public(shortened(name, 80)), state,
        str(raw.get("input_sizes", ""))[:120],
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _public(text: str) -> str:
    return hide_values(text)


@dataclass(frozen=True, slots=True)
class Standstill:
    """Where a process group stands: what differs, or who lags, in a sentence with its evidence."""

    mismatch: bool
    title: str
    facts: tuple[tuple[str, str], ...]


def standstills(flights: Sequence[Flight]) -> Iterator[Standstill]:
    """For each process group the first collective that differs between ranks, else the ranks that are behind."""
    groups: dict[str, dict[int, dict[int, Call]]] = defaultdict(lambda: defaultdict(dict))
    sources = {flight.rank: flight.source for flight in flights}
    for flight in flights:
        for call in flight.calls:
            groups[call.group][flight.rank][call.number] = call
    for group, ranks in groups.items():
        if len(ranks) > 1 and (found := _mismatch(group, ranks, sources) or _lag(group, ranks, sources)):
            yield found


def _mismatch(group: str, ranks: Mapping[int, Mapping[int, Call]], sources: Mapping[int, str]) -> Standstill | None:
    numbers = sorted(set.intersection(*(set(calls) for calls in ranks.values())))
    for number in numbers:
        kinds: dict[tuple[str, str], list[int]] = defaultdict(list)
        for rank, calls in ranks.items():
            call = calls[number]
            # Gathers and all-to-all may have sizes of their own on each rank.
            same_size = any(word in call.name for word in ("all_reduce", "broadcast", "_base", "reduce_scatter"))
            kinds[call.name, call.sizes if same_size else ""].append(rank)
        if len(kinds) > 1:
            said = [(f"rank {_ranks(each)}: {name} {sizes}".strip(), sources[each[0]])
                    for (name, sizes), each in kinds.items()]  # fmt: skip
            odd = min(kinds.values(), key=len)
            return Standstill(
                True, f"collective {number} of process group {group} differs between ranks: rank {_ranks(odd)} "
                "calls another one, or with another size", tuple(said[:6]),
            )  # fmt: skip
    return None


def _lag(group: str, ranks: Mapping[int, Mapping[int, Call]], sources: Mapping[int, str]) -> Standstill | None:
    last = {rank: max(calls) for rank, calls in ranks.items() if calls}
    done = {rank: max((n for n, call in calls.items() if call.state == "completed"), default=0)
            for rank, calls in ranks.items()}  # fmt: skip
    for word, places in (("was called", last), ("completed", done)):
        low, high = min(places.values()), max(places.values())
        if low < high:
            behind = [rank for rank, place in places.items() if place == low]
            next_call = next((calls[low + 1] for calls in ranks.values() if low + 1 in calls), None)
            what = f" ({next_call.name})" if next_call else ""
            return Standstill(
                False, f"rank {_ranks(behind)} lags in process group {group}: its last collective that {word} is "
                f"{low}, others have {high}; they wait in number {low + 1}{what}",
                tuple((f"rank {rank}: {word} up to {places[rank]}", sources[rank]) for rank in behind[:4]),
            )  # fmt: skip
    waiting = [rank for rank, calls in ranks.items() if calls and calls[last[rank]].state != "completed"]
    if not waiting:
        return None
    call = ranks[waiting[0]][last[waiting[0]]]
    return Standstill(
        False, f"all ranks of process group {group} are in collective {call.number} ({call.name}) and none ends: the "
        "network or a GPU stands still, or a rank left no dump",
        ((f"rank {_ranks(waiting)}: {call.state}", sources[waiting[0]]),),
    )  # fmt: skip


def _ranks(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(ranks)[:8])) + (" ..." if len(ranks) > 8 else "")
