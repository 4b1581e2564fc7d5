"""Hosts of one job that have different packages of NCCL, as somebody listed them on each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.releases.releases_apart import CURE, by_lines
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_V = r"2\.\d{1,3}\.\d{1,3}"
_PACKAGE = re.compile(
    r"^(?:(?P<host>[A-Za-z][\w.-]{0,80}): {1,4})?(?:"
    rf"ii\s{{1,4}}(?P<deb>libnccl2)\s{{1,40}}(?P<a>{_V})-"
    rf"|(?P<rpm>libnccl)-(?P<b>{_V})-"
    rf"|\s{{0,4}}(?P<pip>nvidia-nccl-cu\d\d)(?:==|\s{{1,40}})(?P<c>{_V})\b"
    rf"|[^\n]{{0,120}}(?P<file>libnccl\.so)\.(?P<d>{_V})\b)",
    re.MULTILINE,
)
_COUNTS = re.compile(r"mismatch in rank count from procs (?P<one>\d{1,7}) : (?P<other>\d{1,7})")
_LISTED = re.compile(
    r"^[^\n]{0,60}#\s{1,4}Rank\s{1,6}(?P<rank>\d{1,6}) (?:Group\s{1,4}\d{1,6} )?Pid\s{1,8}\d", re.MULTILINE
)
_MOST = 400


def packages_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks do not understand each other at their start, and hosts have NCCL of different releases."""
    counts = next((one for seen in finding.evidence if (one := _COUNTS.search(seen.fact))), None)
    if finding.name == "rank-count" and counts is None:
        return None
    told, seen = _by_packages(texts)
    how = "have packages of"
    if not told and counts is not None and _are_of_one_job(texts, counts):
        told, seen = by_lines(texts)
        how = "run"
    if not told:
        return None
    effect = (
        f"one reads a wrong number of ranks ({counts['one']} : {counts['other']}) out of what the other tells of itself"
        if counts is not None
        else named(finding.title, 160)
    )
    launch = " The launch and its number of ranks are right, too" if counts is not None else ""
    return Sharper(f"the hosts {how} different releases of NCCL{told}: {effect}", f"{CURE}.{launch}".rstrip("."), seen)


def _by_packages(texts: Sequence[Text]) -> tuple[str, tuple[Evidence, ...]]:
    """By host the release of its package, as a title says it; "" where they do not differ."""
    kinds: defaultdict[str, dict[str, tuple[set[str], Evidence]]] = defaultdict(dict)
    for text in texts:
        for found in islice(_PACKAGE.finditer(text.text), _MOST):
            kind = next(found[name] for name in ("deb", "rpm", "pip", "file") if found[name])
            version = next(found[name] for name in "abcd" if found[name])
            if host := found["host"] or host_before(text, found.start()):
                versions, _ = kinds[kind].setdefault(host, (set(), text.evidence(found.end() - 1)))
                versions.add(version)
    for hosts in kinds.values():
        # A host with several copies does not tell which of them it loads.
        sure = [(host, next(iter(versions)), at) for host, (versions, at) in hosts.items() if len(versions) == 1]
        if len(sure) == len(hosts) and len({version for _, version, _ in sure}) > 1:
            apart = list({version: (host, at) for host, version, at in reversed(sure)}.items())[::-1][:4]
            said = ", ".join(f"{version} on {named(host, 40)}" for version, (host, _) in apart)
            return f" ({said})", tuple(at for _, (_, at) in apart)
    return "", ()


def _are_of_one_job(texts: Sequence[Text], counts: re.Match[str]) -> bool:
    """Whether the benchmark's own list has as many ranks as the larger number: then no process was left alone."""
    size = max(int(counts["one"]), int(counts["other"]))
    return any({int(one["rank"]) for one in _LISTED.finditer(text.text)} == set(range(size)) for text in texts)
