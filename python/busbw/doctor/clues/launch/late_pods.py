"""A clue of jobs in pods: one waited for its node, got it, and came when the others had given up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_MOST = 200
_WHO = r"^\[?(?P<who>(?=[\w./-]{0,80}[A-Za-z])[A-Za-z][\w./-]{1,100})\]?[ |:]{1,4}(?=[^\n])"
_WAITS = re.compile(
    rf"{_WHO}[^\n]{{0,80}}?(?:\d{{1,6}}/\d{{1,6}} nodes are available|\bFailedScheduling\b|\bpod (?:is )?pending\b)",
    re.MULTILINE | re.IGNORECASE,
)
"""A line of a pod by its own name, as kubectl logs --prefix, stern and compose put it there."""
_GOT = (
    r"[^\n]{0,80}?(?:node (?:was )?provisioned|[Ss]uccessfully assigned|\b[Pp]ulling image|\bcontainer started"
    r"|\bStarted container|\bstarting (?:user )?command)"
)
_TASK = re.compile(r"/task:(?P<task>\d{1,6})\b")


def came_late(texts: Sequence[Text]) -> Iterator[tuple[str, Text, int, int]]:
    """Pods that waited for a node and then got it: name, log, and where both lines begin."""
    for text in texts:
        waits = {found["who"]: found.start() for found in islice(_WAITS.finditer(text.text), _MOST)}
        for who, at in islice(waits.items(), 8):
            later = re.compile(rf"^\[?{re.escape(who)}\]?[ |:]{{1,4}}{_GOT}", re.MULTILINE)
            if (found := later.search(text.text, at + 1)) is not None:
                yield who, text, at, found.start()


def pod_that_came_late(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The process that others gave up waiting for was started late, as its pod waited for a node."""
    said = "\n".join(seen.fact for seen in finding.evidence)
    tasks = {found["task"] for text in texts for found in islice(_TASK.finditer(text.text), _MOST)}
    for who, text, waited, began in came_late(texts):
        number = re.search(r"\d{1,6}$", who)
        if tasks and (number is None or number[0] not in tasks):
            continue
        if who in said and len(finding.evidence) == 1:
            continue
        return Sharper(
            f"{finding.title}: {named(who)} came late, as its pod waited for a node, and the time of the others was "
            "over before it began",
            "let the pods of a job start together or not at all (gang scheduling: Kueue, Volcano, coscheduling). Or "
            "raise the time for which the first ones wait (jax.distributed.initialize(initialization_timeout=SECONDS), "
            "init_process_group(timeout=), --rdzv-conf timeout=). Images and packages at hand on each node shorten its "
            "start. Network and GPUs are not at fault",
            (text.evidence(waited), text.evidence(began)),
        )
    return None
