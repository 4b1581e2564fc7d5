"""A clue of ranks that lose a peer after steps that went well: by their hosts and links, and not by the set-up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.lines.life import ALIVE
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.shown_texts import Text

_OPEN = re.compile(r"remote process exited or there was a network error|network error or a remote process exiting")
"""Words that leave open whether it was the peer or the network."""
_CLEAR = re.compile(r"[Cc]onnection (?:closed|reset) by|closed connection|[Bb]roken pipe")
_BY_XLA = re.compile(r"\b[Aa]borting communicators?\b[^\n]{0,60}\bdue to async NCCL error\b")
_HEAD = re.compile(
    r"^\W{0,4}(?P<who>worker|process|rank|task|node|host|pod)s? ?#?(?P<n>\d{1,6})\b(?P<more>[^\n:]{0,60}):\s*$",
    re.IGNORECASE,
)
"""What people write above the part of one worker."""
_MOST, _SHOWN, _LONG = 20_000, 6, 400
_HOSTS = (
    "dmesg -T (Xid, mlx5, lost link), ibstat or ip -s link, counters (perfquery, ethtool -S), and the scheduler's word "
    "of lost nodes"
)
_NOT_SETUP = "Steps went well before, so that interfaces, ports and firewall are right"


def lost_in_midst(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Steps were done, and some then lost a peer or the network; under XLA the others wait on."""
    said = "\n".join(seen.fact for seen in finding.evidence)
    if not _OPEN.search(said) or _CLEAR.search(said) or not any(scan.alive for scan in facts.scans):
        return None
    for text in texts:
        parts = list(_parts(text))
        lost = [each for each in parts if each.lost >= 0]
        steps = next((each for each in reversed(parts) if each.step >= 0), None)
        if not lost or steps is None:
            continue
        # One who reports alone, and before whose steps it stands, took them up again.
        if len(parts) == 1 and steps.step > lost[0].lost:
            return None
        who = sorted({each.number for each in lost if each.number >= 0})
        kind = next((each.kind for each in lost if each.kind), "rank")
        names = f"{kind}{'s' if len(who) > 1 else ''} {', '.join(map(str, who[:_SHOWN]))}" + (
            " and others" if len(who) > _SHOWN else ""
        )
        names = names if who else "one rank"
        seen = (text.evidence(steps.step),)
        others = [each for each in parts if each.lost < 0 and (each.number >= 0 or each.kind)]
        of_them = f"of {names}" if who else "of those that report it"
        if _BY_XLA.search(said):
            alone = ", and of the others none says so" if who and others else ""
            return Sharper(
                f"in the midst of the work {names} lost another process or the link to it{alone}: the line leaves open "
                "which. XLA aborts its communicator there alone, and all others wait in their collectives without end",
                f"look at the hosts and links {of_them}: {_HOSTS}. NCCL_DEBUG=WARN there tells the completion's "
                "status. So that the job ends: XLA_FLAGS=--xla_gpu_nccl_termination_timeout_seconds=600 "
                "--xla_gpu_nccl_terminate_on_error=true (a newer jaxlib has both), or a watchdog of steps that kills "
                f"it. {_NOT_SETUP}",
                seen,
            )
        return Sharper(
            f"in the midst of the work {names} lost another rank: its process ended, or the network between them "
            "failed, and this line leaves both open",
            "look at the ranks of the other hosts for an error that came first (out of memory, exception, lost node). "
            f"Where all were alive, look at the hosts and links {of_them}: {_HOSTS}. NCCL_DEBUG=WARN on all names the "
            f"peer and the status. {_NOT_SETUP}",
            seen,
        )
    return None


class _Part:
    """What one worker says: where it lost a peer, and its last step; -1 where it says no such thing."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.number = kind, number
        self.lost = self.step = -1


def _parts(text: Text) -> Iterator[_Part]:
    """The parts of a text by the heads above them, and by the ranks that lines name."""
    part, at = _Part("", -1), 0
    by_rank: dict[str, _Part] = {}
    parts = [part]
    for line in islice(text.text.split("\n"), _MOST):
        head = _HEAD.match(line[:_LONG])
        if head is not None:
            part = _Part(head["who"].lower(), int(head["n"]))
            parts.append(part)
            by_rank.clear()
        rank = rank_of(line)
        mine = by_rank.setdefault(rank, _Part("rank", int(rank))) if rank and not part.kind else part
        if _OPEN.search(line):
            mine.lost = at if mine.lost < 0 else mine.lost
        elif ALIVE.search(line[:_LONG]):
            mine.step = at
        at += len(line) + 1
    yield from (each for each in (*parts, *by_rank.values()) if each.lost >= 0 or each.step >= 0)
