"""What one rank alone said before ranks went apart: it skips a batch, its shard is empty, it takes another branch."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.lines.speakers import prefix_of, rank_by_words, rank_of
from busbw.doctor.shown_texts import Text, named, texts_of

_NAMES = frozenset(
    {"watchdog-timeout", "flight-recorder", "collective-order", "collective-mismatch", "calls-differ", "sizes-uneven"}
    | {"message-truncated", "process-killed"}
)
"""What ranks say of which one did something else than the others."""
_BEFORE, _MOST_LINES, _OFTEN = 400, 3, 40
_LOOK, _SHOWN = 300, 110
_STRONG = re.compile(
    r"\bskip|non-?finite|\bnan\b|\binf\b|\bempty\b|\bmissing\b|exceed|\babove\b|\bretr(?:y|ies)|corrupt|exhausted"
    r"|fall(?:ing|s)? ?back|\bdiscard|\bdropp|\bonly \d|\b0 of \d|\b0/\d"
    r"|\bno (?:more |valid )?(?:samples|batch|data|images)"
    r"|\bstuck\b|unreadable|truncated|\bunexpected|\bstops? (?:early|here)"
    r"|\bleav(?:es|ing)\b|\bswitch(?:es|ed|ing)? to\b",
    re.IGNORECASE,
)
_WEAK = re.compile(
    r"\bwarn|\bslow|\bfail|\berror|\blimit|\binvalid|time[d ]{0,2}out|\bwait|\breset\b|\bearly\b|\bdone\b|\bfinished\b"
    r"|\bnow\b|disabled|differ|\bnot\b|\bpaus|\blast batch|\bopen(?:ing)?\b",
    re.IGNORECASE,
)
_OF_LIBRARIES = re.compile(
    r"\bNCCL (?:INFO|WARN|TRACE|version)|ProcessGroup|\bc10d?\b|\.(?:cpp|cc|cu|h):\d|torch[./]distributed"
    r"|elastic|Traceback|\bFile \""
    r"|frame #|site-packages|dist-packages|\b(?:User|Future|Deprecation|Runtime)Warning|warnings\.warn"
    r"|^\W{0,4}\w{1,60}Error\b"
    r"|terminate called|what\(\):|Watchdog|\bXid\b|OMP_NUM_THREADS|destroy_process_group|\bSIG[A-Z]{3,5}\b",
)
_LAGS = re.compile(r"\brank (\d{1,6}) lags\b")
_LABEL = re.compile(
    r"^(?:[\d\s:.,|/TZ-]{0,40}(?:\b[A-Z]{4,8}\b[\s|]{1,4})?(?:\w{1,20} \| )?)?"
    r"\W{0,3}\[?rank[ :=]?\d{1,6}\]?[\s:|-]{0,4}",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+(?:[.,]\d+)*(?:e[+-]?\d+)?", re.IGNORECASE)


class _Own(NamedTuple):
    """A line of the program itself, the rank that says it, and what is left of it without numbers."""

    number: int
    rank: str
    said: str
    shape: str


def with_said_alone(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; those of ranks that went apart quote what one of them alone said shortly before."""
    texts = texts_of(facts)
    return [_told(each, texts) if _asks(each) else each for each in findings]


def _asks(finding: Finding) -> bool:
    return finding.name in _NAMES and finding.severity is not Severity.NOTE


def _told(finding: Finding, texts: Sequence[Text]) -> Finding:
    for text in texts:
        lines = [seen.line for seen in finding.evidence if seen.where == text.source and seen.line]
        found = _alone(text, min(lines), finding) if lines else None
        if found is None:
            continue
        return replace(
            finding,
            title=f"{finding.title}. Before that rank {found.rank} alone said: {named(found.said, _SHOWN)}",
            fix=f"look first at what rank {found.rank} did there ({named(found.said, _SHOWN)}): all ranks must do the "
            f"same, or none. Then: {finding.fix}",
            evidence=(*finding.evidence, Evidence(named(found.said, 240), text.source, found.number)),
        )
    return finding


def _alone(text: Text, first: int, finding: Finding) -> _Own | None:
    """The line nearest to what is wrong of those that one rank alone says, the more telling ones before."""
    own = list(_own_lines(text, first))
    who: defaultdict[str, set[str]] = defaultdict(set)
    often: defaultdict[str, int] = defaultdict(int)
    for each in own:
        who[each.shape].add(each.rank)
        often[each.shape] += 1
    if len({each.rank for each in own}) < 2:
        return None
    lags = _LAGS.search(finding.title)
    best: tuple[int, _Own] | None = None
    for each in own:
        if len(who[each.shape]) > 1 or often[each.shape] > _MOST_LINES or each.said[:30] in finding.title:
            continue
        worth = 2 if _STRONG.search(each.said) else 1 if _WEAK.search(each.said) else 0
        # Rank 0 tells more than others of itself.
        worth = worth if each.rank != "0" or worth > 1 else 0
        if lags and each.rank != lags[1]:
            continue
        if worth and (best is None or worth >= best[0]):
            best = worth, each
    return best[1] if best else None


def _own_lines(text: Text, first: int) -> Iterator[_Own]:
    lines = text.text.split("\n")[max(0, first - 1 - _BEFORE) : first]
    for number, raw in enumerate(lines, max(0, first - 1 - _BEFORE) + 1):
        line = raw[:_LOOK]
        if _OF_LIBRARIES.search(line):
            continue
        rank = rank_of(line) or rank_by_words(line[:60])
        if not rank:
            continue
        said = _LABEL.sub("", line.strip().removeprefix(prefix_of(line)).strip())
        if _OF_LIBRARIES.search(said):
            continue
        yield _Own(number, rank, said, _NUMBERS.sub("0", said))
