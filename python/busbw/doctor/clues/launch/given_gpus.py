"""Clues of a container that was given fewer GPUs than ranks start in it: docker's --gpus, NVIDIA_VISIBLE_DEVICES."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_RUN = r"\b(?:docker|nvidia-docker|podman|nerdctl)\b(?:[^\n]|\\\n){0,400}?"
_GIVEN = re.compile(
    rf"{_RUN}--gpus[ =]['\"]{{0,3}}(?:device=(?P<list>\d{{1,2}}(?:,\d{{1,2}}){{0,15}})(?![\w-])|(?P<count>\d{{1,2}})\b)"
    rf"|{_RUN}(?:-e |--env[ =])NVIDIA_VISIBLE_DEVICES=(?P<list_>\d{{1,2}}(?:,\d{{1,2}}){{0,15}})(?![\w-])"
    r"|^\s{1,20}(?:- )?device_ids: ?\[(?P<list__>['\"\d, ]{1,80})\]|^\s{1,20}NVIDIA_VISIBLE_DEVICES: ?['\"]?"
    r"(?P<list___>\d{1,2}(?:,\d{1,2}){0,15})['\"]?\s*$",
    re.MULTILINE,
)
_STARTED = re.compile(
    r"--nproc[-_]per[-_]node[= ](?P<a>\d{1,3})\b|\bGPUS_PER_NODE[`'\"]?\s?=\s?[`'\"]?(?P<b>\d{1,3})\b"
    r"|\bNPROC_PER_NODE=(?P<c>\d{1,3})\b|\bnproc_per_node\s{0,8}[=:] ?(?P<d>\d{1,3})\b"
    r"|--num[-_]gpus[= ](?P<e>\d{1,3})\b"
    r"|\bmpirun\b[^\n]{0,120}? -np? (?P<f>\d{1,3})\b|--num_processes[= ](?P<g>\d{1,3})\b"
    r"|\bnum_local_procs=(?P<h>\d{1,3})\b|--tensor-parallel-size[= ](?P<i>\d{1,2})\b"
)


def fewer_gpus_given(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """More ranks start in a container than it has GPUs, as it was told to have only some."""
    for text in texts:
        for given in _GIVEN.finditer(text.text):
            listed = next((given[each] for each in ("list", "list_", "list__", "list___") if given[each]), "")
            count = len(listed.split(",")) if listed else int(given["count"] or 0)
            more = next(
                ((each, found) for each in texts for found in _STARTED.finditer(each.text) if _number(found) > count),
                None,
            )
            if count == 0 or more is None:
                continue
            ranks = _number(more[1])
            gpus = "one GPU" if count == 1 else f"{count} GPUs"
            how = named(given[0][max(0, given[0].rfind("--gpus")) :] if "--gpus" in given[0] else given[0].strip(), 60)
            return Sharper(
                f"the container sees {gpus} ({how}), and {ranks} ranks start in it: they share what it has",
                f"start the container with all GPUs (--gpus all, NVIDIA_VISIBLE_DEVICES=all). Or start no more than "
                f"{count} {'rank' if count == 1 else 'ranks'} in it (--nproc-per-node, GPUS_PER_NODE). nvidia-smi -L "
                "in the container must list one GPU per rank. The program's set_device, NCCL and the GPUs are right",
                (text.evidence(given.end() - 1), more[0].evidence(more[1].start())),
            )
    return None


_LISTED = re.compile(
    r"\bnvidia-smi (?:-L|--list-gpus)\b[^\n]{0,80}\n(?P<rows>(?:[^\n]{0,24}GPU \d{1,2}: [^\n]{4,120}(?:\n|\Z)){1,16})"
)
_ROW = re.compile(r"^[^\n]{0,24}GPU \d{1,2}: ", re.MULTILINE)
_OF_HOST = ("a", "b", "c", "d", "e", "h", "i")
"""Of the options those that count the ranks of one host."""


def fewer_gpus_listed(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """More ranks start on a host than `nvidia-smi -L` lists GPUs there."""
    lists = [(text, each, len(_ROW.findall(each["rows"]))) for text in texts for each in _LISTED.finditer(text.text)]
    counts = {count for _, _, count in lists}
    started = ranks_of_host(texts)
    if len(counts) != 1 or started is None:
        return None
    (count,) = counts
    text, found, ranks = started
    if ranks <= count:
        return None
    gpus = "one GPU" if count == 1 else f"{count} GPUs"
    return Sharper(
        f"{ranks} ranks start on a host that has {gpus} ({named(found[0], 40)}), so that several of them share one",
        f"start {count} {'rank' if count == 1 else 'ranks'} there (--nproc-per-node={count}, or gpu), and where the "
        "learning rate or batch was meant for more, adapt it. NCCL takes one rank per GPU; the GPUs are right",
        (text.evidence(found.start()), lists[0][0].evidence(lists[0][1].start("rows"))),
    )


_SHOWN = re.compile(
    r"\bCUDA_VISIBLE_DEVICES=(?P<list>\d{1,2}(?:,\d{1,2}){0,15})(?: |(?<=\d)\s)(?P<command>[^\n]{0,300}?"
    r"(?:(?:launch_triton_server\.py|trtllm-\w{3,8})\b[^\n]{0,200}?--(?:world_size|tp_size)|--nproc[-_]per[-_]node"
    r"|--num_processes|--num[-_]gpus|--tensor-parallel-size|\b(?:mpirun|mpiexec)\b[^\n]{0,120}? -np?)"
    r"[= ](?P<ranks>\d{1,3})\b)"
)
"""A command that shows its ranks some GPUs, and says how many ranks it starts on this host."""


def fewer_gpus_visible(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The command itself lets its ranks see fewer GPUs than it starts ranks."""
    for text in texts:
        for found in _SHOWN.finditer(text.text):
            listed, ranks = found["list"], int(found["ranks"])
            count = len(listed.split(","))
            if ranks <= count or "SLURM" in found[0] or " -H" in found[0] or "--host" in found[0]:
                continue
            engine = "trtllm" in found[0] or "launch_triton_server" in found[0]
            gpus = "one GPU" if count == 1 else f"{count} GPUs"
            build = (
                f" Or build the engine for {count} (tp_size * pp_size = {count}), and start it with "
                f"--world_size={count}."
                if engine
                else f" Or start {count} there."
            )
            return Sharper(
                f"{ranks} ranks start, and CUDA_VISIBLE_DEVICES={named(listed, 40)} lets them see {gpus}: several of "
                "them share one, which NCCL refuses",
                f"give them {ranks} GPUs: leave CUDA_VISIBLE_DEVICES out, or list {ranks} that the host has "
                f"(nvidia-smi -L).{build} The program's choice of a GPU and NCCL are right",
                (text.evidence(found.start()),),
            )
    return None


def ranks_of_host(texts: Sequence[Text]) -> tuple[Text, re.Match[str], int] | None:
    """How many ranks start on a host at most, as options say, and where."""
    started = [
        (text, found, int(number))
        for text in texts
        for found in _STARTED.finditer(text.text)
        if (number := next((found[each] for each in _OF_HOST if found[each]), ""))
    ]
    return max(started, key=lambda each: each[2], default=None)


def _number(found: re.Match[str]) -> int:
    return int(next(each for each in found.groups() if each))
