"""A variable of NCCL that has different values on ranks of one job, or that some hosts set and others do not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage
from busbw.machine.nccl.log_model import Variable

NAME = "settings-differ"
# They name a device or file of the rank or host itself, or change nothing that others see.
_OWN = ("FILE", "IFNAME", "HCA", "DEBUG", "DUMP", "HOSTID", "COMM_ID", "CUDA_VISIBLE_DEVICES", "PATH", "PLUGIN")
_AGREED = frozenset(
    f"NCCL_{each}"
    for each in (
        *("PROTO", "ALGO", "BUFFSIZE", "LL_BUFFSIZE", "LL128_BUFFSIZE", "P2P_NET_CHUNKSIZE", "P2P_PCI_CHUNKSIZE"),
        *("P2P_NVL_CHUNKSIZE", "CHUNK_SIZE", "MIN_NCHANNELS", "MAX_NCHANNELS", "MIN_CTAS", "MAX_CTAS", "NTHREADS"),
        *("MIN_P2P_NCHANNELS", "MAX_P2P_NCHANNELS", "NCHANNELS_PER_NET_PEER", "NSOCKS_PERTHREAD", "SOCKET_NTHREADS"),
        *("NET", "NVLS_ENABLE", "COLLNET_ENABLE", "PAT_ENABLE", "LL128_NTHREADS", "THREAD_THRESHOLDS", "NET_OVERHEAD"),
        *("NET_FORCE_FLUSH", "NET_SHARED_BUFFERS", "NET_SHARED_COMMS", "CROSS_NIC", "PXN_DISABLE", "RUNTIME_CONNECT"),
        *("IB_QPS_PER_CONNECTION", "IB_MERGE_NICS", "IB_SPLIT_DATA_ON_QPS", "CUMEM_ENABLE", "CUMEM_HOST_ENABLE"),
    )
)
"""By these ranks decide what they send each other: the sizes, the number or the kind of messages."""
_EFFECTS = frozenset({"message-truncated", "collective-mismatch"})
"""What is said where ranks sent each other what they did not await."""
_WAITS = frozenset({"init-incomplete", "stuck-in-collective", "ib-local-error", "ib-remote-error", "nccl-internal"})
"""What may be of other causes too."""


def examine(facts: Facts) -> Iterator[Finding]:
    values: dict[str, dict[str, tuple[str, Variable]]] = defaultdict(dict)
    for log in facts.logs:
        for each in log.variables:
            if not each.name.endswith(_OWN) and each.name.startswith("NCCL_"):
                # NCCL ends the sentence of a number with a point, and older versions do not.
                values[each.name].setdefault(each.value.rstrip(". "), (log.source, each))
    for name, found in values.items():
        if len(found) < 2:
            continue
        places = tuple(
            Evidence(f"{name}={value}", source, each.line) for value, (source, each) in list(found.items())[:4]
        )
        # Programs set some variables for one of their communicators, on all ranks alike.
        by_itself = sum(bool(each.before) for _, each in found.values()) == len(found) - 1
        yield Finding(
            NAME, Severity.NOTE if by_itself else Severity.WARNING,
            f"{name} has {len(found)} values: {', '.join(list(found)[:4])}"
            + (" (the program changes it between communicators)" if by_itself else ""), places,
            Cost("ranks choose different ways: less bandwidth, or a job that hangs"),
            f"set {name} to one value on all ranks: the same environment (mpirun -x, srun --export=ALL) and the same "
            "nccl.conf on all hosts; where one process set it twice, leave one",
            Proof(instruction="run with the same value everywhere and compare"),
        )  # fmt: skip
    if any(name in scan.hits for scan in facts.scans for name in _EFFECTS):
        yield from _on_some(facts, {name for name, found in values.items() if len(found) > 1})


def _on_some(facts: Facts, told: Iterable[str]) -> Iterator[Finding]:
    """A variable that ranks of one host say that they read, and those of another host do not."""
    hosts = {host for log in facts.logs for host in log.networks} | {
        place.host for log in facts.logs for each in log.communicators for place in each.ranks
    }
    for name in sorted(_AGREED.difference(told)):
        setters = {host for log in facts.logs for host in log.sayers.get(name, ())}
        without = sorted(hosts - setters - {""})
        if not setters or not without or name in facts.snapshot.environment:
            continue
        source, said = next((log.source, each) for log in facts.logs if (each := log.variable(name)) is not None)
        who = sorted(setters)
        yield Finding(
            NAME, Severity.WARNING,
            f"{name}={clean(said.value)[:60]} is set on {', '.join(map(clean, who[:3]))} and not on "
            f"{', '.join(map(clean, without[:3]))}",
            (Evidence(f"{clean(who[0])}: {name} set to {clean(said.value)[:120]}", source, said.line),),
            Cost("ranks choose different ways: less bandwidth, or a job that hangs"),
            f"set {name} to one value on all ranks, or on none: the same environment (mpirun -x, srun --export=ALL) "
            "and the same nccl.conf on all hosts",
            Proof(instruction="run with the same value everywhere and compare"),
        )  # fmt: skip


def with_effects(findings: list[Finding]) -> list[Finding]:
    """Where ranks sent each other what they did not await, the variable in which they differ is the cause."""
    loud = {each.name for each in findings if each.severity is not Severity.NOTE}
    differ = [each for each in findings if each.name == NAME and _name(each) in _AGREED]
    differ = [each for each in differ if each.severity is not Severity.NOTE]
    if not differ or loud.isdisjoint(_EFFECTS | _WAITS):
        return findings
    made = []
    for each in findings:
        if any(each is cause for cause in differ):
            made.append(
                replace(each, severity=Severity.ERROR, stage=Stage.SETTING, cost=Cost("the job fails or hangs"))
            )
        elif each.name in _EFFECTS and each.severity is not Severity.NOTE:
            made.append(replace(each, severity=Severity.NOTE, title=f"follows from {NAME}: {each.title}"))
        else:
            made.append(each)
    return made


def _name(finding: Finding) -> str:
    return finding.title.partition(" ")[0].partition("=")[0]
