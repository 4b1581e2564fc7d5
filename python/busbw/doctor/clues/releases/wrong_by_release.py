"""Runs of a benchmark in one log, some of them wrong: the release or the setting with which others are right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_END = re.compile(r"^[^\n]{0,40}# Out of bounds values *: *(?P<wrong>\d{1,18}) (?P<how>OK|FAILED)", re.MULTILINE)
_VERSION = re.compile(r"\bNCCL version (?P<version>2\.\d{1,2}\.\d{1,2})\b")
_SET = re.compile(
    r"\b(?P<name>NCCL_(?!DEBUG|SOCKET|IB_HCA|TESTS|HOME|LIB|VERSION)[A-Z0-9_]{2,40})"
    r"(?:=| set by environment to )[\"']?(?P<value>[\w:;,.^+-]{1,40})"
)
_NVLS = re.compile(r"Connected NVLS tree|\b[1-9]\d{0,2} nvls channels")
_PART = re.compile(r"NCCL_(?:ALGO|PROTO|NVLS_ENABLE|PAT_ENABLE|COLLNET_ENABLE|CUMEM_ENABLE|NVLS_CHUNKSIZE)=")
_MOST = 64


@dataclass(frozen=True, slots=True)
class _Run:
    text: Text
    end: int
    wrong: int
    version: str
    settings: frozenset[str]
    nvls: bool


def right_with_others(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The same benchmark was right in other runs of the log: with another NCCL, or without a part of it."""
    for text in texts:
        runs = list(_runs(text))
        wrong, right = [each for each in runs if each.wrong], [each for each in runs if not each.wrong]
        versions = {each.version for each in wrong}
        if not wrong or not right or len(versions) != 1 or not all(versions):
            continue
        (bad,) = versions
        usual = frozenset.intersection(*(each.settings for each in wrong))
        # Of the same settings, so that nothing but the release differs.
        # Another way through the hardware would tell of that, and not of NCCL's own part.
        apart = [each for each in right if each.version == bad and any(map(_PART.match, each.settings - usual))]
        other = next((each for each in right if each.version not in ("", bad) and each.settings <= usual), None)
        switches = list(
            dict.fromkeys(
                named(name, 50) for each in apart for name in sorted(each.settings - usual) if _PART.match(name)
            )
        )
        if other is None and not switches:
            continue
        seen = tuple(text.evidence(each.end) for each in (wrong[0], *([other] if other else []), *apart[:2]))
        return _told(wrong, other, switches, seen)
    return None


def _told(wrong: Sequence[_Run], other: _Run | None, switches: Sequence[str], seen: tuple[Evidence, ...]) -> Sharper:
    bad, first = wrong[0].version, wrong[0]
    of = f"NCCL {bad}'s NVLS" if first.nvls and any("NVLS" in each for each in switches) else f"NCCL {bad}"
    with_ = ", ".join(switches[:3])
    until = f"Until then {' or '.join(switches[:2])}" if switches else "Until then NCCL_ALGO=Ring, if that is right"
    rest = "GPUs, links, ECC and ACS are not it: the runs that are right use the same ones"
    if other is not None:
        return Sharper(
            f"{of} computes wrong sums here ({first.wrong} values out of bounds): the same test is right with NCCL "
            f"{other.version}{f', and with {with_}' if with_ else ''}",
            f"take NCCL {other.version} or newer on all hosts and in the image. {until}, and check by the same test. "
            f"{rest}",
            seen,
        )
    return Sharper(
        f"{of} computes wrong sums here ({first.wrong} values out of bounds): the same test is right with {with_}",
        f"set {' or '.join(switches[:2])} on all ranks for now, and take a newer NCCL: what that switches off is "
        "wrong there, or a link that it alone uses. Run the same test with the newer one before it is trusted",
        seen,
    )


def _runs(text: Text) -> Iterator[_Run]:
    """Each run up to the line in which it tells whether its values were right."""
    begin, version = 0, ""
    for found in islice(_END.finditer(text.text), _MOST):
        part = text.text[begin : found.start()]
        version = next((each["version"] for each in _VERSION.finditer(part)), version)
        settings = frozenset(f"{each['name']}={each['value'].rstrip('.,')}" for each in _SET.finditer(part))
        wrong = int(found["wrong"]) if found["how"] == "FAILED" else 0
        yield _Run(text, found.start(), wrong, version, settings, _NVLS.search(part) is not None)
        begin = found.end()
