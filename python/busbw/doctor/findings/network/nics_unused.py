"""A job over several nodes that uses fewer NICs than its machine has."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage
from busbw.machine.nccl.log_model import NcclLog
from busbw.machine.topology.rails import rails

NAME = "nics-unused"
_CHOICE = "NCCL_IB_HCA"


def examine(facts: Facts) -> Iterator[Finding]:
    if not facts.several_nodes or facts.stranger or facts.value(_CHOICE) is not None:
        return  # what somebody chose is told as that setting
    has, where = _has(facts)
    for log in facts.logs:
        used = _used(log)
        if not 0 < used < has:
            continue
        yield Finding(
            NAME,
            Severity.WARNING,
            f"the job uses {used} of {has} NICs",
            (
                Evidence(f"NCCL uses {_names(log)}", log.source, log.net_devices_line),
                Evidence(f"{has} NICs for collectives", where),
            ),
            Cost(f"{has / used:.1f} times less between nodes", has / used, "from the number of NICs"),
            "give containers and pods every RDMA device (/dev/infiniband, device plugin). Bring ports up that are down "
            "(ibstat, rdma link), and see ibv_devices on each host",
            Proof(instruction="grep 'NET/.* : Using' in a log with NCCL_DEBUG=INFO: it names every NIC"),
            stage=Stage.NETWORK,
        )
        return


def _has(facts: Facts) -> tuple[int, str]:
    """How many NICs a node has for collectives, and who says so."""
    machine = facts.snapshot.machine
    ports = len(rails(machine).ports) if machine is not None else 0
    if machine is not None and ports:
        return ports, machine.source
    known = [each for each in facts.expected if each.fabric is not None and each.fabric.nics and each.basis]
    return (known[0].fabric.nics, f"the bandwidth is judged {known[0].basis}") if known and known[0].fabric else (0, "")


def _used(log: NcclLog) -> int:
    """NICs that NCCL lists, of which it joins ports of one card to one; a list of sockets is none of NICs."""
    names = {each.rpartition(":")[0].partition(" ")[2] for each in log.net_devices if each.startswith("IB ")}
    return len({port for name in names for port in name.split("+")})


def _names(log: NcclLog) -> str:
    return ", ".join(each.partition(" ")[2] for each in log.net_devices[:16])
