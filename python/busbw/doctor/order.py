"""Which of two found signatures came first, and who told of each: by time where lines tell it, else by their place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from busbw.doctor.finding import Severity
from busbw.doctor.lines.hit import Hit
from busbw.doctor.lines.moments import came_first
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.signature import Signature, Stage
from busbw.doctor.signatures import SIGNATURES

Found = Sequence[tuple[str, Hit]]
"""The hits of one signature, with the log of each."""

NEAR = 40
"""Lines above one without a time in which its time may stand."""
TOLD_BY_PEERS = frozenset(
    {"nccl-last-error", "nccl-error", "remote-error", "watchdog-timeout", "store-lost", "ib-retry", "ib-flush"}
    | {"ib-completion-error", "connection-refused", "connection-timeout", "heartbeat-lost", "rendezvous-timeout"}
    | {"collective-mismatch", "socket-failed", "gloo-error", "proxy-failure"}
)
"""What ranks say of one that is gone, or does not come."""


def placed(hit: Hit, scan: Scan) -> Hit:
    """With the line in which the traceback begins that ends in its first line, and the part of the log it stands in."""
    if not hit.lines:
        return hit
    line = hit.lines[0][0]
    beside = scan.beside.get(line)
    begun = beside.begun if beside and beside.begun else hit.begun
    at, part = next((each for each in reversed(scan.parts) if each[0] < line), (0, ""))
    when = hit.when
    if when is None:
        # The last line of a traceback has no time, and what its rank printed before it has one.
        near = [each for each in scan.hits.values() if each.when and max(at, line - NEAR) < each.lines[0][0] < line]
        near = [each for each in near if not hit.who or not each.who or hit.who.keys() & each.who.keys()]
        when = max(near, key=lambda each: each.lines[0][0]).when if near else None
    return replace(hit, begun=begun, part=f"{scan.source} {part}", when=when)


def first(found: Found) -> int:
    """The first line of any log with it."""
    return min((line for _, hit in found for line, _ in hit.lines), default=0)


def speakers(found: Found) -> set[str]:
    """Who says it; nobody where a line does not tell."""
    return {who for _, hit in found for who in hit.who}


def failed_before(
    cause: Signature, effect: Signature, merged: Mapping[str, Found], launched: Collection[str] = frozenset()
) -> bool:
    """Whether one rank failed before other ranks, and not it, told of what may be the sequel.

    Of a program's exception the places of lines tell it, too, and launchers that name its rank, one of `launched`, as
    the first that failed; of all other errors only their times.
    """
    if effect.name not in TOLD_BY_PEERS or cause.name in TOLD_BY_PEERS or cause.severity is not Severity.ERROR:
        return False
    of_program = cause.name == "python-exception"
    if not of_program and not Stage.PROGRAM <= cause.stage <= Stage.FAILURE:
        return False
    mine, theirs = merged[cause.name], merged[effect.name]
    if not _of_others(mine, theirs):
        return False
    by_time = came_first(when(mine), when(theirs))
    if by_time is not None:
        return by_time
    if of_program and speakers(mine) & set(launched) and not speakers(theirs) & set(launched):
        return True
    return of_program and effect.name in _BY_PLACE and _begun(mine) < first(theirs)


_ABORTED = ("aborted",)


def only_aborted(found: Found) -> bool:
    """Whether all that is said of NCCL's error is that a communicator was aborted: whoever aborted it knows why."""
    groups = [dict(each) for _, hit in found for each in hit.groups]
    return bool(groups) and all(each.get("what", "").lower().endswith(_ABORTED) for each in groups)


_POD = "kubernetes-event"
_ONE_TRY = "network addresses of ("


def refuted(merged: Mapping[str, Found]) -> set[str]:
    """What other lines take back, or tell better."""
    return _only_states(merged) | _resolved_later(merged)


def _only_states(merged: Mapping[str, Found]) -> set[str]:
    """The event of a pod that says no more than that its program failed, where another line tells how."""
    said = {dict(each).get("what") for _, hit in merged.get(_POD, ()) for each in hit.groups}
    others = (SIGNATURES[name] for name in merged if name != _POD)
    told = any(each.severity is Severity.ERROR and not each.last for each in others)
    return {_POD} if said == {"Error"} and told else set()


def _resolved_later(merged: Mapping[str, Found]) -> set[str]:
    """Names that PyTorch did not resolve at first, where the same ranks joined the store later."""
    tries, joins = merged.get("dns", ()), merged.get("rendezvous-timeout", ())
    once = all(_ONE_TRY in text for _, hit in tries for _, text in hit.lines)
    joined = any("clients joined" in text for _, hit in joins for _, text in hit.lines)
    who = speakers(tries)
    return {"dns"} if once and joined and who and who <= speakers(joins) else set()


_BY_PLACE = TOLD_BY_PEERS - {"connection-refused", "connection-timeout", "rendezvous-timeout", "gloo-error"}
"""Of what ranks say of one that never came, the place of a line tells nothing."""


def _of_others(mine: Found, theirs: Found) -> bool:
    """Whether others tell the one than the other: other ranks, or other parts of logs."""
    if speakers(mine) and speakers(theirs):
        return not speakers(mine) & speakers(theirs)
    parts, others = ({hit.part for _, hit in found if hit.part} for found in (mine, theirs))
    return bool(parts and others and not parts & others)


def when(found: Found) -> float | None:
    """The earliest time of a line with it; None where none has one."""
    return min((hit.when for _, hit in found if hit.when is not None), default=None)


def _begun(found: Found) -> int:
    """The first line of any log with it, or with the begin of its traceback."""
    return min((hit.begun or hit.lines[0][0] for _, hit in found if hit.lines), default=0)
