"""Memory that grows by the same amount in every step until it is full: something of each step is kept."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.shown_texts import Text

_STEP = re.compile(r"\b(?:global_?step|step|iter(?:ation)?|batch)\b[ =:#]{1,4}(?P<step>\d{1,9})\b", re.IGNORECASE)
_FIGURE = r"[ _]?(?:\((?:[GM]i?B)\))?[ =:]{1,4}(?P<size>\d{1,9}(?:\.\d{1,6})?) ?(?P<unit>[GM])i?B?\b"
_OF_GPU = re.compile(
    r"\b(?:allocated|alloc|memory_allocated|mem(?:ory)?(?:[ _]alloc(?:ated)?|[ _]used)?"
    r"|(?:gpu|cuda|vram)[ _]?mem(?:ory)?|vram)" + _FIGURE,
    re.IGNORECASE,
)  # fmt: skip
_OF_HOST = re.compile(
    r"\b(?:(?:(?:host|cpu|proc\w{0,4}|max)[ _]?)?rss|host[ _]?mem(?:ory)?|(?:cpu|host)[ _]?ram|ram)" + _FIGURE,
    re.IGNORECASE,
)
_RANK = re.compile(r"\brank[ =:]{0,2}(?P<rank>\d{1,6})\b", re.IGNORECASE)
_LENGTH = re.compile(
    r"\b(?:seq(?:uence)?[ _]?len\w{0,4}|batch[ _]?size|seqlen)[ =:]{1,3}(?P<n>\d{1,7})\b", re.IGNORECASE
)
_FEWEST, _TIMES, _APART, _ALIKE = 5, 1.3, 0.4, 0.8
"""Points, how often the first size the last is, how far a growth may be from the usual one, and how many must fit."""
_MOST = 4000
_KEEPS = (
    "do not keep outputs, logits or losses over steps: append loss.item(), or x.detach().cpu(), and clear lists after "
    "use. Look for retain_graph=True, hooks and caches that hold tensors, and a running sum of losses. Smaller batches "
    "and sharding only fill it later. torch.cuda.memory._record_memory_history() with _dump_snapshot() shows whose "
    "tensors they are"
)
_KEEPS_ON_HOST = (
    "do not keep what each step makes: lists of metrics, samples or outputs, caches without a limit, and "
    "Python objects that loader workers copy (use arrays). See by tracemalloc or memray where they are made. "
    "More memory only fills later"
)

_Points = list[tuple[int, float, int]]


def grows_each_step(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A rank's own figures of its GPU's memory grow with its steps, by the same each time."""
    return _grown(texts, _OF_GPU, "GPU's", _KEEPS)


def host_grows_each_step(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The same of a host's memory."""
    return _grown(texts, _OF_HOST, "host's", _KEEPS_ON_HOST)


def _grown(texts: Sequence[Text], words: re.Pattern[str], whose: str, cure: str) -> Sharper | None:
    for text in texts:
        ranks = _points(text, words)
        for rank, points in ranks.items():
            each = _growth(points)
            if each is None:
                continue
            (first, low, at), (last, high, end) = points[0], points[-1]
            alone, only = _alone(rank, ranks)
            return Sharper(
                f"a {whose} memory is full because something of each step is kept{alone}. It grew by about "
                f"{_size(each)} a step, from {_size(low)} in step {first} to {_size(high)} in step {last}",
                f"{only}{cure[0].upper() if only else cure[0]}{cure[1:]}",
                (text.evidence(at), text.evidence(end)),
            )
    return None


def _alone(rank: str, ranks: Mapping[str, _Points]) -> tuple[str, str]:
    """Where that rank grows and all others stay: words of it for the title and for the cure; else nothing."""
    others = [points for who, points in ranks.items() if who != rank and len(points) >= _FEWEST]
    if not rank or not others or any(points[-1][1] >= _TIMES * points[0][1] for points in others):
        return "", ""
    most = max(points[-1][1] for points in others)
    return (
        f" by rank {rank} alone (others stay at {_size(most)})",
        f"look at what rank {rank} alone does: logs, metrics, samples and checkpoints of that rank. Errors of the "
        "others follow from its end. ",
    )


def _points(text: Text, words: re.Pattern[str]) -> dict[str, _Points]:
    """By rank: steps, GiB and places of what it tells of its memory."""
    found: defaultdict[str, _Points] = defaultdict(list)
    lengths: defaultdict[str, set[str]] = defaultdict(set)
    place = 0
    for line in text.text.split("\n"):
        at, place = place, place + len(line) + 1
        step, size = _STEP.search(line), words.search(line)
        if step is None or size is None:
            continue
        named = _RANK.search(line)
        rank = rank_of(line) or (named["rank"] if named else "")
        if (length := _LENGTH.search(line)) is not None:
            lengths[rank].add(length["n"])
        if len(found[rank]) < _MOST:
            gib = float(size["size"]) / (1 if size["unit"] in "Gg" else 1024)
            found[rank].append((int(step["step"]), gib, at))
    # Samples or batches that grow explain it without anything that is kept.
    return {rank: points for rank, points in found.items() if len(lengths[rank]) < 2}


def _growth(points: _Points) -> float | None:
    """GiB a step, where nearly all of them are alike; None where it stays, falls or comes by leaps."""
    if len(points) < _FEWEST or points[-1][1] < _TIMES * points[0][1]:
        return None
    pairs = list(pairwise(points))
    if any(later[0] <= before[0] for before, later in pairs):
        return None
    rates = [(later[1] - before[1]) / (later[0] - before[0]) for before, later in pairs]
    usual = median(rates)
    fit = sum(abs(rate - usual) <= _APART * usual for rate in rates)
    return usual if usual > 0 and fit >= _ALIKE * len(rates) else None


def _size(gib: float) -> str:
    return f"{gib:.4g} GiB" if gib >= 1 else f"{gib * 1024:.0f} MiB"
