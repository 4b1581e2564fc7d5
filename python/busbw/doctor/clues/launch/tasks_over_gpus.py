"""Clues of Slurm jobs that ask for fewer GPUs per node than they start tasks there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_GPUS = re.compile(
    r"\bSLURM_GPUS_ON_NODE=(?P<on>\d{1,2})\b|--gres[= ]gpu:(?:[a-zA-Z][\w.-]{0,30}:)?(?P<gres>\d{1,2})\b(?!\S*:)"
    r"|--gres[= ]gpu(?=\s|$)(?P<one>)|--gpus-per-node[= ](?:[a-zA-Z][\w.-]{0,30}:)?(?P<node>\d{1,2})\b"
)
_TASKS = re.compile(
    r"\bSLURM_(?:NTASKS|TASKS)_PER_NODE=(?P<set>\d{1,3})\b|--(?:n?tasks)-per-node[= ](?P<asked>\d{1,3})\b"
    r"|\bsrun: error: [\w.-]{1,60}: tasks (?P<first>\d{1,5})-(?P<last>\d{1,5}): Exited"
)
_PER_TASK = re.compile(r"--gpus-per-task[= ]")
_MOST = 40


def more_tasks_than_gpus(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Slurm started more tasks on each node than it gave the job GPUs there."""
    if any(_PER_TASK.search(text.text) for text in texts):
        return None
    for text in texts:
        asked = next(_counted(_GPUS, text), None)
        tasks = next(_counted(_TASKS, text), None)
        if asked is None or tasks is None or not 0 < asked[0] < tasks[0]:
            continue
        gpus, at = asked
        many, at_tasks = tasks
        what = "one GPU" if gpus == 1 else f"{gpus} GPUs"
        how = next(_how(text), "")
        seen = (text.evidence(at), text.evidence(at_tasks))
        return Sharper(
            f"Slurm gave the job {what} on each node{how} and started {many} tasks there: they share what it gave",
            f"ask for as many GPUs per node as tasks: --gres=gpu:{many} or --gpus-per-node={many}, in #SBATCH and on "
            f"the srun line, which counts for its step. Then each task takes the GPU of its SLURM_LOCALID. "
            f"Or start --ntasks-per-node={gpus}. Without more GPUs a set_device by local rank finds no device",
            seen[: 2 if seen[0] != seen[1] else 1],
        )
    return None


def _counted(words: re.Pattern[str], text: Text) -> Iterator[tuple[int, int]]:
    """Counts per node in their order, and where they stand."""
    for found in list(words.finditer(text.text))[:_MOST]:
        groups = found.groupdict()
        if groups.get("first"):
            yield int(groups["last"]) - int(groups["first"]) + 1, found.start()
        elif "one" in groups and groups["one"] is not None:
            yield 1, found.start()
        else:
            yield int(next(each for each in found.groups() if each)), found.start()


def _how(text: Text) -> Iterator[str]:
    """The option that says so, as it was given."""
    for found in _GPUS.finditer(text.text):
        if not found["on"]:
            yield f" ({named(found[0], 40)})"
