"""A job of Ray waits without a word for GPUs that the cluster does not have: `ray status` shows what it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.ray_status import asked_gpus, status_of
from busbw.doctor.signature import Stage

NAME = "ray-pending"
_SHOWN = 200
_SAID = "slurm-resources"
"""Where Ray itself says that it places nothing, that finding tells why."""
_GROUPS = re.compile(r"^[^\n]{0,400}\}[^\n]{0,40}: \d{1,6}\+ pending placement groups", re.MULTILINE)
_RESERVED = re.compile(
    r"^[ \t]{1,8}[\d.]{1,12}/[\d.]{1,12} GPU \((?P<used>\d{1,7}(?:\.\d{1,4})?) used of "
    r"(?P<kept>\d{1,7}(?:\.\d{1,4})?) reserved",
    re.MULTILINE,
)
_STANDS = re.compile(
    r"\b(?:hangs?|hung|stuck|stalls?|waits? (?:forever|for hours)|nothing (?:happens|more)"
    r"|no (?:progress|error|output))\b"
    r"|卡住|卡死|不动",
    re.IGNORECASE,
)
_QUEUES = re.compile(
    r"Trial status:|== Status ==|ray\.tune|\bTuner\(|ray_results|Autoscaler: adding|\bAdding \d{1,4} node"
)
"""Who runs more trials than there are GPUs lets them wait on purpose, and an autoscaler brings nodes."""
_PARTS = re.compile(r"--(?P<what>(?:ref|reward|critic|actor)_num_gpus_per_node|vllm_num_engines)[ =](?P<n>\d{1,4})\b")


def examine(facts: Facts) -> Iterator[Finding]:
    if any(_SAID in scan.hits for scan in facts.scans):
        return
    for shown in facts.shown:
        if (found := _waits("\n".join(shown.lines), shown.source)) is not None:
            yield found
            return


def _waits(text: str, source: str) -> Finding | None:
    group, cluster, asked = _GROUPS.search(text), status_of(text), asked_gpus(text)
    if group is None or cluster is None or asked <= 0 or cluster.pending or _QUEUES.search(text):
        return None
    kept = _RESERVED.search(text)
    reserved = max(cluster.used, float(kept["kept"]) if kept else 0.0)
    # What is reserved and not in use waits as well: its owner cannot begin before all is placed.
    waits = kept is not None and float(kept["used"]) < float(kept["kept"])
    if cluster.gpus - reserved >= asked or not (waits or _STANDS.search(text)):
        return None
    free = cluster.gpus - reserved
    layout = _PARTS.search(text)
    places = (group.start(), cluster.at, *((layout.start(),) if layout else ()))
    return Finding(
        NAME,
        Severity.ERROR,
        f"the job waits without a word for GPUs that Ray does not have: a placement group asks for {asked:g} more, and "
        f"{reserved:g} of {cluster.gpus:g} GPUs are reserved ({free:g} free)",
        tuple(_evidence(text, source, at) for at in places),
        Cost("the job waits for ever, and the GPUs that it has stand idle"),
        "ask for no more GPUs than the cluster has, counted over all parts of the job (engines of vLLM, actor, critic, "
        "reward, reference). Parts can share GPUs: OpenRLHF --colocate_all_models with less "
        "--vllm_gpu_memory_utilization. Or add GPUs and nodes (ray start --num-gpus), or end the other job that holds "
        "them. No collective hangs here",
        Proof(
            instruction="confirm: ray status: its Demands must be empty once all is placed; ray list placement-groups"
        ),
        stage=Stage.LAUNCH,
        known="any release of Ray; ray status",
    )


def _evidence(text: str, source: str, at: int) -> Evidence:
    """The line in which that character stands."""
    line = text[text.rfind("\n", 0, at) + 1 :][: 4 * _SHOWN].partition("\n")[0]
    return Evidence(clean(shortened(line.strip(), _SHOWN)), source, text.count("\n", 0, at) + 1)
