"""Clues of a NIC that has no room for more registered memory: its driver's refusal, and who holds the most of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_REFUSED = re.compile(
    r"\b(?P<dev>\S{3,40}?): Failed to process command REG_MR\b[^\n]{0,60}(?:err|errno) -12\b"
    r"|\b(?P<dev_>\S{3,40}?): Failed to register mr \[-12\]"
    r"|CREATE_MKEY\b[^\n]{0,80}(?:limits exceeded|no resources|exceed_lim)",
)
"""As the kernel's drivers of EFA and of mlx5 say it: no limit of the shell is meant."""
_ASKED = re.compile(
    r"(?:\b|_)(?:reg\w{0,24}|MR|mr)\b[^\n]{0,120}(?:Cannot allocate memory|ENOMEM|errno:? ?12\b|error 12\b|-12\b)",
    re.IGNORECASE,
)
_HELD = re.compile(
    r"^dev (?P<dev>[\w.-]{3,30})\S{0,3} mrn \d{1,9} [^\n]{0,80}?mrlen (?P<bytes>\d{1,16}) [^\n]{0,60}?"
    r"pid (?P<pid>\d{1,9}) comm (?P<comm>\S{1,30})",
    re.MULTILINE,
)
"""A row of `rdma resource show mr`."""
_UNLIMITED = re.compile(
    r"ulimit -\w{0,3}l\w{0,3}\b[^\n]{0,80}(?:\n|\b)[^\n]{0,40}\bunlimited\b|\bmax locked memory\s[^\n]{0,60}\bunlimited"
    r"|RLIMIT_MEMLOCK[^\n]{0,20}-1\b"
)
_SMALL_PAGES = re.compile(r"^HugePages_Total:\s{1,12}0\s*$", re.MULTILINE)
_LARGE = 8 << 30


def full_of_registrations(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The driver refuses to register more, and where it is listed another process holds much of the NIC's table."""
    said = " ".join(seen.fact for seen in finding.evidence)
    if not (_ASKED.search(said) or _REFUSED.search(said)):
        return None
    refused = next(((text, found) for text in texts if (found := _REFUSED.search(text.text))), None)
    held: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    lines: dict[tuple[str, str], Evidence] = {}
    for text in texts:
        for row in _HELD.finditer(text.text):
            who = row["pid"], row["comm"]
            held[who][row["dev"]] += int(row["bytes"])
            lines.setdefault(who, text.evidence(row.start()))
    most = max(held, key=lambda who: max(held[who].values()), default=None)
    others = most is not None and max(held[most].values()) >= _LARGE and not re.search(rf"\b{most[0]}\b", said)
    if refused is None or not (others or any(_UNLIMITED.search(text.text) for text in texts)):
        return None
    small = any(_SMALL_PAGES.search(text.text) for text in texts)
    pages = ", in pages of 4 KiB, of which each takes an entry" if small else ""
    large = (
        "back large host buffers by pages of 2 MiB (vm.nr_hugepages with hugetlbfs, or transparent_hugepage=always), "
        "which take 512 times fewer entries of the NIC"
    )
    right = "ulimit -l, the host's memory and the network are not at fault"
    seen = [refused[0].evidence(refused[1].start())]
    if most is None or not others:
        return Sharper(
            "the NIC has no room for more registered memory: its driver refuses it (-12), though the limit on locked "
            "memory is none",
            f"rdma resource show mr tells which process holds how much: end it, or register less. Or {large}. {right}",
            tuple(seen),
        )
    sizes = held[most]
    nics = f" on each of {len(sizes)} NICs" if len(sizes) > 1 else ""
    holder, much = f"{named(most[1])} (pid {most[0]})", max(sizes.values()) / 2**30
    return Sharper(
        f"the NIC has no room for more registered memory: {holder} holds {much:.0f} GiB{nics}{pages}",
        f"end {holder} where it is a left-over, or make its pool smaller. Or {large}. {right}",
        (*seen, lines[most]),
    )
