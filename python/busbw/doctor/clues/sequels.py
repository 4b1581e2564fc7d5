"""Findings that only follow from another one beside them become notes that say so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.doctor.clues.gpu_sequels import OF_GPUS
from busbw.doctor.clues.link import Link as _Link
from busbw.doctor.clues.links_of_machines import OF_MACHINES
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.signature import Stage

_LINKS = (
    # The peers of a process that the kernel or the scheduler ended get no answer from it, or are refused.
    _Link(
        "host-memory",
        re.compile(r"oom[-_ ]?kill|OOM ?Killed|Out of memory: Kill|Killed process|emory cgroup|signal: Killed"),
        frozenset({"ib-retry", "ib-completion-error", "connection-refused"}),
    ),
    _Link(
        "job-cancelled",
        re.compile(r"PREEMPT|higher priority"),
        frozenset({"ib-retry", "ib-completion-error", "connection-refused", "nccl-error"}),
        first=True,
    ),
    *OF_MACHINES,
    # Ranks that are there twice leave others that never come.
    _Link("rank-count", re.compile(r"already checked in"), frozenset({"init-incomplete"})),
    _Link("init-incomplete", re.compile(r"get no answer"), frozenset({"nccl-error"})),
    _Link("connection-timeout", re.compile(r"get no answer"), frozenset({"init-incomplete", "nccl-error"})),
    # The pods that run wait for the one that does not.
    _Link(
        "slurm-resources",
        re.compile(r" Pending, so that the job is not complete"),
        frozenset({"rendezvous-timeout", "master-unreachable", "store-lost", "dns"}),
    ),
    # Where rank 0 finds its port taken, it listens nowhere.
    _Link(
        "port-in-use",
        re.compile(r"failed to listen on any local network address"),
        frozenset({"connection-refused"}),
        re.compile(r"client socket has failed to connect"),
    ),
    *(
        _Link(name, re.compile("devices of the NVSwitches within"), frozenset({"ib-async"}))
        for name in ("ib-remote-error", "ib-retry", "ib-completion-error", "ib-connect-timeout")
    ),
    # What takes all connections of a pod keeps ranks from each other.
    *(
        _Link(name, re.compile("^a service mesh stands"), frozenset({"init-incomplete", "nccl-error"}))
        for name in ("kubernetes-event", "remote-error", "connection-refused", "connection-timeout", "socket-failed")
    ),
    _Link(
        "machine-check",
        re.compile("upon which its kernel stopped"),
        frozenset({"node-lost", "kernel-hang", "ib-retry", "ib-completion-error", "watchdog-timeout", "remote-error"}),
    ),
    # UCX and NCCL meet the same limit.
    _Link(
        "memlock", re.compile(""), frozenset({"mpi-network"}), re.compile(r"locked memory|memlock|ibv_\w+\(\) failed")
    ),
    _Link("driver-not-loaded", re.compile(r"cannot be built for"), frozenset({"build-failed"})),
    _Link("disk-full", re.compile("pyxis writes"), frozenset({"container-start"})),
    # What the plugin of a node drops it does not offer to the scheduler.
    _Link("ib-devices-missing", re.compile(r"RDMA device plugin drops"), frozenset({"slurm-resources"})),
    # A stranger's connection ended the init; the launcher ended the rest.
    _Link(
        "remote-error",
        re.compile("no host of this job"),
        frozenset({"init-incomplete", "killed-by-launcher", "nccl-error", "rank-ended"}),
    ),
    _Link("library-versions", re.compile("NCCL"), frozenset({"message-truncated"})),
    # A host without an active port takes sockets, and what the others send it over RDMA is refused.
    _Link(
        "ib-port-down",
        re.compile("^no RDMA port of"),
        frozenset({"networks-differ", "ib-invalid-gid", "ib-connect-timeout", "no-gdr", "network-interface"}),
    ),
    # Over the others' RDMA the second interface of its sockets carries nothing.
    _Link(
        "ib-port-down",
        re.compile("^no RDMA port of"),
        frozenset({"wrong-interface"}),
        re.compile(r"NET/Socket : Using \[0\](?!docker|br-|virbr|veth|cni|cali|flannel)"),
    ),
    _Link("networks-differ", re.compile("chose different"), frozenset({"ib-invalid-gid", "ib-connect-timeout"})),
    # The listener of one network does not know the first bytes of another one.
    *(
        _Link(name, re.compile(words), frozenset({"stranger"}), re.compile(r"\bwrong type \d{1,3} != \d"))
        for name, words in (("ib-port-down", "^no RDMA port of"), ("networks-differ", "chose different"))
    ),
    # One NIC's setting breaks transfers in several ways.
    *(
        _Link(
            name,
            re.compile("forces relaxed ordering"),
            frozenset({"message-truncated", "ib-local-error", "ib-remote-error", "wrong-results"}) - {name},
        )
        for name in ("ib-local-error", "ib-remote-error", "wrong-results")
    ),
    # Who knows which rank calls what knows why sizes do not fit.
    _Link("calls-differ", re.compile("^ranks call different"), frozenset({"message-truncated"})),
    _Link(
        "collective-mismatch",
        re.compile("^ranks? .{0,60}(?:calls|never came|of different shape)"),
        frozenset({"message-truncated"}),
    ),
    _Link(
        "ras-mismatch",
        re.compile("took another branch"),
        frozenset({"watchdog-timeout", "stuck-in-collective", "flight-recorder"}),
    ),
    # A node throws pods out to save itself.
    _Link(
        "disk-full", re.compile(r"low on resource|DiskPressure"), frozenset({"job-cancelled"}), re.compile("Evicted")
    ),
    _Link("host-memory", re.compile("low on resource"), frozenset({"job-cancelled"}), re.compile("Evicted")),
    # The fault names the GPU whose transfers to another one are refused.
    _Link("iommu-fault", re.compile(r"\bnvidia\b.{0,60}IO_PAGE_FAULT"), frozenset({"p2p-matrix"})),
    # Who waits for a lock comes to no collective.
    _Link(
        "build-lock",
        re.compile(r"\block\b"),
        frozenset({"watchdog-timeout", "rendezvous-timeout", "stuck-in-collective", "server-waits", "init-incomplete"}),
    ),
    # What a host keeps to itself, and memory that would have been there; the address that all were given.
    _Link(
        "connection-refused", re.compile("rpc-server"), frozenset({"gpu-memory-full"}), re.compile(r"llama\.cpp|ggml")
    ),
    _Link("wrong-interface", re.compile("gives to all nodes is"), frozenset({"master-unreachable"})),
    _Link("master-unreachable", re.compile("gives to all nodes is"), frozenset({"watchdog-timeout"})),
    # The switch tells of the same link at its other end; other GPUs' kernels wait for the one behind it.
    _Link(
        "nvlink-error",
        re.compile(r"\): ?(?:74|14[4-9]|15[0-36])\b|NVLink uncorr|uncorrectable NVLink|NvlinkUncorr|NVLINK_UNCORR"),
        frozenset({"nvswitch-error", "gpu-firmware", "illegal-access", "process-crashed"}),
        re.compile(
            r"SXid|Xid[^\n]{0,40}: 1(?:19|20)\b|unspecified launch|LaunchFailure|[Gg][Ss][Pp]|[Ss]egfault|^thrown at"
            r"|^called in"
        ),
        first=True,
    ),
    # Peers read memory of a GPU that stopped its own channel: links and switches say that no answer came.
    _Link(
        "gpu-memory-error",
        re.compile(r"uncorrectable ECC error|\bUncontained\b|\bContained: |\): (?:48|95)\b"),
        frozenset({"nvlink-error", "nvswitch-error", "gpu-exception"}),
        re.compile(
            r"Invalid access of peer GPU memory over nvlink|CUDA_ERROR_CONTAINED|cudaErrorContained|^thrown at"
            r"|SXid[^\n]{0,60}\): 12028\b|Xid[^\n]{0,40}: 137\b"
        ),
        never=re.compile(r"Xid (?:74|14[4-9]|15\d)\b"),
    ),
    # Windows warns of each name of its own host that it tries first.
    _Link(
        "library-not-found",
        re.compile("^PyTorch for Windows has no NCCL"),
        frozenset({"master-unreachable"}),
        re.compile(r"system error: 10049\b"),
    ),
    # A kernel on another GPU that read memory of the one that failed.
    _Link(
        "gpu-memory-error",
        re.compile(r"uncorrectable ECC error|\bUncontained\b|\bContained: |\): (?:48|64|95)\b"),
        frozenset({"illegal-access"}),
        re.compile(r"unspecified launch|LaunchFailure|^thrown at|^called in"),
        first=True,
    ),
    # A device that cannot be used is none for NCCL, whatever name was asked for.
    _Link(
        "ib-devices-missing",
        re.compile(r"does not fit the kernel's module|does not fit its libibverbs|has no driver \(provider\)"),
        frozenset({"hca-not-found"}),
    ),
    _Link("ib-port-down", re.compile(r"^the virtual function"), frozenset({"hca-not-found"})),
    # A node whose credential is refused starts no task, and the others wait for it.
    _Link(
        "slurm-setup",
        re.compile(r"Job credential expired|Task launch for|Application launch failed|REQUEST_LAUNCH_TASKS"),
        frozenset({"rendezvous-timeout", "master-unreachable"}),
    ),
    # A task waits in the kernel for what broke before.
    *(
        _Link(name, re.compile(""), frozenset({"kernel-hang"}), re.compile(r"blocked for more than"), first=True)
        for name in ("gpu-firmware", "gpu-off-bus", "iommu-fault")
    ),
    _Link("file-system", re.compile(r"lost its connection"), frozenset({"file-system-stall"})),
    # A GPU that does not answer keeps its containers from an end, and new ones from a start.
    _Link(
        "gpu-firmware",
        re.compile(r"\): (?:119|120)\b|GSP"),
        frozenset({"driver-not-loaded", "container-start"}),
        re.compile(r"nvml error|Unknown Error|nvidia-container|Error response from daemon"),
    ),
    # Ranks of a host without a driver never join.
    *(
        _Link(name, re.compile(""), frozenset({"rendezvous-timeout"}))
        for name in ("driver-mismatch", "driver-not-loaded")
    ),
    # Whoever gives GPUs to jobs finds one less.
    *(
        _Link(
            name,
            re.compile(""),
            frozenset({"slurm-resources"}),
            re.compile(r"UnexpectedAdmissionError|Allocate failed|count (?:reported lower|too low)"),
        )
        for name in ("gpu-off-bus", "driver-not-loaded", "driver-mismatch")
    ),
    # What is said of a job that stands still, and of where it stands.
    _Link("p2p-hangs", re.compile(""), frozenset({"stands-still", "watchdog-timeout"})),
    _Link("p2p-hangs", re.compile(r": the IOMMU refuses them"), frozenset({"iommu-fault"})),
    _Link("p2p-broken", re.compile(r"did not reach the workers"), frozenset({"p2p-disabled"})),
    _Link("collective-mismatch", re.compile(r"^rank \d+ failed with an error of"), frozenset({"gpu-permission"})),
    # Where a second run passes without P2P, its setting is the way around, and the first one's end a sequel.
    _Link(
        "p2p-hangs",
        re.compile("the same job passes without them"),
        frozenset({"rank-ended", "server-waits", "p2p-disabled", "process-crashed", "killed-by-launcher"}),
    ),
    # Workers lose the leader that the kubelet ended.
    _Link(
        "probe-failed",
        re.compile(r"while the server still loads its weights"),
        frozenset({"node-lost", "remote-error", "store-lost", "rank-ended", "connection-refused", "ray-error"}),
    ),
    # Who asks a GPU that is busy with its own memory waits, and is ended for it.
    _Link(
        "gpu-memory-storm",
        re.compile(""),
        frozenset({"probe-failed"}),
        re.compile(r"dcgm|health|monitor|nvidia|[Ll]iveness", re.IGNORECASE),
    ),
    _Link(
        "host-memory",
        re.compile("was killed at its own limit of memory"),
        frozenset({"node-lost", "mpi-launch", "efa-error", "remote-error", "ib-retry", "connection-refused"}),
        re.compile(
            r"lost communication|daemon|completed with error|unresponsive|closed|reset by peer|Broken pipe"
            r"|refused|status=12"
        ),
    ),
    # Who was killed answers no more; Ray says it later than those who notice.
    _Link(
        "host-memory",
        re.compile("Ray killed workers"),
        frozenset({"connection-refused"}),
        re.compile(r"socket\w{4,16}:? |NCCL|[Gg]loo|\bConnect to\b"),
    ),
    # A rank that NCCL cannot connect hands no tensor to Horovod.
    *(
        _Link(
            name,
            re.compile("NCCL WARN"),
            frozenset({"collective-mismatch"}),
            re.compile(r"[Ss]talled (?:ops|ranks)|were submitted to be reduced|missing ranks"),
        )
        for name in ("connection-refused", "connection-timeout", "no-route", "wrong-interface", "ib-connect-timeout")
    ),
    # Of a link with bit errors, or of a queue that drops, transfers get no answer in the end.
    _Link(
        "roce-loss",
        re.compile(r"^RoCE's packets go in priority|BER above its limit|port between two switches$"),
        frozenset({"ib-retry", "ib-completion-error"}),
        never=re.compile(r"^(?!RDMA packets get no answer|an RDMA transfer failed)"),
    ),
    # A firewall that refuses NCCL's port refused those of mpirun before.
    *(
        _Link(
            name,
            re.compile(r"^a firewall (?:on|of) "),
            frozenset({"mpi-launch"}),
            re.compile(r"TCP conn|to reliably start|lost commun|HYDU_sock_c|unable to conn|active\)$|^Status: act"),
        )
        for name in ("no-route", "connection-timeout", "connection-refused")
    ),
    # A ping between the pair that lost each other is no second fault.
    *(
        _Link(
            name,
            re.compile(r"ping gets no answer"),
            frozenset({"no-route"}),
            re.compile(r"packets transmitted|Unreach"),
        )
        for name in ("ib-retry", "ib-connect-timeout", "ib-completion-error")
    ),
    # A switch that stops the job is not told again as one that slows it.
    *(
        _Link(
            name,
            re.compile(r"^CUDA_LAUNCH_BLOCKING=1 lets the job stand still"),
            frozenset({"slow-settings"}),
            never=re.compile(r"^(?!CUDA_LAUNCH_BLOCKING)"),
        )
        for name in ("watchdog-timeout", "stuck-in-collective", "stands-still")
    ),
    # RDMA's packets are as large as the port's MTU, and lost where those of ping are.
    _Link(
        "mtu-path",
        re.compile(r"^packets of \d{4,5} bytes do not get through"),
        frozenset({"ib-retry", "ib-completion-error", "ib-connect-timeout", "watchdog-timeout"}),
        never=re.compile(r"\blags\b|still saves|had ended"),
    ),
    # Settings that were tried to find what is wrong slow no job.
    _Link(
        "wrong-results",
        re.compile(r"^NCCL \S{4,12}(?: NVLS)? computes wrong sums here"),
        frozenset({"forced-algorithm", "forced-protocol", "slow-settings", "p2p-disabled", "shm-disabled"}),
    ),
    # NCCL refused the plugin, and then missed its network.
    _Link("network-not-found", re.compile(r"is missing because its plugin"), frozenset({"old-plugin"})),
    # A host whose disk is full starts no rank that others wait for.
    _Link("disk-full", re.compile(r"ranks of that host never joined"), frozenset({"rendezvous-timeout"})),
    # The node's loss tells of the sizes that do not fit those left.
    _Link("node-lost", re.compile(r"torchrun started again with"), frozenset({"rank-count"})),
    # A few channels use a few ports.
    _Link("few-channels", re.compile(r"^NCCL_M(?:AX|IN)_\w{3,12}=\d"), frozenset({"one-rail"})),
    # Distances and links are those of the file.
    _Link(
        "topology-file",
        re.compile(r"^the topology file is of another machine type"),
        frozenset({"no-gdr", "nic-far", "one-rail", "few-channels"}),
    ),
    # The pods' own pings go the same way as their connections.
    _Link(
        "connection-timeout",
        re.compile(r"packets of the overlay network"),
        frozenset({"no-route"}),
        re.compile(r"packets transmitted|Unreach|packets of the overlay"),
    ),
    _Link("ib-connect-timeout", re.compile(r"ARP gets no answer"), frozenset({"init-incomplete"})),
    # Connections that used an address which is gone get no answer.
    _Link(
        "ib-invalid-gid",
        re.compile(r"changed while the job ran \("),
        frozenset({"ib-retry", "ib-completion-error", "watchdog-timeout"}),
    ),
    _Link("ib-port-down", re.compile(r"^the link of .{4,80} is bad"), frozenset({"roce-loss"}), re.compile("BER")),
    *(_Link(name, re.compile(words), sequels, re.compile(only)) for name, words, sequels, only in OF_GPUS),
)
_GID_CHANGES = re.compile(r"GID table change|unknown event type \(18\)")
"""An event that NICs also report where an interface goes or comes for other reasons."""


def with_sequels(findings: Sequence[Finding]) -> list[Finding]:
    """The findings; those that a link explains are notes."""
    told = list(findings)
    for at, each in enumerate(told):
        if each.severity is not Severity.NOTE:
            # What became a note explains no further: two that explain each other would both vanish.
            told[at] = _linked(each, [other for other in told if other.severity is not Severity.NOTE])
            if each.name in (_LAUNCH, _LINK, _NODE, _ACCESS) and told[at] is not each:
                told = _past(each.name, told, told[at].title.partition(":")[0])
    return told


def _past(name: str, findings: Sequence[Finding], follows: str) -> list[Finding]:
    """The findings; what was said to follow from what is itself a sequel follows from the cause of that."""
    old = f"follows from {name}: "
    return [replace(each, title=each.title.replace(old, f"{follows}: ")) for each in findings]


_LINK, _NODE, _ACCESS = "nvlink-error", "node-lost", "illegal-access"
_LAUNCH, _HELPER = "mpi-launch", "the launcher lost one of its helpers"
"""What Hydra, MPICH's launcher, says of a host whose rank ended, too."""


def _of_helper(finding: Finding, loud: Sequence[Finding]) -> Finding | None:
    """The error above in the same log by which a rank ended before the launcher lost its helper."""
    if finding.name != _LAUNCH or not finding.title.startswith(_HELPER):
        return None
    at = finding.evidence[0]
    causes = [
        each
        for each in loud
        if each is not finding
        and each.severity is Severity.ERROR
        and each.stage < Stage.EFFECT
        and any(seen.where == at.where and 0 < (seen.line or 0) < (at.line or 0) for seen in each.evidence)
    ]
    return min(causes, key=lambda each: each.stage, default=None)


def _linked(finding: Finding, loud: Sequence[Finding]) -> Finding:
    if (ended := _of_helper(finding, loud)) is not None:
        return _note(finding, ended)
    for link in _LINKS:
        if finding.name not in link.sequels or link.never.search(finding.title) or not _all_say(finding, link.only):
            continue
        for cause in (each for each in loud if each.name == link.cause):
            said = (cause.title, *(seen.fact for seen in cause.evidence))
            if cause.severity.rank > finding.severity.rank or (
                link.first and _stands_before(finding, cause) and not _of_kernel_alone(cause, finding)
            ):
                continue
            if any(map(link.words.search, said)):
                return _note(finding, cause)
    if finding.name == "ib-invalid-gid" and _all_say(finding, _GID_CHANGES):
        causes = [each for each in loud if each.severity is Severity.ERROR and each.stage < Stage.NETWORK]
        if causes:
            return _note(finding, min(causes, key=lambda each: each.stage))
    return finding


def _stands_before(one: Finding, other: Finding) -> bool:
    """Whether the first line of the one stands before that of the other, in a log that has both."""
    lines, others = ({seen.where: seen.line for seen in reversed(each.evidence) if seen.line} for each in (one, other))
    return any(line < others[where] for where, line in lines.items() if where in others)


def _of_kernel_alone(cause: Finding, sequel: Finding) -> bool:
    """Whether the kernel tells the cause and a program the sequel: its lines are pasted behind, whatever came first."""
    told, others = (
        [_KERNEL.search(seen.fact) is not None for seen in each.evidence if seen.line and not _FRAME.match(seen.fact)]
        for each in (cause, sequel)
    )
    return all(told) and not any(others)


_FRAME = re.compile(r"(?:thrown at|called in) ")
_KERNEL = re.compile(r"\bNVRM: |\bkernel: |\bnvidia-nvswitch\d{1,2}: ")


def _all_say(finding: Finding, words: re.Pattern[str]) -> bool:
    return all(words.search(seen.fact) for seen in finding.evidence if seen.line)


def _note(finding: Finding, cause: Finding) -> Finding:
    return replace(finding, severity=Severity.NOTE, title=f"follows from {cause.name}: {finding.title}")
