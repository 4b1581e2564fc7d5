"""Clues of when hosts began: the first node came after the others had given up waiting for it, and what kept it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.lines.moments import DAY_S, NEAR_S, moment_of
from busbw.doctor.shown_texts import Text

_MOST = 2000
_BEGINS = re.compile(
    r"^[^\n]{0,400}?(?:\b(?:NODE_RANK|MACHINE_RANK|PET_NODE_RANK|GROUP_RANK)=[\"']?|--(?:node|machine)[_-]rank[ =]|"
    r"\bnode_rank[=: ]{1,3})(?P<rank>\d{1,5})\b[^\n]{0,400}$",
    re.MULTILINE,
)
"""A line in which a node tells its number, as the command that starts it does."""
_GIVES_UP = re.compile(
    r"^[^\n]{0,300}?(?:client socket has timed out after|timed out \(try=\d|DistNetworkError|DistStoreError"
    r"|RendezvousTimeoutError|Timed out after \d{1,6} seconds waiting|Connection timed out)[^\n]{0,300}$",
    re.MULTILINE,
)
_KEPT = (
    (
        re.compile(r"\b(?:pip3?|uv pip|conda|mamba|apt(?:-get)?|yum|dnf) install\b|\bSuccessfully installed\b"),
        "it installed packages until then",
    ),
    (
        re.compile(r"\b[Pp]ulling (?:image|from)|\bPulled image\b|\bContainerCreating\b|\benroot import\b"),
        "it still fetched its image",
    ),
    (
        re.compile(r"\b(?:git clone|Cloning into|wget |rsync |aws s3 (?:cp|sync)|gsutil|huggingface-cli download)\b"),
        "it still fetched data",
    ),
    (re.compile(r"\b(?:make|cmake|ninja|setup\.py|Building wheel)\b"), "it still built software"),
)
"""What a node does in front of its start, as the last of it stands there."""
_CURE = (
    "let all nodes start together: an image that has all installed, or let the others wait for the first one (until nc "
    "-z $MASTER_ADDR $MASTER_PORT; do sleep 5; done). Or give them more time to meet: torchrun --rdzv-conf "
    "timeout=3600 (join_timeout for c10d). Timeouts of collectives (ddp_timeout) do not count there. Address, port and "
    "firewall are not at fault"
)


@dataclass(frozen=True, slots=True)
class _Said:
    """A line with its time."""

    at: float
    text: Text
    start: int

    @property
    def clock(self) -> str:
        day = int(self.at % DAY_S)
        return f"{day // 3600:02}:{day // 60 % 60:02}:{day % 60:02}"

    @property
    def evidence(self) -> Evidence:
        return self.text.evidence(self.start)


def first_node_late(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The node of rank 0 began after another one had given up waiting for it."""
    began: dict[int, list[_Said]] = {}
    for text in texts:
        for rank, each in _begins(text):
            began.setdefault(rank, []).append(each)
    ended = [each for text in texts for each in _timed(text, _GIVES_UP)]
    if 0 not in began or not ended or len(began) < 2:
        return None
    # Of a job that was started again its last tries would count.
    first = min(began[0], key=lambda each: each.at)
    last = max(ended, key=lambda each: each.at)
    others = [each for rank, found in began.items() if rank for each in found if each.at < last.at]
    # Clocks of hosts may lie in zones that differ by whole hours.
    if not last.at < first.at < last.at + NEAR_S or not others:
        return None
    waits = min(others, key=lambda each: each.at)
    why = _kept(first)
    return Sharper(
        f"rank 0's node began at {first.clock}, after the others had waited for it since {waits.clock} and given up at "
        f"{last.clock}{f': {why[0]}' if why else ''}",
        _CURE,
        (waits.evidence, last.evidence, first.evidence, *((why[1],) if why else ())),
    )


def _timed(text: Text, words: re.Pattern[str]) -> Iterator[_Said]:
    for found in islice(words.finditer(text.text), _MOST):
        if (at := moment_of(found[0])) is not None:
            yield _Said(at, text, found.start())


def _begins(text: Text) -> Iterator[tuple[int, _Said]]:
    for found in islice(_BEGINS.finditer(text.text), _MOST):
        if (at := moment_of(found[0])) is not None:
            yield int(found["rank"]), _Said(at, text, found.start())


def _kept(first: _Said) -> tuple[str, Evidence] | None:
    """What that node did in front of its start."""
    for words, what in _KEPT:
        before = list(islice(words.finditer(first.text.text, 0, first.start), _MOST))
        if before:
            return what, first.text.evidence(before[-1].start())
    return None
