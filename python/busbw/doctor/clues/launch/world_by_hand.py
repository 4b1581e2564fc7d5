"""Clues of a world size that a script sets by hand: the launcher starts fewer processes, and these have all come."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_CAME = re.compile(r"(?P<joined>\d{1,6})/(?P<size>\d{1,6}) clients joined|\bworld_size=(?P<of>\d{1,6}), [^\n]{0,40}"
                   r"(?:worker_count|num_workers_joined)=(?P<workers>\d{1,6})")  # fmt: skip
_GIVEN = r"\b(?:WORLD_SIZE|--world[-_]size)['\"]?(?:=|: ?| )['\"]?{size}\b"
_STARTED = (
    r"(?P<by>\bSLURM_(?:STEP_)?N(?:UM_)?TASKS\W{{1,4}}{n}\b|\bSLURM_NPROCS\W{{1,4}}{n}\b"
    r"|(?<![\w./-])srun [^\n]{{0,200}}?(?:-n ?|--ntasks[ =]){n}\b"
    r"|(?<![\w./-])(?:mpirun|mpiexec|prterun) [^\n]{{0,200}}?-np? {n}\b)"
)
_NODES = re.compile(r"\bSLURM_(?:JOB_NUM_)?N(?:UM_)?NODES\W{1,4}(?P<n>\d{1,5})\b")


def world_by_hand(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """All that were started have joined, and the number for which the store waits is one of the script's own."""
    evidence = Text("", "\n".join(seen.fact for seen in finding.evidence))
    came = next((found for text in (evidence, *texts) if (found := _CAME.search(text.text))), None)
    if came is None:
        return None
    joined, size = int(came["joined"] or came["workers"]), int(came["size"] or came["of"])
    if not 0 < joined < size:
        return None
    given, started = re.compile(_GIVEN.format(size=size)), re.compile(_STARTED.format(n=joined))
    by_hand = next(((text, found) for text in texts if (found := given.search(text.text))), None)
    tasks = next(((text, found) for text in texts if (found := started.search(text.text))), None)
    if by_hand is None or tasks is None:
        return None
    nodes = next((int(found["n"]) for text in texts if (found := _NODES.search(text.text))), 0)
    on = f" on {nodes} node{'s' * (nodes > 1)}" if nodes else ""
    more = (
        f" Where {size} are meant: --nodes={nodes * size // joined}, with the same tasks per node."
        if nodes and not nodes * size % joined
        else f" Where {size} are meant, start as many."
    )
    slurm = "SLURM" in tasks[1]["by"] or "srun" in tasks[1]["by"]
    take = "$SLURM_NTASKS" if slurm else "$OMPI_COMM_WORLD_SIZE"
    return Sharper(
        f"{named(by_hand[1][0], 40)} is set by hand, and {joined} processes are started{on} "
        f"({named(tasks[1]['by'], 60)}), which all joined: the store waits for {size - joined} that nobody starts",
        f"take the launcher's number in the script: WORLD_SIZE={take} in place of {size}.{more} Network, firewall, "
        "port and time limit are not at fault",
        (by_hand[0].evidence(by_hand[1].start()), tasks[0].evidence(tasks[1].start())),
    )
