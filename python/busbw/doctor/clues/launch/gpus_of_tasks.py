"""Slurm gives a node fewer GPUs than it starts tasks there: --gres=gpu:1 is of the node, and not of a task."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_GIVEN = re.compile(
    r"(?P<how>--gres[= ]gpu(?::[A-Za-z][\w.-]{0,30})?:(?P<gres>\d{1,2})"
    r"|--gpus-per-node[= ](?:[A-Za-z][\w.-]{0,30}:)?(?P<node>\d{1,2})|--gres[= ]gpu(?=\s|$))(?![\w.])",
    re.MULTILINE,
)
_HAS = re.compile(r"\bSLURM_GPUS_ON_NODE[=: ]{1,3}(?P<has>\d{1,2})\b")
_TASKS = re.compile(
    r"--(?:n?tasks-per-node)[= ](?P<a>\d{1,3})\b|\bSLURM_N?TASKS_PER_NODE[=: ]{1,3}['\"]?(?P<b>\d{1,3})\b"
)
_COMMAND = r"(?:^#SBATCH|\b(?:srun|salloc|sbatch)\b)[^\n]{0,300}? "
"""Other programs have options of these letters as well."""
_TASKS_ALL = re.compile(
    rf"(?:--ntasks[= ]|\bSLURM_NTASKS[=: ]{{1,3}}|{_COMMAND}-n ?)(?P<all>\d{{1,4}})\b", re.MULTILINE
)
_NODES = re.compile(
    rf"(?:--nodes[= ]|\bSLURM_(?:NNODES|JOB_NUM_NODES)[=: ]{{1,3}}|{_COMMAND}-N ?)(?P<nodes>\d{{1,4}})\b", re.MULTILINE
)
_EACH = re.compile(r"--gpus-per-task\b|--gpu-bind\b|--gpus[= ]\d|\s-G ?\d")
_UUID = re.compile(r"^[^\n]{0,60}\bGPU 0: [^\n]{0,80}\(?UUID: (?P<uuid>GPU-[\w-]{6,40})", re.MULTILINE)


def fewer_than_tasks(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The tasks of a node share the GPUs that Slurm gave to the node, of which there are fewer."""
    for text in texts:
        given, has = _GIVEN.search(text.text), _HAS.search(text.text)
        tasks = _tasks(text)
        if given is None or tasks is None or _EACH.search(text.text):
            continue
        count = int(given["gres"] or given["node"] or 1)
        number, at = tasks
        if count >= number or (has is not None and int(has["has"]) != count):
            continue
        gpus = "one GPU" if count == 1 else f"{count} GPUs"
        same = {found["uuid"] for found in _UUID.finditer(text.text)}
        alike = ", and all tasks list one UUID" if count == 1 and len(same) == 1 else ""
        way = "--gpus-per-node" if given["node"] else "--gres=gpu"
        equal = f"{way}={number}" if given["node"] else f"{way}:{number}"
        return Sharper(
            f"Slurm gives each node {gpus} ({named(given['how'], 40)}) for {number} tasks: it counts the GPUs of a "
            f"node, and not of a task, so that the tasks of a node share {'it' if count == 1 else 'them'}{alike}",
            f"ask for as many GPUs as tasks: {equal} in sbatch and srun alike. Each task then takes the one of its "
            f"SLURM_LOCALID (torch.cuda.set_device). Or start {count} task{'' if count == 1 else 's'} per node. "
            "set_device alone does not help while a node has no more GPUs; NCCL and the program are right",
            tuple(text.evidence(each) for each in (given.start("how"), at)),
        )
    return None


def _tasks(text: Text) -> tuple[int, int] | None:
    """How many tasks a node has, and where that stands."""
    if found := _TASKS.search(text.text):
        return int(found["a"] or found["b"]), found.start()
    tasks, nodes = _TASKS_ALL.search(text.text), _NODES.search(text.text)
    if tasks is None or nodes is None or int(nodes["nodes"]) == 0:
        return None
    return -(-int(tasks["all"]) // int(nodes["nodes"])), tasks.start("all")
