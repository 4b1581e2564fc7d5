"""Clues of GPUs that ranks were given: CUDA_VISIBLE_DEVICES by rank, and who set it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_GPU = r"['\"]?(?:=|: ?|, ?| is )\[?['\"]?(?P<{name}>\d{{1,2}}|GPU-[0-9a-f-]{{8,40}})(?![\d,]*[\w-])"
_RANK = r"(?<![\w-])(?:global[_ ])?rank['\"]?(?:=|: ?| )['\"]?(?P<{name}>\d{{1,6}})\b"
_GIVEN = re.compile(
    rf"CUDA_VISIBLE_DEVICES{_GPU.format(name='gpu')}[^\n]{{0,80}}?{_RANK.format(name='rank')}"
    rf"|{_RANK.format(name='rank_')}[^\n]{{0,80}}?CUDA_VISIBLE_DEVICES{_GPU.format(name='gpu_')}"
    rf"|\[rank(?P<rank__>\d{{1,6}})\]:?[^\n]{{0,80}}?CUDA_VISIBLE_DEVICES{_GPU.format(name='gpu__')}",
    re.IGNORECASE,
)
"""A line in which a rank tells the one GPU that it was given; not one with a list of several."""
_NAMED = re.compile(r"^ranks (?P<ranks>\d{1,7}(?:, \d{1,7}){1,7}) use the same GPU")
_RAY = re.compile(
    r"\bray::|\bray\.(?:exceptions|init|get)\b|Started a local Ray instance|\(\w{2,40} pid=\d{2,9}(?:, ip=[\d.]+)?\)"
)
_FRACTION = re.compile(r"\bnum_gpus(?:_per_\w{2,20})?['\"]?[=:] ?(?P<share>0?\.\d{1,4})\b")
_SLURM = re.compile(r"\bsrun\b|\bSLURM_")
_MPI = re.compile(r"\b(?:mpirun|mpiexec)\b")


def given_the_same(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks that share a GPU were given it, each as its only one."""
    given: dict[int, tuple[str, Evidence]] = {}
    for text in texts:
        for rank, gpu, at in _given(text):
            given.setdefault(rank, (gpu, text.evidence(at)))
    sharers: defaultdict[str, list[int]] = defaultdict(list)
    for rank, (gpu, _) in sorted(given.items()):
        sharers[gpu].append(rank)
    said = _NAMED.search(finding.title)
    wanted = {int(each) for each in said["ranks"].split(", ")} if said else set()
    # Ranks of several hosts may well have the same number: those count that NCCL names.
    gpu, ranks = next(
        ((gpu, ranks) for gpu, ranks in sharers.items() if len(ranks) > 1 and (wanted <= set(ranks) or not said)),
        ("", []),
    )
    if not ranks:
        return None
    ranks = sorted(wanted) or ranks
    others = sorted({value for rank, (value, _) in given.items() if rank not in ranks} - {gpu})
    rest = f" (other ranks have {named(', '.join(others[:8]), 40)})" if others else ""
    who, cure = _giver(texts)
    names = ", ".join(map(str, ranks[:8]))
    return Sharper(
        f"{who} gave ranks {names} the same GPU: CUDA_VISIBLE_DEVICES={gpu} for each of them{rest}",
        f"{cure}. Each rank of a host needs another value of CUDA_VISIBLE_DEVICES: print both before init. "
        "LOCAL_RANK is 0 for all where each sees one GPU, and is right so",
        tuple(given[rank][1] for rank in ranks[:3]),
    )


def _given(text: Text) -> Iterator[tuple[int, str, int]]:
    for found in _GIVEN.finditer(text.text):
        rank = found["rank"] or found["rank_"] or found["rank__"]
        yield int(rank), found["gpu"] or found["gpu_"] or found["gpu__"], found.start()


def _giver(texts: Sequence[Text]) -> tuple[str, str]:
    """Who set the variable, and how it gives each rank a GPU of its own."""
    if any(_RAY.search(text.text) for text in texts):
        share = next((found for text in texts if (found := _FRACTION.search(text.text))), None)
        part = f" (here num_gpus is {share['share']})" if share else ""
        return (
            "Ray",
            f"let each actor have a whole GPU: num_gpus=1{part}, a bundle of 1 GPU for each in its placement group, no "
            "two groups on one GPU. Renew Ray (2.40 or newer) where these are right. Stop what an earlier run left "
            "(ray stop) first",
        )
    if any(_SLURM.search(text.text) for text in texts):
        return (
            "the launcher",
            "give each task its own: --gpus-per-node=8 and the device by SLURM_LOCALID, or export "
            "CUDA_VISIBLE_DEVICES=$SLURM_LOCALID in each task",
        )
    if any(_MPI.search(text.text) for text in texts):
        return (
            "the launcher",
            "export CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK in a script that each rank starts by",
        )
    return "the launcher or the script", "give each rank of a host another GPU, counted by its place on that host"
