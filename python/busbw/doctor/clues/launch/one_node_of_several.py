"""Launchers and ranks that were meant for several hosts, and run on one, or take two hosts for one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from math import prod

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_NODES = re.compile(
    r"\b(?:torchrun|torch\.distributed\.(?:run|launch))\b(?:[^\n]|\\\n){0,300}?"
    r"--nnodes[= ](?:\d{1,4}:)?(?P<n>\d{1,4})\b"
)
_MANY_RANKS = re.compile(r"--nproc[_-]per[_-]node[= ](?!1\b)\S")
_SAYS = re.compile(r"^(?P<host>[A-Za-z0-9][\w.-]{0,80}):\d{1,9}:\d{1,9} \[\d{1,3}\] NCCL ", re.MULTILINE)
_ENDED = re.compile(r"^srun: error: (?P<host>[A-Za-z][\w.-]{0,60}): task", re.MULTILINE)
_TASKS = re.compile(r"srun: error: (?P<host>[A-Za-z][\w.-]{0,60}): tasks (?P<first>\d{1,6})-(?P<last>\d{1,6}): ")
_SLURM = re.compile(r"^[^\n#]{0,80}\bsrun\b|^#SBATCH", re.MULTILINE)
_MOST = 4000


def launchers_on_one_node(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """torchrun counts several nodes, one rank each, and all ranks that speak are of one host."""
    for text in texts:
        nodes = _NODES.search(text.text)
        said = (found["host"] for words in (_SAYS, _ENDED) for found in islice(words.finditer(text.text), _MOST))
        # Some say a host's name with its domain; an address has none.
        hosts = {host if host[0].isdecimal() else host.partition(".")[0] for host in said}
        if nodes is None or int(nodes["n"]) < 2 or len(hosts) != 1 or _MANY_RANKS.search(text.text):
            continue
        (host,) = hosts
        tasks = next(
            (found for found in _TASKS.finditer(text.text) if found["host"] in (host, host.split(".")[0])), None
        )
        slurm = _SLURM.search(text.text) is not None
        by = ": srun placed several tasks there" if tasks else ""
        return Sharper(
            f"launchers that were meant for {nodes['n']} nodes (--nnodes {nodes['n']}) ran on one, {named(host)}, and "
            f"their ranks take the same GPU{by}",
            "start one launcher per node: "
            + (
                "#SBATCH --ntasks-per-node=1 (or srun -N with -n of the same number). `srun hostname` must then print "
                "as many names as nodes (where it does, two hosts have one name and id: NCCL_HOSTID). "
                if slurm
                else "each on its own host, with its own node rank. "
            )
            + "The device by LOCAL_RANK is right as it is: each launcher's first rank is 0",
            (
                text.evidence(nodes.start()),
                *((text.evidence(tasks.start()),) if tasks else ()),
            ),
        )
    return None


_BY = r"mpirun|mpiexec(?:\.hydra)?"
_RUN = (
    r"^(?P<front>[^\n]{{0,200}}?\b(?:{by})\b)(?P<options>(?:[^\n]|\\\n){{0,1200}}?)"
    r"\S{{0,160}}\b[a-z]\w{{2,40}}_perf\b(?P<rest>[^\n]{{0,300}})"
)
_MPIRUN = re.compile(_RUN.format(by=_BY), re.MULTILINE)
_STARTED = re.compile(_RUN.format(by=f"{_BY}|srun"), re.MULTILINE)
_COUNT = re.compile(r"\s(?:-np?|--np)[ =](?P<n>\d{1,5})\b")
_PER_NODE = re.compile(r"\s(?:--ntasks-per-node[= ]|--?npernode |--map-by ppr:)(?P<n>\d{1,4})\b")
_RANKS_OF_SRUN = re.compile(r"\s(?:-n|--ntasks)[ =]?(?P<n>\d{1,5})\b")
_HOSTS = re.compile(r"\s(?:-H|--?hosts?)[ =](?P<list>[\w.:,-]{1,600})")
_PER = re.compile(r"(?<!\S)-(?P<which>[gt])[ =]?(?P<n>\d{1,3})\b")
_REFUSED = re.compile(r"(?P<host>[\w.-]{1,100}): Test CUDA failure [^\n]{0,80}invalid device ordinal")
_LABEL = re.compile(r"^\[\d{1,9},(?P<rank>\d{1,6})\]<std")
_ROW = re.compile(r"#\s{1,6}Rank\s{1,8}\d{1,6} [^\n]{0,60}?\bon\s{1,12}(?P<host>[\w.-]{1,100}) device")


def _slots(options: str) -> dict[str, int]:
    """The hosts that the command lists, and the ranks that each may take."""
    found = _HOSTS.search(options)
    pairs = [each.partition(":") for each in found["list"].split(",") if each] if found else []
    return {host: int(slots) if slots.isdecimal() else 1 for host, _, slots in pairs}


def one_name_of_hosts(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The command lists several hosts, and the ranks of the later ones call themselves as those of the first do."""
    for text in texts:
        for run in _MPIRUN.finditer(text.text):
            slots, count = _slots(run["options"]), _COUNT.search(run["options"])
            part = text.text[run.end() :].partition("mpirun ")[0]
            refused = list(islice(_REFUSED.finditer(part), _MOST))
            names = {found["host"] for found in refused} | {row["host"] for row in islice(_ROW.finditer(part), _MOST)}
            if len(slots) < 2 or count is None or not refused or len(names) != 1:
                continue
            first, others = next(iter(slots)), sum(slots.values()) - next(iter(slots.values()))
            ranks = sorted(
                int(label["rank"])
                for found in refused
                if (label := _LABEL.match(part[part.rfind("\n", 0, found.start()) + 1 : found.start()]))
            )
            (name,) = names
            # Who fails on a host of its own name lacks GPUs there.
            if not others or not ranks or ranks[0] < slots[first] or (name != first and name in slots):
                continue
            return Sharper(
                f"ranks {ranks[0]} to {ranks[-1]} should be on another host and call themselves {named(name)} too: two "
                "hosts have one name, or all ranks run on one. nccl-tests counts the ranks of a host by its name, so "
                "that they look for GPUs behind the last one",
                "mpirun with the same hosts and `sh -c 'hostname; cat /etc/machine-id'`. One name and two ids: give "
                "each machine or container a name of its own (hostnamectl set-hostname, docker --hostname). One id: "
                "the second host is not used, look at -H, its slots and --map-by. Driver, GPUs and network are right",
                (text.evidence(run.end("front")), text.evidence(run.end() + refused[0].start())),
            )
    return None


def gpus_times_ranks(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Each rank of nccl-tests takes several GPUs (-g, -t), and so all ranks of a host more than it has."""
    for text in texts:
        for run in _STARTED.finditer(text.text):
            part = text.text[run.end() :]
            part = part[: next((at.start() for at in _STARTED.finditer(part)), len(part))]
            refused = list(islice(_REFUSED.finditer(part), _MOST))
            hosts = max(1, len(_slots(run["options"])), len({found["host"] for found in refused}))
            ranks = _ranks_per_host(run["options"], hosts)
            each = prod(int(found["n"]) for found in _PER.finditer(run["rest"]))
            if each < 2 or ranks < 2 or not refused:
                continue
            one_each = f"mpirun -np {hosts}" + (" --map-by ppr:1:node" if hosts > 1 else "")
            return Sharper(
                f"the command asks for {ranks * each} GPUs of one host, and it has fewer: {ranks} ranks there, each "
                f"of which takes {each} GPUs (-g and -t count for each rank)",
                "take one GPU for each rank (-g 1), or one rank for each host with -g of all its GPUs "
                f"({one_each}; srun --ntasks-per-node=1). Driver and GPUs are right",
                (text.evidence(run.end("front")), text.evidence(run.end() + refused[0].start())),
            )
    return None


def _ranks_per_host(options: str, hosts: int) -> int:
    """Ranks of a host by the command; without a count mpirun starts as many as its list of hosts has slots."""
    if (per := _PER_NODE.search(options)) is not None:
        return int(per["n"])
    count = _COUNT.search(options) or _RANKS_OF_SRUN.search(options)
    return (int(count["n"]) if count else sum(_slots(options).values())) // hosts
