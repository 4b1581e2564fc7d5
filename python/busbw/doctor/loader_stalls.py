"""One rank that waits for its data while others wait for it: by Megatron's timers, stacks, and states of loaders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.base.secrets import shortened
from busbw.doctor.finding import Evidence
from busbw.doctor.reading.heads import host_of
from busbw.doctor.reading.shown import Shown

LEAST_MS, TIMES, SHARE = 500.0, 10.0, 0.25
"""How long the slowest rank waits, of how many times the fastest's wait, and which part of a step."""
FEWEST, PART = 2, 0.1
"""Reports with such a wait, and their part of all: one alone may be a checkpoint or a new file."""
_STEP = re.compile(r"elapsed time per iteration \(ms\): (?P<ms>\d{1,9}(?:\.\d{1,4})?)")
_TIMER = re.compile(
    r"\bbatch-generator \.{2,60}: (?:\((?P<least>\d{1,9}(?:\.\d{1,4})?), )?(?P<most>\d{1,9}(?:\.\d{1,4})?)\)?\s*$"
)
_MAIN = re.compile(r"Thread (?:0x)?[0-9a-fA-F]{1,16} \([\w+]{2,20}\): \"?MainThread\"?")
_FETCHES = re.compile(r"\b(?:_next_data|_try_get_data|_get_data|next_batch)\b.{0,120}\bdata\w{0,12}\.py")
_JOINS = re.compile(r"\b(?:distributed_c10d|c10d_logger|param_and_grad_buffer)\.py|\b(?:all_reduce|barrier)\b")
_DEPTH = 14
_STUCK = re.compile(
    r"\s{0,8}(?:\S{1,40}\s{1,4})?(?P<pid>\d{2,9})\s{1,12}D[\w+<]{0,4}\s{1,12}(?P<where>[a-z]\w{3,60})\s{1,40}(?P<cmd>\S{2,60})"
)
_WAITS_OF = (
    (re.compile(r"fuse_|request_wait_answer"), "FUSE", "fuse"),
    (re.compile(r"nfs_|rpc_"), "NFS", "nfs"),
    (re.compile(r"ll_|cl_|osc_|ptlrpc|ldlm_"), "Lustre", "lustre"),
    (re.compile(r"ceph_|wait_on_ceph"), "Ceph", "ceph"),
    (re.compile(r"folio_wait|io_schedule|wait_on_page|blk_|xfs_|ext4_"), "disk", ""),
)
_MOUNT = re.compile(r"(?P<what>\S{1,120}) on (?P<where>/\S{0,120}) type (?P<kind>[\w.-]{2,30})\b")


@dataclass(frozen=True, slots=True)
class Stall:
    """What shows that ranks wait for data: in how many reports, how long, at which host, and by which file system."""

    seen: tuple[Evidence, ...]
    reports: int = 0
    of: int = 0
    least_ms: float | None = None
    most_ms: float = 0.0
    share: float = 0.0
    hosts: tuple[str, ...] = ()
    waits_in: str = ""


def stall(shown: Shown) -> Stall | None:
    """The stall that a log shows by its timers, or by stacks of ranks; None where it shows none."""
    waits = _waits(shown)
    hosts, seen = _stacks(shown)
    if waits is None and not hosts:
        return None
    where, said = _file_system(shown)
    found = waits or Stall(())
    return Stall(
        (*found.seen, *seen, *said), found.reports, found.of, found.least_ms, found.most_ms, found.share, hosts, where
    )


def _waits(shown: Shown) -> Stall | None:
    """Reports of Megatron's timers in which the slowest rank waited long for its batch, and the fastest did not."""
    step, reports = 0.0, 0
    slow: list[tuple[float, float, float | None, Evidence]] = []
    for number, line in enumerate(shown.lines, 1):
        if "per iteration" in line and (found := _STEP.search(line)):
            step = float(found["ms"])
        elif "batch-generator" in line and step and (found := _TIMER.search(line)):
            reports += 1
            least, most = float(found["least"]) if found["least"] else None, float(found["most"])
            apart = least is None or most >= TIMES * least
            # The first report holds the start of all loaders.
            if reports > 1 and apart and most >= max(LEAST_MS, SHARE * step):
                seen = Evidence(shortened(line.strip(), 160), shown.source, number)
                slow.append((min(1.0, most / step), most, least, seen))
    if len(slow) < FEWEST or len(slow) < PART * reports:
        return None
    share, most, least, seen = max(slow, key=lambda each: each[0])
    return Stall((seen,), len(slow), reports, least, most, share)


def _stacks(shown: Shown) -> tuple[tuple[str, ...], tuple[Evidence, ...]]:
    """The hosts whose rank fetches a batch in its main thread, while those of more others are in a collective."""
    host, left, done = "", 0, False
    fetching: dict[str, Evidence] = {}
    joined = set[str]()
    for number, line in enumerate(shown.lines, 1):
        if named := host_of(line):
            host, left = named, 0
        elif _MAIN.match(line.lstrip()):
            left, done = _DEPTH, False
        elif left and line.strip():
            left -= 1
            if done:
                continue
            if _FETCHES.search(line):
                fetching[host] = Evidence(f"{host}: {shortened(line.strip(), 120)}", shown.source, number)
                done = True
            elif _JOINS.search(line):
                joined.add(host)
                done = True
        else:
            left = 0
    if not fetching or "" in fetching or len(joined - fetching.keys()) < max(2, len(fetching)):
        return (), ()
    return tuple(fetching)[:4], tuple(fetching.values())[:2]


def _file_system(shown: Shown) -> tuple[str, tuple[Evidence, ...]]:
    """The file system in which processes hang that cannot be interrupted (state D), and its mount."""
    for number, line in enumerate(shown.lines, 1):
        found = _STUCK.match(line) if " D" in line else None
        kind = next((each for each in _WAITS_OF if found and each[0].match(found["where"])), None)
        if found is None or kind is None:
            continue
        mount = _mount(shown.lines, kind[2])
        where = f"{kind[1]}: {mount}" if mount else kind[1]
        said = Evidence(" ".join(shortened(line.strip(), 160).split()), shown.source, number)
        return where, (said,)
    return "", ()


def _mount(lines: Sequence[str], kind: str) -> str:
    """What is mounted of that kind, as `mount` tells it."""
    for line in lines if kind else ():
        if " type " in line and (found := _MOUNT.search(line)) and found["kind"].startswith(kind):
            return shortened(f"{found['what']} on {found['where']}", 80)
    return ""
