"""Clues of a rank that lags: the stack of one process, which waits for its data loader, and what its worker reads."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_LAGS = re.compile(r"\brank (?P<rank>\d{1,6}) (?:lags|never came)")
_FETCHES = re.compile(
    r"^[ \t]{2,24}(?:File [^\n]{0,200} in )?(?P<call>_next_data|_try_get_data|_get_data)\b[^\n]{0,200}", re.MULTILINE
)
_PROCESS = re.compile(r"^\W{0,4}(?:Process|Thread|Stack of)\b[^\n]{0,160}", re.MULTILINE)
_JOINS = re.compile(r"\b(?:all_reduce|all_gather|reduce_scatter|barrier|distributed_c10d|synchronize)\b")
_OTHER = re.compile(r"\brank ?#?(?P<rank>\d{1,6})\b")
_WORKER = re.compile(
    r"^\s{0,4}(?:Process|Thread)[^\n]{0,60}\b(?:worker|pt_data_worker|DataLoader)[^\n]{0,80}\n(?P<frames>(?:\s{2,24}\S[^\n]{0,200}\n?){1,16})",
    re.MULTILINE | re.IGNORECASE,
)
_FRAME = re.compile(
    r"^[ \t]{2,24}(?P<call>\w{2,60} \((?:[\w.+-]{1,60}/){0,12}[\w.-]{1,60}\.py:\d{1,6}\))", re.MULTILINE
)
_STUCK = re.compile(
    r"^\s{0,10}(?P<pid>\d{1,9})\s{1,6}(?:\d{1,9}\s{1,6})?D\S{0,4}\s{1,8}(?:(?P<in>[a-z_]\w{3,40})\s{1,40})?[^\n]{0,80}?"
    r"(?:pt_data_worker|DataLoader|python\S{0,20}\s|train\w{0,20}\.py)",
    re.MULTILINE,
)
"""A process that ps lists in uninterruptible sleep, and the kernel's function in which it waits."""
_OF_NFS = re.compile(r"^(?:rpc_|nfs)")
_LIBRARY = re.compile(r"torch/|multiprocessing/|threading\.py|datasets/")
_BACK = 3000


def waits_for_loader(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """One rank lags, and the stack that somebody took waits for a batch."""
    lags = _LAGS.search(finding.title)
    if lags is None:
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
        if _JOINS.search(stack) or (other is not None and other["rank"] != lags["rank"]):
            continue
        worker = _WORKER.search(text.text, fetches.end())
        frames = [] if worker is None else [
            each["call"] for each in _FRAME.finditer(worker["frames"]) if not _LIBRARY.search(each["call"])
        ]  # fmt: skip
        reads = f"; its worker is in {', '.join(named(each, 60) for each in frames[:2])}" if frames else ""
        stuck = _STUCK.search(text.text)
        if stuck is not None:
            where = f": {stuck['in']}" if stuck["in"] else ""
            what = " of NFS" if stuck["in"] and _OF_NFS.match(stuck["in"]) else ""
            reads += f"; its worker {stuck['pid']} hangs in the kernel (state D{where}), as it reads from storage{what}"
        return Sharper(
            f"rank {lags['rank']} waits for its data loader (a stack stands in {fetches['call']})"
            f"{reads}. The others wait for it: {finding.title}",
            "look at what that worker reads: a slow or hung file system (state D, dmesg, nfsstat), or one sample that "
            "takes long, such as a damaged video. Decode data before the job, give reads a time limit and skip such "
            "samples. More workers and prefetch help against slow storage. A longer time (ddp_timeout) only hides it; "
            "the network has no part in it",
            tuple(
                text.evidence(at)
                for at in (
                    fetches.start(),
                    *([worker.start()] if worker else []),
                    *([stuck.end() - 1] if stuck else []),
                )
            ),
        )
    return None
