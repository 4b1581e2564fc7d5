"""Known faults of releases of NCCL that a stack shows, each with the release that mends it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Finding, Proof, Severity
from busbw.doctor.shown_texts import Text, texts_of
from busbw.doctor.signature import Stage

_WAITS_FOR_SLOT = re.compile(r"^[^\n]{0,60}#?\d{0,3}[^\n]{0,40}\bncclLocalOpAppend\b[^\n]{0,200}", re.MULTILINE)
"""A frame of a stack: a thread that enqueues work looks for a free slot, and finds none."""
_ARM = re.compile(r"\baarch64\b|\barm64\b|\bARM\b|\bGB[123]00\b|\bGH200\b|\bGB10\b|\bGrace\b|\bJetson\b|\bDGX Spark\b")
_LOADED = re.compile(
    r"\bNCCL version (?P<a>2\.\d{1,2}\.\d{1,2})\b|\bnccl[ =:]{1,3}v?(?P<b>2\.\d{1,2}\.\d{1,2})\b"
    r"|nvidia-nccl-cu\d{2}(?:==|\s{1,30})(?P<c>2\.\d{1,2}\.\d{1,2})\b|\bNCCL (?P<d>2\.\d{1,2}\.\d{1,2})\b"
)
_MENDED = (2, 29, 3)
"""NCCL's release notes: a compare-and-swap that failed weakly hung on ARM where gcc before 10 built it."""

_AVERAGES = re.compile(r"\bReduceOp\.AVG\b|\bncclAvg\b|(?<![\w-])-o avg\b|\bPREMUL_SUM\b|\bncclRedOpCreatePreMulSum\b")
_ONE_RANK = re.compile(
    r"\bnproc[-_]per[-_]node[ =]1\b|\bworld[_ ]size['\"]?[=: ]{1,3}1\b|\bnranks 1\b|(?<!\S)-np? 1\b"
    r"|\b(?:one|single)[- ]rank\b|\bgroups? (?:has|of|with) (?:size )?(?:1|one)\b",
    re.IGNORECASE,
)
_WRONG = re.compile(
    r"\bbad\W{1,3}[1-9]\d{0,11}\b|\b[Mm]ismatched elements: [1-9]|\bTensor-likes are not (?:close|equal)"
    r"|\b(?:[Ll]ast|[Tt]ail|[Tt]railing)\b[^\n]{0,24}\b(?:elements?|entries|values)\b[^\n]{0,40}"
    r"\b(?:zeros?|wrong|unprocessed|missing|untouched|garbage)\b|\bLast entries are: tensor\("
)
_TAIL_MENDED = (2, 29, 7)
"""https://github.com/NVIDIA/nccl/issues/1950: one rank's average divided the elements by blocks and rounded down."""
_TAIL = (
    "a known fault of NCCL before 2.29.7: an average (AVG) over one rank leaves the last elements out, where their "
    "number is no multiple of its blocks. NCCL {version} is loaded"
)
_TAIL_CURE = (
    "install NCCL 2.29.7 or newer on all hosts (pip install -U nvidia-nccl-cu12, or LD_PRELOAD of its libnccl.so.2). "
    "Until then take SUM, or skip the collective where a group has one rank. Script, GPU and memory are not at fault"
)

_PROOF = Proof(
    instruction="run the same comparison with LD_PRELOAD of a newer libnccl.so.2, and with SUM in place of AVG"
)


def _older(texts: Sequence[Text], than: tuple[int, ...]) -> Iterator[tuple[Text, re.Match[str], str]]:
    """Where the logs name a release of NCCL that is older."""
    for text in texts:
        for found in _LOADED.finditer(text.text):
            version = next(filter(None, found.groups()))
            if tuple(map(int, version.split("."))) < than:
                yield text, found, version


def without_tail(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Wrong results of an average over one rank, by a release that leaves its last elements out."""
    for text in texts:
        found = [words.search(text.text) for words in (_WRONG, _AVERAGES, _ONE_RANK)]
        old = next(_older((text,), _TAIL_MENDED), None)
        if old is not None and all(found):
            places = [text.evidence(each.start()) for each in (*found, old[1]) if each is not None]
            return Sharper(_TAIL.format(version=old[2]), _TAIL_CURE, tuple(places))
    return None


def with_lost_tail(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; where nothing failed and a comparison shows the lost elements, one of that."""
    if any(each.severity is Severity.ERROR for each in findings):
        return list(findings)
    told = Finding(
        "wrong-results", Severity.ERROR, "", (), Cost("sums are silently wrong"), "", _PROOF, stage=Stage.PROGRAM
    )
    sharper = without_tail(told, facts, texts_of(facts))
    if sharper is None:
        return list(findings)
    return [*findings, replace(told, title=sharper.title, fix=sharper.fix, evidence=sharper.evidence)]


def lost_slots(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A thread spins for a free slot of NCCL's proxy, on ARM and with a release that loses such slots."""
    for text in texts:
        stack = _WAITS_FOR_SLOT.search(text.text)
        if stack is None:
            continue
        arm = next(((each, found) for each in texts if (found := _ARM.search(each.text))), None)
        old = next(_older(texts, _MENDED), None)
        if arm is None or old is None:
            continue
        where, found, version = old
        return Sharper(
            f"a known fault of NCCL before 2.29.3 on ARM ({arm[1][0]}): it loses slots of its proxy's queue, until a "
            f"thread spins in ncclLocalOpAppend for a free one and never joins. NCCL {version} is loaded, and the "
            "others wait",
            "install NCCL 2.29.3 or newer on all hosts (pip install -U nvidia-nccl-cu13, or LD_PRELOAD of its "
            "libnccl.so.2), or build NCCL with gcc 10 or newer. Network, IMEX, GPUs and the program are not at fault; "
            "a longer time does not help",
            (text.evidence(stack.start()), arm[0].evidence(arm[1].start()), where.evidence(found.start())),
        )
    return None
