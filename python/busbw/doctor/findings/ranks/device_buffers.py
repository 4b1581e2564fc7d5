"""A benchmark of MPI that moves buffers of GPUs far slower than those of hosts: no GPU Direct RDMA."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "device-buffers"
_COMMAND = re.compile(r"\bosu_m?(?:bi)?bw\w{0,6}\b(?:.{0,120}?\s(?P<from>[HDM]) (?P<to>[HDM])(?:\s|$))?")
_HEAD = re.compile(r"#\s?OSU MPI(?:-\w{2,8})? (?P<test>(?:Bi-Directional )?Bandwidth) Test")
_BUFFERS = re.compile(r"#\s?Send Buffer on (?P<from>HOST|DEVICE)\b.{0,40}Receive Buffer on (?P<to>HOST|DEVICE)\b")
_ROW = re.compile(r"(?P<bytes>\d{5,10})\s{1,40}(?P<rate>\d{1,7}\.\d{1,4})\s*$")
_CUT = re.compile(r"\| ?(?:tail|grep|awk|sed)\b")
_BIDIRECTIONAL = "Bi-Directional Bandwidth"
_STAGED = re.compile(r"\bUCX_TLS=[\w,]{0,120}\bgdr_copy\b")
_USERS = re.compile(r"^nvidia\s{1,40}\d{3,12}\s{1,12}\d{1,5}\s{1,4}(?P<users>[\w,]{1,400})\s{0,4}$")
"""A row of lsmod: a module that lets NICs at the memory of GPUs would be among the users of the driver's."""
_PEERS = re.compile(r"peermem|peer_mem")
LEAST_BYTES = 1 << 20
SHARE = 0.35
"""Where NICs reach the memory of GPUs both rates are nearly the same."""

Best = dict[str, dict[str, tuple[float, Evidence]]]
"""By test, and by where both buffers are (`H` or `D`), the best rate in MB/s."""


def examine(facts: Facts) -> Iterator[Finding]:
    best: Best = defaultdict(dict)
    for shown in facts.shown:
        _read(shown, best)
    for rates in best.values():
        if "H" not in rates or "D" not in rates or rates["D"][0] >= SHARE * rates["H"][0]:
            continue
        (slow, seen), (fast, beside) = rates["D"], rates["H"]
        why, cure, more = _why(facts)
        yield Finding(
            NAME, Severity.WARNING,
            f"MPI moves buffers of GPUs at {slow / 1000:.3g} GB/s and those of hosts at {fast / 1000:.3g} GB/s: they "
            f"go through host memory, without GPU Direct RDMA{why}",
            (seen, beside, *more),
            Cost("messages of GPUs are slow by as much", fast / slow if slow else None, "both tests"),
            "modprobe nvidia_peermem on all hosts (at boot, too), or open kernel modules with DMA-BUF; load gdrdrv for "
            "gdr_copy. Then `ucx_info -d` must name cuda among the memory types of the mlx5 device, and UCX_TLS, where "
            f"it is set, must hold rc, cuda_copy and gdr_copy{cure}",
            Proof(instruction="lsmod | grep -e peermem -e gdrdrv, then osu_bw D D again"),
            stage=Stage.SETTING,
        )  # fmt: skip
        return


def _why(facts: Facts) -> tuple[str, str, tuple[Evidence, ...]]:
    """What of it the list of modules and the setting of UCX show: title, cure and evidence."""
    lines = [(shown.source, number, line) for shown in facts.shown for number, line in enumerate(shown.lines, 1)]
    listed = next((each for each in lines if (row := _USERS.match(each[2])) and not _PEERS.search(row["users"])), None)
    loaded = any((row := _USERS.match(line)) and _PEERS.search(row["users"]) for *_, line in lines)
    if listed is None or loaded:
        return "", "", ()
    staged = next((each for each in lines if _STAGED.search(each[2])), None)
    why = ": neither nv_peer_mem nor nvidia_peermem is loaded (lsmod)"
    cure = ". The module needs the RDMA core of MLNX_OFED (DOCA), which the distribution's rdma-core lacks"
    if staged is not None:
        why += ", and gdr_copy reads GPUs slowly for it"
        cure += ". Until it is loaded take gdr_copy out of UCX_TLS: cuda_copy copies large messages faster"
    shown = [listed, *([staged] if staged else [])]
    return why, cure, tuple(Evidence(clean(shortened(line.strip(), 160)), at, n) for at, n, line in shown)


def _read(shown: Shown, best: Best) -> None:
    """The rates of large messages in each table of the OSU benchmarks."""
    asked, test, where = "H", "", ""
    for number, line in enumerate(shown.lines, 1):
        if found := _HEAD.search(line):
            test, where = found["test"], asked
        elif "osu_" in line and (found := _COMMAND.search(line)):
            asked, test = _where(found["from"] or "H", found["to"] or "H"), ""
            if found["from"] and _CUT.search(line):  # the head of the table was cut off
                test, where = _BIDIRECTIONAL if "osu_bibw" in line else "Bandwidth", asked
        elif test and (found := _BUFFERS.search(line)):
            where = _where(found["from"][0], found["to"][0])
        elif test and where and (row := _ROW.match(line)) and int(row["bytes"]) >= LEAST_BYTES:
            rate = float(row["rate"])
            if rate > best[test].get(where, (0.0,))[0]:
                best[test][where] = rate, Evidence(f"{where} {where}: {line.strip()}", shown.source, number)


def _where(sender: str, receiver: str) -> str:
    """Where both buffers are; nothing where they differ, or move by themselves."""
    return sender if sender == receiver and sender in "HD" else ""
