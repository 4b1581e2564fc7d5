"""Clues of a container's own limit of memory: its cgroup's files, and what the kernel reports as it kills by it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_VALUE = r"(?:\s{0,4}[:=]\s{0,4}|\s{1,8})(?P<bytes>\d{7,15})\b"
_LIMIT = re.compile(rf"\bmemory\.(?:limit_in_bytes|max){_VALUE}")
_MOST = re.compile(rf"\bmemory\.(?:max_usage_in_bytes|peak|current|usage_in_bytes){_VALUE}")
_KILLS = re.compile(r"\boom_(?:group_)?kill[ :=]{1,3}(?P<times>[1-9]\d{0,8})\b")
_REPORT = re.compile(r"\bmemory: usage (?P<used>\d{4,13})kB, limit (?P<limit>\d{4,13})kB, failcnt [1-9]")
_BY_CGROUP = re.compile(r"CONSTRAINT_MEMCG|Memory cgroup out of memory|killed as a result of limit of")
_FREE = re.compile(
    r"^Mem:\s{1,24}(?P<total>\d{1,12})(?P<unit>Gi|G|Mi|M|Ti|T)?\s{1,24}(?:\d[\d.]{0,10}(?:[KMGT]i?|B)?\s{1,24}){4}"
    r"(?P<left>\d{1,12})(?:[KMGT]i?)?\s{0,4}$",
    re.MULTILINE,
)
_OFFLOAD = re.compile(r"--adam_offload\b|\boffload_optimizer\b|\bcpu[-_]offload\b|\boptimizer_offload['\"]?[=:] ?True")
_FULL = 0.97
_UNLIMITED = 1 << 50
"""A cgroup without a limit shows a number as large as addresses go."""


def limit_of_cgroup(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A process was killed as its container reached its own limit, whatever the host has left."""
    for text in texts:
        if report := _REPORT.search(text.text):
            limit, most, at = int(report["limit"]) << 10, int(report["used"]) << 10, report.start()
            killed = _BY_CGROUP.search(text.text)
        else:
            limits, used = _LIMIT.search(text.text), _MOST.search(text.text)
            if limits is None or used is None:
                continue
            limit, most, at = int(limits["bytes"]), int(used["bytes"]), limits.start("bytes")
            killed = _KILLS.search(text.text) or _BY_CGROUP.search(text.text)
        if killed is None or limit >= _UNLIMITED or most < _FULL * limit:
            continue
        free = next((found for each in texts if (found := _FREE.search(each.text))), None)
        part = int(free["left"]) / int(free["total"]) if free and int(free["total"]) else 0.0
        host = f", while the host has {100 * part:.0f} % of its own memory left" if part >= 0.1 else ""
        off = next((found[0] for each in texts if (found := _OFFLOAD.search(each.text))), "")
        less = f"keep less on the host ({off} moves state there)" if off else "keep less on the host"
        return Sharper(
            f"the container reached its own limit of memory ({limit / 2**30:.0f} GiB, by its cgroup), and the kernel "
            f"killed a process of it{host}",
            f"raise that limit (resources.limits.memory of the pod, docker --memory, Slurm --mem), or {less}: fewer "
            "loader workers, smaller buffers, more nodes. The host itself needs no more memory. What ranks say of "
            "timeouts and lost connections follows from it",
            (text.evidence(at), text.evidence(killed.start())),
        )
    return None
