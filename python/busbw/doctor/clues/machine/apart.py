"""Clues of one GPU or rank that stands apart from others in a list: which one, where, and by how much."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_CELL = re.compile(
    r"(?<![\w.-])(?:r|rank[ _]?)(?P<rank>\d{1,5})\s{0,3}[:= ]\s{0,8}(?P<n>\d{1,9}(?:\.\d{1,6})?)(?![\w.,%-]\d)"
)
_HOST = re.compile(r"\s{0,8}(?:\[?(?P<host>[A-Za-z][\w.-]{2,60}?)\]?: )?")
_FEWEST, _MOST, _WIDTH = 4, 65536, 2000
_FAR, _CLOSE = 1.3, 0.1
"""One takes so many times what is usual, and nearly all others are as close to it as that."""


@dataclass(frozen=True, slots=True)
class Apart:
    """The rank whose figure is far above all others', its host where the row names it, and the figures."""

    rank: str
    host: str
    figure: float
    usual: float
    evidence: Evidence


def rank_apart(texts: Sequence[Text]) -> Apart | None:
    """The one rank that takes far longer than the others, in rows of a figure for each rank."""
    for text in texts:
        cells: dict[str, tuple[float, int]] = {}
        for found in _CELL.finditer(text.text):
            begin = text.text.rfind("\n", 0, found.start()) + 1
            end = text.text.find("\n", found.end(), begin + _WIDTH)
            line = text.text[begin : end if end > 0 else begin + _WIDTH]
            # A row of several ranks, or of one alone: nothing else of a log has figures of ranks behind each other.
            if len(cells) < _MOST and len(_CELL.findall(line)) >= 2:
                cells.setdefault(found["rank"].lstrip("0") or "0", (float(found["n"]), found.start()))
        if len(cells) < _FEWEST:
            continue
        usual = median(n for n, _ in cells.values())
        far = [(rank, *cell) for rank, cell in cells.items() if cell[0] > _FAR * usual]
        near = sum(abs(n - usual) <= _CLOSE * usual for n, _ in cells.values())
        if len(far) == 1 and usual > 0 and near >= len(cells) - 1:
            rank, figure, at = far[0]
            begin = text.text.rfind("\n", 0, at) + 1
            host = _HOST.match(text.text, begin)
            return Apart(rank, (host and host["host"]) or "", figure, usual, text.evidence(at))
    return None


def _said(one: Apart) -> str:
    on = f" ({named(one.host)})" if one.host else ""
    return f"rank {one.rank}{on} takes {one.figure:.4g}, the other ranks {one.usual:.4g}"


def slow_by_one(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Steps are slow, and a list of ranks shows whose work takes so long."""
    one = rank_apart(texts)
    if one is None:
        return None
    where = f"of {named(one.host)}" if one.host else "of that rank"
    return Sharper(
        f"{finding.title}: {_said(one)}",
        f"look at the GPU {where} first: nvidia-smi -q -d ECC,CLOCK,PERFORMANCE,POWER beside another one's, and other "
        f"programs there. Leave its node out, and the job is fast again. {finding.fix}",
        (one.evidence,),
    )


_ASKED = re.compile(r"nvidia-smi\b[^\n]{0,80}? (?:-i|--id)[= ](?P<gpu>\d{1,3})\b[^\n]{0,120}")
_BUS = re.compile(r"^GPU (?P<bus>[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$", re.MULTILINE)
_COUNT = re.compile(
    r"^\s{0,40}(?:DRAM |Device Memory |HBM )?Correctable(?: Errors?)?\s{0,30}: (?P<n>\d{7,19})\b", re.MULTILINE
)
_SLEEP = re.compile(r"\bsleep (?P<s>\d{1,5})\b")


def worn_memory(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Which GPU corrects its memory all the time, how fast the counter grows, and which rank is slow by it."""
    where, grows = "", ""
    seen: list[Evidence] = []
    for text in texts:
        rows = list(_COUNT.finditer(text.text))
        if not rows:
            continue
        asked = list(_ASKED.finditer(text.text, 0, rows[0].start()))
        buses = list(_BUS.finditer(text.text, 0, rows[0].start()))
        names = [f"GPU {asked[-1]['gpu']}"] if asked else []
        names += [buses[-1]["bus"]] if buses else []
        where = " ".join(names[:1]) + (f" ({names[1]})" if len(names) > 1 else "")
        first, last = int(rows[0]["n"]), int(rows[-1]["n"])
        waits = _SLEEP.search(text.text, rows[0].end(), rows[-1].start()) if len(rows) > 1 else None
        if waits is not None and last > first and int(waits["s"]):
            grows = f", {(last - first) / int(waits['s']):,.0f} more each second"
            seen.append(text.evidence(rows[-1].start()))
        grows = f"{first:,} so far{grows}"
        break
    one = rank_apart(texts)
    if not where and one is None:
        return None
    slow = f"; {_said(one)}" if one else ""
    return Sharper(
        f"the memory of {where or 'a GPU'} has errors without end, each corrected ({grows or 'millions so far'}): it "
        f"is slow by that, and all ranks wait for it{slow}",
        finding.fix,
        (*((one.evidence,) if one else ()), *seen),
    )
