"""Clues of a rank 0 that ended as it should, and its store with it, while others still needed both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_LOST = re.compile(
    r"recvValue failed|sendBytes failed|store->get\('[^'\n]{1,60}'\) got error|retrieving ncclUniqueId from"
    r"|Connection was likely closed"
)
_SAYS_END = re.compile(
    r"\b[Rr]ank\W{0,3}0(?!\d)\W{0,3}[^\n]{0,40}?\b(?:bye|exit(?:s|ing|ed)|shutting down|all (?:epochs|steps) done"
    r"|(?:training|job|run|program|script) (?:is |has )?(?:finished|done|over|completed?|ended))\b"
    r"|^[^\n]{0,60}-(?:master|launcher)-0 {1,12}0/\d {1,12}Completed\b"
    r"|^\d{1,12}\.0 [^\n]{0,60}\bCOMPLETED {1,12}0:0\b",
    re.MULTILINE,
)
_NO_END = re.compile(
    r"\b(?:not|never|before|until|failed|error)\b|n't\b"
    r"|exit(?:ing|ed|s)?\W{1,3}(?:with )?(?:code|status)?\W{0,3}-?[1-9]",
    re.IGNORECASE,
)
_UNDESTROYED = re.compile(r"\[rank0\][^\n]{0,120}destroy_process_group\(\) was not called before program exit")
_FAILED = re.compile(
    r"\[rank0\]:\W{0,3}Traceback|\[rank0\]:\[E\d|\blocal_rank: 0 \(pid[^\n]{0,60}exitcode|\brank {1,8}: 0 \(local_rank|"
    r"\btask 0: (?:Exited with exit code [1-9]|Killed|Segmentation|Aborted|Out Of Memory)"
)
"""What shows that rank 0 had an error of its own."""
_CALL = re.compile(
    r"\[?rank ?(?P<rank>[1-9]\d{0,6})\]?:[^\n]{0,20}\b(?:dist|distributed|torch\.distributed|comm)\.(?P<op>\w{3,40})\("
)
_CONDITION = re.compile(
    r"\[rank[1-9]\d{0,6}\]:\s{1,12}"
    r"(?P<words>(?:if|elif) [^\n]{0,40}\b\w{0,12}rank\w{0,4}\b(?:\(\))? ?(?:!=|>|>=|==) ?\d[^\n]{0,80})"
)
_WAITS = re.compile(r"\[rank(?P<rank>[1-9]\d{0,6})\]")
_MOST = 200
_CURE = (
    "let rank 0 wait for the others: dist.barrier() and then dist.destroy_process_group() on all ranks as the last "
    "lines of the program. Take collectives out of `if rank ...`, or let a barrier follow. "
    "A group connects at its first call and asks rank 0's store for it. Network and timeouts are not it"
)


def ended_as_it_should(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Rank 0 says that it is done, and has no error of its own, before others lose its store."""
    if any(_FAILED.search(text.text) for text in texts):
        return None
    for text in texts:
        lost = _LOST.search(text.text)
        if lost is None:
            continue
        ends = [each for each in islice(_SAYS_END.finditer(text.text), _MOST) if not _denied(text.text, each)]
        left = _UNDESTROYED.search(text.text)
        first = next(iter(ends), left)
        if first is None:
            continue
        call, condition = _CALL.search(text.text), _CONDITION.search(text.text)
        waits = call or _WAITS.search(text.text, lost.start()) or _WAITS.search(text.text)
        who = f"rank {waits['rank']}" if waits else "others"
        of = f" in {named(call['op'], 30)}" if call else ""
        where = f", which stands under `{named(condition['words'].partition(':')[0], 50)}`" if condition else ""
        shown = (first, left if left is not first else None, call, condition, lost)
        return Sharper(
            f"rank 0 ended its program without an error, and its store with it, while {who} still was{of}{where}",
            _CURE,
            tuple(text.evidence(each.start()) for each in shown if each is not None),
        )
    return None


def _denied(text: str, found: re.Match[str]) -> bool:
    """Whether the line says that the end was none."""
    begin, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
    return _NO_END.search(text, max(begin, found.start() - 60), end if end >= 0 else len(text)) is not None
