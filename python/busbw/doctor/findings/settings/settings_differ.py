"""A variable of NCCL that has different values on ranks of one job, or that some hosts set and others do not."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from busbw.base.secrets import shortened
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
_DECIDE = frozenset({"NCCL_ALGO", "NCCL_PROTO"})
"""By these each rank chooses how it talks, and the first large collective stands where ranks choose differently."""
_HANGS = re.compile(
    r"(?<!no )(?<!not )(?<!never )(?<!without )\b(?:hangs?|hung|hanging|deadlocks?|freezes|stuck"
    r"|never (?:returns?|ends?|finish(?:es)?|completes?))\b",
    re.IGNORECASE,
)
_MOST_LINES = 2000
"""Of a text that people wrote beside logs."""
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
    told = {name for name, found in values.items() if len(found) > 1}
    if any(name in scan.hits for scan in facts.scans for name in _EFFECTS):
        yield from _on_some(facts, _AGREED - told)
    else:
        yield from _on_one_that_hangs(facts, _DECIDE - told)


def _on_one_that_hangs(facts: Facts, names: Iterable[str]) -> Iterator[Finding]:
    """What decides how ranks talk, set on some hosts alone, where somebody or something says that the job hangs."""
    hangs = _said_to_hang(facts)
    if hangs is None:
        return
    for finding in _on_some(facts, names, late=True):
        yield replace(
            finding, severity=Severity.ERROR, stage=Stage.SETTING, evidence=(*finding.evidence, hangs),
            cost=Cost("the job fails or hangs: ranks choose different ways, and wait for each other"),
        )  # fmt: skip


def _said_to_hang(facts: Facts) -> Evidence | None:
    """The line by which the job hangs, in words of who posts it or of a program; None without such."""
    if not any(log.sayers.keys() & _DECIDE for log in facts.logs):
        return None
    for scan in facts.scans:
        if (hit := scan.hits.get("watchdog-timeout")) is not None and hit.lines:
            return Evidence(shortened(clean(hit.lines[0][1].strip()), 200), scan.source, hit.lines[0][0])
    for file in facts.snapshot.logs:
        for number, line in enumerate((file.text or "").splitlines()[:_MOST_LINES], 1):
            if "NCCL INFO" not in line and _HANGS.search(line[:1000]):
                return Evidence(shortened(clean(line.strip()), 200), file.path, number)
    return None


def _on_some(facts: Facts, names: Iterable[str], *, late: bool = False) -> Iterator[Finding]:
    """A variable that ranks of one host say that they read, and those of another host do not.

    `late`: it is read at the end of an init, so that a host whose init did not end had no time to say so.
    """
    places = [place for log in facts.logs for each in log.communicators for place in each.ranks]
    ended = {place.host for place in places if place.complete}
    hosts = {host for log in facts.logs for host in log.networks} | {place.host for place in places}
    for name in sorted(names):
        setters = {host for log in facts.logs for host in log.sayers.get(name, ())}
        without = sorted((hosts & ended if late else hosts) - setters - {""})
        if late and any(name in scan.given for scan in facts.scans):
            continue  # a command gives it to all of them, whatever the logs show
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
            "and the same nccl.conf on all hosts. Where no command sets it, look on the host that has it into "
            "/etc/nccl.conf, ~/.nccl.conf, /etc/environment and /etc/profile.d",
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
