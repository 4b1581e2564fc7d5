"""A limit of time that ended a job which had failed or stood still before: then it is the end, and not the cause."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.lines.hit import Hit
from busbw.doctor.lines.moments import NEAR_S
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.order import TOLD_BY_PEERS, Found, when
from busbw.doctor.signature import Stage
from busbw.doctor.signatures import SIGNATURES

NAME = "job-cancelled"
LIMIT = re.compile(
    r"TIME LIMIT|wall ?(?:clock|time)|\bcput\b|TERM_(?:RUN|CPU)LIMIT|LSF (?:run|CPU)|run time|[Dd]eadline"
    r"|active on the node longer|execution time|execution took longer"
    r"|ran longer than the maximum|timeout: sending signal|exception type=timeout",
    re.IGNORECASE,
)
"""How schedulers, and others who give a job its time, say that this is over."""
_AT_ONCE = TOLD_BY_PEERS - {"watchdog-timeout", "ib-retry", "ib-completion-error", "rendezvous-timeout"}
"""What ranks say within seconds of an end of others, and may reach a log before the line of who ended them."""
_SAID_FIRST = re.compile(r"DUE TO TIME LIMIT|timeout: sending signal")
"""Who says so before it ends anything: what stands before that line came before it."""
BY_LIMIT = frozenset({"killed-by-launcher", "process-killed"})
"""What is said of processes that such a limit ends."""
_ENDS = BY_LIMIT | frozenset(
    {"process-crashed", "rank-ended", "node-lost", "gpu-cleanup"}
    | {"torch-distributed-error", "kubernetes-event", "nccl-internal", "connection-returned", NAME}
)
"""What is said of any end."""
_AT_ONCE_S = 60.0


def before_limit(merged: Mapping[str, Found], survived: Collection[str], scans: Sequence[Scan]) -> set[str]:
    """The errors that stood before a limit of time ended the job, and that the job did not go on after."""
    alive = {each.source: each.alive for each in scans}
    limit = merged.get(NAME)
    if limit is None or not all(LIMIT.search(text) for _, hit in limit for _, text in hit.lines[:1]):
        return set()
    return {
        name
        for name, found in merged.items()
        if name not in _ENDS | set(survived)
        and _is_error(name)
        and not all(hit.last < alive.get(source, 0) for source, hit in found)
        and _stood_before(found, limit, name in _AT_ONCE)
    }


def _is_error(name: str) -> bool:
    mine = SIGNATURES[name]
    return mine.severity is Severity.ERROR and mine.stage > Stage.DRIVER and (not mine.soft or name in _AT_ONCE)


def _stood_before(found: Found, limit: Found, at_once: bool) -> bool:
    """Whether it came before, by times where both have one, else by the lines of a log that holds both."""
    mine, theirs = when(found), when(limit)
    if mine is not None and theirs is not None and (gap := theirs - mine) > -NEAR_S:
        return gap > (_AT_ONCE_S if at_once else 0.0)
    ends = {source: hit for source, hit in limit if hit.lines}
    return any(hit.lines and source in ends and _is_above(hit, ends[source], at_once=at_once) for source, hit in found)


def _is_above(hit: Hit, end: Hit, *, at_once: bool) -> bool:
    """Whether it stands before the end; what may have been said by that one, in a part that tells their order."""
    sure = not at_once or (hit.part == end.part and _SAID_FIRST.search(end.lines[0][1]) is not None)
    return sure and hit.lines[0][0] < end.lines[0][0]
