"""A host on which two GPUs send over one NIC and another NIC carries nothing, where each GPU has its own elsewhere."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage

NAME = "nic-shared"
_SENDS = re.compile(
    r"(?<![\w.-])(?P<host>[A-Za-z][\w.-]{0,80}):\d{1,8}:\d{1,8} \[(?P<gpu>\d{1,3})\] NCCL INFO Channel \d{1,3}(?:/\d{1,3})? ?: "
    r"\d{1,6}\[\w{1,8}\] -> \d{1,6}\[\w{1,8}\] \[send\] via NET/(?:IB|AWS Libfabric|\w{2,20})/(?P<nic>\d{1,3})\b"
    r"(?!\(\d{1,6}\))"
)
"""A GPU that sends by itself; with a number in brackets another GPU of its host does that for it (PXN)."""
_SOCKET = "NET/Socket"
_FEWEST = 4
"""GPUs of a host: where each of so many has a NIC of its own, that is how the machine is built."""
_PATH = re.compile(r"^(?P<what>GPU\d{1,2}|mlx5_\d{1,2})\s{1,8}/sys/devices/pci")


@dataclass
class _Host:
    """By GPU the NICs that it sends over, and by NIC the line that shows it first for each GPU."""

    nics: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    seen: dict[tuple[int, int], Evidence] = field(default_factory=dict)

    @property
    def used(self) -> set[int]:
        return set().union(*self.nics.values())

    @property
    def is_one_each(self) -> bool:
        """Whether each GPU has one NIC that no other GPU of the host uses."""
        return all(len(each) == 1 for each in self.nics.values()) and len(self.used) == len(self.nics)


def examine(facts: Facts) -> Iterator[Finding]:
    hosts = _hosts(facts)
    models = {name: each for name, each in hosts.items() if len(each.nics) >= _FEWEST and each.is_one_each}
    for name, host in hosts.items():
        model = next((each for each in models if models[each].nics.keys() == host.nics.keys()), None)
        if model is None or name in models or any(len(each) != 1 for each in host.nics.values()):
            continue
        idle = sorted(models[model].used - host.used)
        shared = next((nic for nic in sorted(host.used) if _users(host, nic) > 1), None)
        if idle and shared is not None:
            yield _finding(facts, (name, host), model, shared, idle)


def _users(host: _Host, nic: int) -> int:
    return sum(nic in each for each in host.nics.values())


def _hosts(facts: Facts) -> dict[str, _Host]:
    hosts: dict[str, _Host] = defaultdict(_Host)
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            if "[send] via NET/" not in line or _SOCKET in line or (found := _SENDS.search(line)) is None:
                continue
            host, gpu, nic = hosts[found["host"]], int(found["gpu"]), int(found["nic"])
            host.nics[gpu].add(nic)
            host.seen.setdefault((gpu, nic), Evidence(clean(shortened(line.strip(), 160)), shown.source, number))
    return dict(hosts)


def _finding(facts: Facts, which: tuple[str, _Host], model: str, shared: int, idle: list[int]) -> Finding:
    name, host = which
    gpus = sorted(gpu for gpu, nics in host.nics.items() if shared in nics)
    paths = _listed(facts)
    return Finding(
        NAME, Severity.WARNING,
        f"on {clean(name)} GPUs {', '.join(map(str, gpus))} send over one NIC (NET/{shared}) and NIC "
        f"{', '.join(map(str, idle))} carries nothing; on {clean(model)} each GPU has its own",
        (*(host.seen[gpu, shared] for gpu in gpus[:3]), *paths),
        Cost(
            f"what these GPUs send takes {len(gpus)} times as long, and all hosts wait for it", float(len(gpus)),
            "GPUs that share the NIC",
        ),
        f"compare the PCIe tree of {clean(name)} with that of {clean(model)} (lspci -tv, nvidia-smi topo -m, readlink "
        f"/sys/class/infiniband/*/device): its firmware shows a GPU below another switch. Update BIOS and switch "
        "firmware to those of the other hosts. Until then a corrected NCCL_TOPO_FILE there, or leave the host out. NIC "
        "and cable are not at fault",
        Proof(instruction=f"run without {clean(name)}; NCCL_TOPO_DUMP_FILE on both hosts, and compare the two files"),
        stage=Stage.SYSTEM,
    )  # fmt: skip


def _listed(facts: Facts) -> list[Evidence]:
    """Where the devices lie in the PCIe tree, as somebody listed them."""
    return [
        Evidence(clean(shortened(line.strip(), 160)), shown.source, number)
        for shown in facts.shown
        for number, line in enumerate(shown.lines, 1)
        if "/sys/devices/pci" in line and _PATH.match(line)
    ][-4:-2]
