"""Which collective a table measures: by its program, the command above, the heading, the file's name, or its columns.

The columns of nccl-tests leave few choices: reduction and root, size over count, which placements are checked, and bus
over algorithm bandwidth. A name from elsewhere counts only where the columns allow it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from busbw.importers.context import Surroundings
from busbw.importers.nccl_tests_rows import OPS
from busbw.importers.shape import ranks_fit
from busbw.importers.values import ELEMENT_BYTES, collective_named, number
from busbw.records import Collective

ALL: frozenset[Collective] = frozenset({
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "alltoallv", "gather", "scatter",
    "sendrecv", "hypercube",
})  # fmt: skip
_UNCHECKED_IN_PLACE: frozenset[Collective] = frozenset({"alltoall", "alltoallv", "sendrecv"})
"""nccl-tests does not check these in place and prints N/A there, since September 2022."""
_NAMED: frozenset[Collective] = frozenset({"alltoallv"})
_SHORT = {
    "allr": "all_reduce",
    "allg": "all_gather",
    "redsct": "reduce_scatter",
    "alltoall": "alltoall",
    "sendrecv": "sendrecv",
}
_WORDS = re.compile(
    r"(?<![A-Za-z])(all[-_ ]?reduce|all[-_ ]?gather|reduce[-_ ]?scatter|all[-_ ]?to[-_ ]?allv?|broadcast|bcast"
    r"|send[-_ ]?recv|hypercube|gather|scatter|reduce)(?![a-z])",
    re.IGNORECASE,
)


_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class Columns:
    """What the columns of a table say: which collectives they allow, and how many ranks size over count gives."""

    allowed: frozenset[Collective]
    ranks: int | None = None


@lru_cache(maxsize=1024)
def named_in(text: str | None, *, all_words: bool = True) -> Collective | None:
    """The collective that a text names, if it names one only; gather, scatter and reduce are words of prose too."""
    parted = _CAMEL.sub("_", text or "")
    found = {collective_named(word[0]) for word in _WORDS.finditer(parted)}
    if not all_words:
        found -= {"reduce", "gather", "scatter", "broadcast"}
    found.discard(None)
    return found.pop() if len(found) == 1 else None


@lru_cache(maxsize=256)
def collective_of_file(name: str) -> Collective | None:
    """The collective that a file's name names."""
    return named_in(name.rsplit("/", 1)[-1])


def signature(lead: dict[str, str]) -> tuple[str, ...]:
    """What rows of one collective share, whatever their types, reductions, roots and sizes."""
    op, root = lead.get("op"), lead.get("root")
    return (
        "" if op is None else "op" if op in OPS else op,
        "" if root is None else "no" if root.startswith("-") else "root",
        _part(lead),
    )


def _part(lead: dict[str, str]) -> str:
    element = ELEMENT_BYTES.get(lead.get("type", ""), 0)
    size, count = int(lead["bytes"]), int(lead["count"])
    if not element or not size or not count:
        return ""
    return "whole" if size == count * element else "part"


def columns_of(
    lead: dict[str, str], groups: Sequence[dict[str, str]], listed: int | None, *, known: bool = False
) -> Columns:
    """What the columns of the row with most bytes allow.

    `listed` is the number of ranks, where it is known; `known` says that nobody asks for the collective.
    """
    op, root, part = signature(lead)
    ranks = _ranks_of_count(lead) if part == "part" else None
    if known:
        return Columns(ALL, ranks)
    allowed = _by_lead(op, root, part)
    wrong = [group.get("wrong", "") for group in groups]
    if len(groups) == 2 and all(wrong) and number(wrong[0]) is not None:
        checked = number(wrong[1]) is not None
        allowed = allowed - _UNCHECKED_IN_PLACE if checked else allowed & _UNCHECKED_IN_PLACE or allowed
    size = listed or ranks
    figures = [(number(group.get("algbw", "")), number(group.get("busbw", ""))) for group in groups]
    for algbw, busbw in figures:
        if algbw and algbw >= 1 and busbw is not None:
            allowed = frozenset([each for each in allowed if _fits(each, figures, size)]) or allowed
            break
    return Columns(allowed, ranks)


_OLDER: dict[tuple[str, str], frozenset[Collective]] = {
    ("op", "whole"): frozenset({"all_reduce"}), ("op", "part"): frozenset({"reduce_scatter"}),
    ("none", "part"): frozenset({"alltoall"}), ("none", "whole"): frozenset({"alltoall", "sendrecv"}),
    ("", "part"): frozenset({"all_gather"}), ("", "whole"): frozenset({"all_gather"}),
}  # fmt: skip
"""Before 2.13 the columns differed from program to program, and none had root without need."""
_EARLY_GATHER: frozenset[Collective] = frozenset({"all_gather"})
"""Those columns had early builds of the all-to-all too: a file's name that says so is right."""
_BY_LEAD: dict[tuple[str, str, str], frozenset[Collective]] = {
    ("op", "no", "whole"): frozenset({"all_reduce", "sendrecv"}), ("op", "no", "part"): frozenset({"reduce_scatter"}),
    ("op", "root", "whole"): frozenset({"reduce"}), ("none", "root", "whole"): frozenset({"broadcast"}),
    ("", "root", "whole"): frozenset({"broadcast"}),
    ("none", "root", "part"): frozenset({"gather", "scatter"}),
    ("none", "no", "part"): frozenset({"all_gather", "alltoall", "alltoallv"}),
    ("none", "no", "whole"): frozenset({"all_gather", "alltoall", "alltoallv", "sendrecv"}),
}  # fmt: skip


def _by_lead(op: str, root: str, part: str) -> frozenset[Collective]:
    return _BY_LEAD.get((op, root, part), ALL) if root else _OLDER.get((op, part), ALL)


def _ranks_of_count(lead: dict[str, str]) -> int | None:
    """Size is ranks x the part of one: exact, since nccl-tests rounds the part and multiplies."""
    one = int(lead["count"]) * ELEMENT_BYTES[lead["type"]]
    size = int(lead["bytes"])
    return size // one if size % one == 0 else None


def _fits(collective: Collective, figures: Sequence[tuple[float | None, float | None]], size: int | None) -> bool:
    if size:
        return all(ranks_fit(collective, algbw, busbw, size) for algbw, busbw in figures)
    pairs = [(algbw, busbw) for algbw, busbw in figures if algbw and algbw >= 1 and busbw is not None]
    ratio = max((busbw / algbw for algbw, busbw in pairs), default=0.0)
    if collective in ("broadcast", "reduce", "sendrecv", "hypercube"):
        return abs(ratio - 1) < 0.02
    return ratio < (2.02 if collective == "all_reduce" else 1.02)


def decide_collective(
    program: str | None, around: Surroundings, columns: Columns, told: Collective | None, notes: list[str]
) -> Collective | None:
    """The collective; None where several are possible and nothing says which."""
    if program:
        return collective_named(re.sub(r"_perf(_mpi)?(\.exe)?$", "", program))
    commanded = around.command.collective if around.command else None
    for named in (commanded, named_in(around.heading, all_words=False)):
        if named in columns.allowed:
            return named
    if told:
        notes.append(f"nothing names the collective: {told}, as told")
        return told
    of_file = collective_of_file(around.file)
    if of_file in columns.allowed or (of_file == "alltoall" and columns.allowed == _EARLY_GATHER):
        notes.append(f"the file's name names the collective: {of_file}")
        return of_file
    # nccl-tests prints the program's name since it has an alltoallv.
    likely = columns.allowed - _NAMED
    if len(likely) == 1:
        (only,) = likely
        notes.append(
            f"nothing names the collective: taken as {only}, the one that has such size, count, root and bandwidths"
        )
        return only
    return None


def asking(columns: Columns) -> str:
    """The sentence for a table whose collective nothing names."""
    could = f": it could be {' or '.join(sorted(columns.allowed - {'alltoallv'}))}" if len(columns.allowed) <= 4 else ""
    return f"nothing names the collective of this sweep{could}; name it with --collective"
