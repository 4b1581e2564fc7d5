"""Clues of data that does not go evenly into ranks: files by rank, counters of steps, and programs that say so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.shown_texts import Text

_MOST = 20_000
_SAYS = re.compile(r"\buneven (?:workload|data|inputs?|shards|batches|number of (?:batches|samples))\b", re.IGNORECASE)
_FILES = re.compile(
    r"^(?P<wc>\d{1,6}) \S{0,200}(?:train|data|shard|tar|parquet)\S{0,100}\.(?:list|lst|txt|scp|jsonl?|manifest)\s*$"
    r"|\b(?:num_|n_)(?:shards|files)[\"']?\s?[=:]\s?(?P<named>\d{1,6})\b"
    r"|\b(?:[Ff]ound|[Uu]sing|[Ll]oaded|has|with|over) (?P<told>\d{1,6}) (?:\w{2,16} ){0,2}"
    r"(?:shards|(?:tar|parquet|shard|tfrecord) files)\b",
    re.MULTILINE,
)
_RANKS = re.compile(r"\b(?:world[_ ]size|WORLD_SIZE|nranks|num_replicas)['\"]?\s?[=: ]\s?(?P<n>\d{1,6})\b")
_COUNTER = re.compile(
    r"^(?P<line>[^\n]{0,160}?\b(?:batch|step|iter(?:ation)?)\b\W{1,3}(?:(?P<epoch>\d{1,5})/)?(?P<n>\d{1,9})\b(?!/)[^\n]{0,300})$",
    re.IGNORECASE | re.MULTILINE,
)
_SPEAKS = re.compile(r"\brank\W{1,2}(\d{1,6})\b", re.IGNORECASE)
_ASIDE = re.compile(r"\b(?:CV|val(?:id(?:ation)?)?|eval(?:uation)?|test)\b", re.IGNORECASE)
_FAILED = re.compile(r"failed to pass monitoredBarrier|Watchdog caught|\buneven \w|caught collective operation timeout")


def uneven_shards(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The program says that data is uneven, or files do not go evenly into ranks of which some end first."""
    for text in texts:
        says = _SAYS.search(text.text)
        files, lag = _left_over(text), _apart(text)
        # A rank may lag by a fault of its own: counters alone tell nothing of data.
        if says is None and (files is None or lag is None):
            continue
        told, seen = [], []
        if files is not None:
            told.append(f"{files[0]} files of data for {files[1]} ranks")
            seen.append(files[2])
        if lag is not None:
            told.append(lag[0])
            seen.append(lag[1])
        elif says is not None:
            told.append("the program itself calls it uneven")
        if says is not None:
            seen.append(text.evidence(says.start()))
        return Sharper(
            f"ranks have different amounts of data ({'; '.join(told)}): those with less end their epoch first, and the "
            "others wait for them in a collective",
            "give all ranks the same number of batches: files of equal size whose number is a multiple of the ranks, "
            "or share out by sample and not by file. Else end each epoch at the shortest rank (a fixed number of "
            "steps, drop_last, DDP's join()). Network and longer timeouts have no part in it",
            tuple(seen),
        )
    return None


def _left_over(text: Text) -> tuple[int, int, Evidence] | None:
    """Files and ranks of which one is no multiple of the other."""
    ranks = {int(found["n"]) for found in islice(_RANKS.finditer(text.text), _MOST)}
    if len(ranks) != 1 or (size := ranks.pop()) < 2:
        return None
    for found in islice(_FILES.finditer(text.text), _MOST):
        files = int(found["wc"] or found["named"] or found["told"])
        if files % size and files:
            return files, size, text.evidence(found.start())
    return None


def _apart(text: Text) -> tuple[str, Evidence] | None:
    """The counter that each rank last told in front of the failure, where they come to different ones."""
    failed = _FAILED.search(text.text)
    last: dict[str, tuple[int, int]] = {}
    epoch = None
    for found in islice(_COUNTER.finditer(text.text, 0, failed.start() if failed else len(text.text)), _MOST):
        rank = rank_of(found["line"]) or ((said := _SPEAKS.search(found["line"])) and said[1]) or ""
        if not rank or _ASIDE.search(found["line"]):
            continue
        if found["epoch"] != epoch:
            epoch, last = found["epoch"], {}
        last[rank] = int(found["n"]), found.start()
    counts = {number for number, _ in last.values()}
    if len(counts) != 2 or len(last) < 2:
        return None
    fewest = [
        rank for rank, (number, _) in sorted(last.items(), key=lambda each: int(each[0])) if number == min(counts)
    ]
    named = f"rank{'s' if len(fewest) > 1 else ''} {', '.join(fewest[:6])}"
    return f"{named} came to step {min(counts)}, the others to {max(counts)}", text.evidence(last[fewest[0]][1])
