"""Clues of a rank that lags: the stack of one process, which waits for its data loader, and what its worker reads."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.program.dumped_status import lagging
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_LAGS = re.compile(r"\brank (?P<rank>\d{1,6}) (?:lags|never came)")
_FETCHES = re.compile(
    r"^[ \t]{2,24}(?:File [^\n]{0,200} in )?(?P<call>_next_data|_try_get_data|_get_data)\b[^\n]{0,200}", re.MULTILINE
)
_PROCESS = re.compile(r"^\W{0,4}(?:Process|Thread|Stack of)\b[^\n]{0,160}", re.MULTILINE)
_JOINS = re.compile(r"\b(?:all_reduce|all_gather|reduce_scatter|barrier|distributed_c10d|synchronize)\b")
_OTHER = re.compile(r"\brank ?#?(?P<rank>\d{1,6})\b")
_WORKER = re.compile(
    r"^\s{0,4}(?:Process|Thread)[^\n]{0,160}\b(?:worker|pt_data_worker|DataLoader)[^\n]{0,80}\n"
    r"(?:(?:Python v|Thread \d)[^\n]{0,80}\n|\n){0,3}(?P<frames>(?:\s{2,24}\S[^\n]{0,200}\n?){1,16})",
    re.MULTILINE | re.IGNORECASE,
)
_FRAME = re.compile(
    r"^[ \t]{2,24}(?P<call>\w{2,60} \((?:[\w.+-]{1,60}/){0,12}[\w.-]{1,60}\.py:\d{1,6}\))", re.MULTILINE
)
_NETWORK = re.compile(
    r"\((?:.{0,40}/)?(?:ssl|socket)\.py:|\(.{0,40}\b(?:urllib3|http|requests|botocore|s3transfer|aiohttp|fsspec)/"
)
_STUCK = re.compile(
    r"^\s{0,10}(?P<pid>\d{1,9})\s{1,6}(?:\d{1,9}\s{1,6})?D\S{0,4}\s{1,8}(?:(?P<in>[a-z_]\w{3,40})\s{1,40})?[^\n]{0,80}?"
    r"(?:pt_data_worker|DataLoader|python\S{0,20}\s|train\w{0,20}\.py)",
    re.MULTILINE,
)
"""A process that ps lists in uninterruptible sleep, and the kernel's function in which it waits."""
_OF_NFS = re.compile(r"^(?:rpc_|nfs)")
_LIBRARY = re.compile(r"torch/|multiprocessing/|threading\.py|datasets/")
_CURE = (
    "look at what that worker reads: a slow or hung file system (state D, dmesg, nfsstat), or one sample that takes "
    "long, such as a damaged video. Decode data before the job, give reads a time limit and skip such samples. More "
    "workers and prefetch help against slow storage. A longer time (ddp_timeout) only hides it; NCCL has no part in it"
)
_LIMIT = "give reads from S3 or HTTP a time limit and retries (read_timeout), and set DataLoader(timeout=...). "
_BACK = 3000


def waits_for_loader(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """One rank lags, and the stack that somebody took waits for a batch."""
    lags, dumped = _LAGS.search(finding.title), lagging(texts)
    rank = lags["rank"] if lags else dumped[0] if dumped else ""
    if not rank:
        return None
    for text in texts:
        fetches = _FETCHES.search(text.text)
        if fetches is None:
            continue
        above = list(_PROCESS.finditer(text.text, max(0, fetches.start() - _BACK), fetches.start()))
        begin = above[-1].start() if above else max(0, fetches.start() - 400)
        # The command above it may say whose it is.
        stack = text.text[text.text.rfind("\n", 0, max(0, begin - 1)) + 1 : fetches.start()]
        other = _OTHER.search(stack)
        if _JOINS.search(stack) or (other is not None and other["rank"] != rank):
            continue
        worker = _WORKER.search(text.text, fetches.end())
        lag = f" (its last collective is {dumped[1]}, {dumped[2]} on the others)" if dumped and not lags else ""
        reads, far, seen = _of_worker(text, worker)
        return Sharper(
            f"rank {rank} waits for its data loader{lag} (a stack stands in {fetches['call']})"
            f"{reads}. The others wait for it: {finding.title}",
            f"{_LIMIT}{_CURE[0].upper()}{_CURE[1:]}" if far else _CURE,
            (text.evidence(fetches.start()), *seen),
        )
    return None


def _of_worker(text: Text, worker: re.Match[str] | None) -> tuple[str, bool, tuple[Evidence, ...]]:
    """What the stack of its worker and `ps` say that it reads, whether over the network, and where that stands."""
    calls = [] if worker is None else [each["call"] for each in _FRAME.finditer(worker["frames"])]
    far = any(map(_NETWORK.search, calls))
    frames = [each for each in calls if not _LIBRARY.search(each) and not _NETWORK.search(each)]
    reads = f"; its worker is in {', '.join(named(each, 60) for each in frames[:2])}" if frames else ""
    reads += ", and waits for an answer over the network" if far and frames else ""
    stuck = _STUCK.search(text.text)
    if stuck is not None:
        where = f": {stuck['in']}" if stuck["in"] else ""
        what = " of NFS" if stuck["in"] and _OF_NFS.match(stuck["in"]) else ""
        reads += f"; its worker {stuck['pid']} hangs in the kernel (state D{where}), as it reads from storage{what}"
    places = (*([worker.start()] if worker else []), *([stuck.end() - 1] if stuck else []))
    return reads, far, tuple(map(text.evidence, places))
