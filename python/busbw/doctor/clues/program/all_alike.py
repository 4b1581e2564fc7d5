"""A collective that timed out on all known ranks in the same number: none lags, and what they send stands still."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from busbw.doctor.clues.network.one_host import on_one_host, on_several
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.shown_texts import Text, named, texts_of

NAME = "watchdog-timeout"
OPEN = "; look at the ranks that say nothing"
"""How the title ends where all that speak wait in one number, and nothing tells of the others."""
_AT_WORK = ", and others wait for it ("
"""In titles that tell what the rank that others wait for does."""
_WORK = re.compile(
    r"WorkNCCL\(SeqNum=\d{1,12}, OpType=\w{1,40}, NumelIn=(?P<into>\d{1,15}), NumelOut=(?P<out>\d{1,15})"
)
_SPEAKS = re.compile(
    r"^(?P<host>(?!rank|node_rank|default)[A-Za-z][\w.-]{1,80}): [^\n]{0,60}?\[rank(?P<rank>\d{1,6})\]:", re.MULTILINE
)
"""What launchers and kubectl put before a line: the host or pod that says it."""
_WORLD = re.compile(
    r"(?:\b|(?<!local)_)(?:world[_ ]size|nranks|num[_ ]processes|total[_ ]gpus)['\"]?[=: ]{1,3}(?P<world>\d{1,5})\b"
    r"|--(?:num[-_]processes|tp(?:-size)?|tensor-parallel-size)[= ](?P<option>\d{1,5})\b",
    re.IGNORECASE,
)
_PER_NODE = re.compile(r"--(?:nproc[-_]per[-_]node|ntasks-per-node|num_gpus)[= ](?P<n>\d{1,3})\b")
_NODES = re.compile(r"(?:--(?:nnodes|nodes|num[-_](?:nodes|machines))[= ]|\bnNodes )(?P<n>\d{1,4})(?![\d:])")
_PROCESS = re.compile(
    r"Sending process (?P<sent>\d{1,9}) closing signal|local_rank: \d{1,4} \(pid: (?P<pid>\d{1,9})\) of binary"
    r"|Killing subprocess (?P<killed>\d{1,9})\b"
)
"""By which torchrun and DeepSpeed name the processes of one host when they end them."""
_MOST = 2000
_NO_LONGER = "A longer time does not help"
_ON_A_HOST = (
    "run once with NCCL_P2P_DISABLE=1: where that passes, the IOMMU or ACS break what GPUs send each other (iommu=pt, "
    "ACS off). Else NCCL_SHM_DISABLE=1 as the next test. NCCL_DEBUG=INFO shows the way that they take; dmesg (Xid) and "
    "nvidia-smi nvlink -e show a GPU or link that is broken"
)
_NO_P2P = re.compile(r"\bRTX ?(?P<card>[45]0[5-9]0)\b")
_BETWEEN = (
    "look at the network between the nodes: NCCL_DEBUG=INFO tells which interface and NICs each rank takes "
    "(NCCL_SOCKET_IFNAME, NCCL_IB_HCA). nccl-tests' all_reduce_perf over the same nodes tells whether they carry data. "
    "NCCL_IB_DISABLE=1 as a test; then the firewall (all ports), GIDs of RoCE and the MTU"
)


@dataclass(frozen=True, slots=True)
class _Job:
    """What a log knows of its job: ranks in all, nodes, and the line that tells of it.

    `counted` says that the ranks are those of one host, with which a job over unknown hosts does not end.
    """

    world: int
    nodes: int
    seen: Evidence | None
    counted: bool = False


def with_all_alike(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; a timeout of ranks of which none lags sends to what is between them."""
    return [
        _told(each, facts)
        if each.name == NAME and each.severity is not Severity.NOTE and each.title.endswith(OPEN)
        else each
        for each in findings
    ]


_NAMES_ONE = re.compile(
    r"\brank \d{1,6}(?: still\b| alone\b| (?:is|was|has|had|waits|stands|calls|lags|does|did|goes|went|ended|skips)\b)"
    r"|^(?:one rank|the node of)\b"
)
"""Words in front of the collective's by which a title tells which rank it is."""


def without_open(findings: Sequence[Finding]) -> list[Finding]:
    """The findings; a title that names the rank sends nobody to those that say nothing."""
    return [
        replace(each, title=each.title.removesuffix(OPEN))
        if each.title.endswith(OPEN) and _NAMES_ONE.search(each.title.partition("a collective")[0])
        else each
        for each in findings
    ]


def _told(finding: Finding, facts: Facts) -> Finding:
    texts = texts_of(facts)
    ranks = _ranks(facts)
    sizes = {(found["into"], found["out"]) for text in texts for found in islice(_WORK.finditer(text.text), _MOST)}
    if len(ranks) < 2 or len(sizes) != 1:
        return finding
    job = _job(texts)
    if job.counted and job.world <= max(ranks) and job.nodes == 1:
        job = _Job(0, 1, None)  # a log that was cut short names a part of the processes
    several = job.nodes > 1 or facts.several_nodes or on_several(texts)
    plain = finding.title.removesuffix(OPEN)
    if ranks == set(range(job.world)) and not (several and job.counted and job.nodes == 1):
        return _of_all(finding, plain, job, several=several, alone=on_one_host(facts, texts) is not None)
    hosts = _hosts(texts)
    if job.nodes > 1 and job.world % job.nodes == 0 and max(ranks) < job.world:
        nodes = {rank // (job.world // job.nodes) for rank in ranks}
        whole = len(nodes) == job.nodes
    else:
        whole = len(hosts) > 1 and job.nodes in (1, len(hosts))
    if not whole and several and not job.world:
        return finding  # ranks of other hosts are left, and nobody says how many
    if not whole:
        cards = next((found["card"] for text in texts if (found := _NO_P2P.search(text.text))), "")
        return _of_those(finding, plain, ranks, job, _BETWEEN if several else _of_a_host(cards))
    nodes_text = "both nodes" if job.nodes == 2 else f"all {job.nodes} nodes"
    who = nodes_text if job.nodes > 1 else f"several hosts ({named(', '.join(hosts), 80)})"
    return replace(
        finding,
        title=f"{plain}. They stand alike on {who}, so that none of these lags: suspect what goes between the nodes, "
        "which is slow or stands still",
        fix=f"{_BETWEEN}. Ranks that say nothing may lag all the same (py-spy dump). {_NO_LONGER}",
        evidence=(*finding.evidence, *([job.seen] if job.seen else [])),
    )


def _of_all(finding: Finding, plain: str, job: _Job, *, several: bool, alone: bool) -> Finding:
    """What is told where each rank of the job says that it waits."""
    cure = _BETWEEN if several else _ON_A_HOST if alone else f"{_ON_A_HOST}. Over several hosts look at their network"
    where = "between the nodes" if several else "from GPU to GPU"
    return replace(
        finding,
        title=f"{plain}. These are all {job.world} ranks that the log knows, so that none lags: what they send {where} "
        "is slow or stands still",
        fix=f"{cure}. {_NO_LONGER}",
        evidence=(*finding.evidence, *([job.seen] if job.seen else [])),
    )


def _of_a_host(card: str) -> str:
    """What to look at where ranks of one host may stand still, and whose cards have no P2P."""
    without = f"RTX {card} cards have no P2P, and a driver or hypervisor that claims it hangs there. " if card else ""
    return f"{_ON_A_HOST}. {without}Over several hosts look at their network"


def _of_those(finding: Finding, plain: str, ranks: set[int], job: _Job, test: str) -> Finding:
    """What is told where nobody says how many ranks there are, or all but one of them say that they wait."""
    if _AT_WORK in plain:
        return finding  # its work says what to do
    top = job.world or max(ranks) + 1
    silent = sorted(set(range(top)) - ranks)
    if not silent and not job.world:
        return replace(
            finding,
            title=f"{plain}. All that speak stand in it alike, without a gap from rank 0 to {top - 1}: where the job "
            "has no more, none lags, and what they send each other stands still",
            fix=f"{test}. Where the job has more ranks, look at those that say nothing (py-spy dump). {_NO_LONGER}",
        )
    if len(silent) != 1 or (not job.world and silent != [0]):
        return finding
    who = silent[0]
    return replace(
        finding,
        title=f"{plain}, and rank {who} alone of these {top} does not say so: look there first. It is held up "
        "elsewhere, or never took part",
        fix=f"py-spy dump --pid PID of rank {who} shows where it stands: loading, a branch by rank, a save, or an "
        f"error. Where it stands in the same call, what goes between the ranks stalls: {test}",
        evidence=(*finding.evidence, *([job.seen] if job.seen else [])),
    )


def _ranks(facts: Facts) -> set[int]:
    """The ranks that wait; none where lines are of several process groups, calls, or of ranks that are counted anew."""
    said = [
        dict(each) for scan in facts.scans if (hit := scan.hits.get(NAME)) is not None for each in hit.groups
    ]  # fmt: skip
    said = [each for each in said if "rank" in each]
    groups = {each["pg"] for each in said if "pg" in each}
    calls = {each["op"] for each in said if "op" in each}
    if len(groups) > 1 or len(calls) != 1 or any(each.get("who", each["rank"]) != each["rank"] for each in said):
        return set()
    return {int(each["rank"]) for each in said if "seq" in each}


def _job(texts: Sequence[Text]) -> _Job:
    """What commands, programs and launchers tell of the number of ranks; 0 ranks where they do not agree."""
    sizes = list(_numbers(_WORLD, texts))
    nodes = max((number for number, _ in _numbers(_NODES, texts)), default=1)
    if sizes:
        # Programs count the ranks of their groups, too: the job is the largest.
        world, seen = max(sizes, key=lambda each: each[0])
        return _Job(world, nodes, seen)
    each_node = dict(_numbers(_PER_NODE, texts))
    if len(each_node) == 1:
        ((number, seen),) = each_node.items()
        return _Job(number * nodes, nodes, seen, counted=True)
    ended = {
        found["sent"] or found["pid"] or found["killed"]: (text, found)
        for text in texts
        for found in _PROCESS.finditer(text.text)
    }
    if nodes > 1 or not ended:
        return _Job(0, nodes, None)
    text, found = next(iter(ended.values()))
    return _Job(len(ended), nodes, text.evidence(found.start()), counted=True)


def _numbers(words: re.Pattern[str], texts: Sequence[Text]) -> Iterator[tuple[int, Evidence]]:
    for text in texts:
        for found in islice(words.finditer(text.text), _MOST):
            number = next(each for each in found.groups() if each)
            yield int(number), text.evidence(found.start())


def _hosts(texts: Sequence[Text]) -> list[str]:
    """Who is named before the lines of ranks."""
    return sorted({found["host"] for text in texts for found in islice(_SPEAKS.finditer(text.text), _MOST)})
