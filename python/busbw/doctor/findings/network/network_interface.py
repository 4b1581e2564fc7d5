"""A network interface that is wrong or slow: named but absent, slower than another, or sockets where RDMA is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.near_nics import chosen_far, matches, takes_the_nearest
from busbw.doctor.remedy import evidence, removal, without
from busbw.doctor.signature import Stage
from busbw.machine.nccl.conf import Setting
from busbw.machine.nccl.log_model import Communicator, NcclLog
from busbw.machine.topology.model import Nic

NAME = "network-interface"
_LARGE_BYTES = 32 << 20
_ONE_NAME = re.compile(r"=?[A-Za-z]\w{1,30}(?::\d{1,2})?")
_MANY_RANKS = 8
_NUMBER_ALONE = re.compile(r"NIC\d{1,3}")
"""As `nvidia-smi topo -m` numbers NICs; without the legend under its table nobody knows their names."""


def examine(facts: Facts) -> Iterator[Finding]:
    yield from _socket_names(facts)
    yield from _rdma_names(facts)
    yield from _single_nic(facts)
    yield from _sockets_between_nodes(facts)
    yield from _loopback(facts)
    yield from _down(facts)


def _socket_names(facts: Facts) -> Iterator[Finding]:
    setting, machine = facts.settings.get("NCCL_SOCKET_IFNAME"), facts.machine
    if setting is None or not setting.value or machine is None or not facts.snapshot.host:
        return  # without the host's own list of interfaces nobody knows which exist
    if _is_of_other_host(setting, facts):
        return
    known = [nic for nic in machine.nics if nic.interface]
    chosen = [nic for nic in known if matches(setting.value, nic.interface or "")]
    if not chosen and matches(setting.value, "lo"):
        return
    if not chosen:
        names = ", ".join(nic.interface or nic.name for nic in known) or "none"
        yield _finding(
            setting, Severity.ERROR, f"{setting.name}={setting.value} names no interface of this host",
            Evidence(f"interfaces: {names}", machine.source), "NCCL finds no socket interface and fails between nodes",
        )  # fmt: skip
        return
    best = max(known, key=_speed)
    fastest = max(chosen, key=_speed)
    if _speed(fastest) and _speed(best) >= 2 * _speed(fastest):
        fact = f"{fastest.interface} has {_speed(fastest):g} Gb/s, {best.interface} has {_speed(best):g} Gb/s"
        yield _finding(
            setting, Severity.WARNING if facts.several_nodes else Severity.NOTE,
            f"{setting.name}={setting.value} chooses a slow interface", Evidence(fact, machine.source),
            "sockets between nodes reach the slow interface's rate",
        )  # fmt: skip


def _is_of_other_host(setting: Setting, facts: Facts) -> bool:
    """Whether a log alone sets it, and all that speak in that log are on other hosts than the one looked at."""
    log = next((each for each in facts.logs if each.source == setting.origin.where), None)
    own = (facts.machine.host if facts.machine else None) or ""
    if log is None or not own:
        return False
    hosts = {*log.networks, *(host for each in log.communicators for host in each.hosts)} - {""}
    return bool(hosts) and own.partition(".")[0] not in {each.partition(".")[0] for each in hosts}


def _rdma_names(facts: Facts) -> Iterator[Finding]:
    setting, machine = facts.settings.get("NCCL_IB_HCA"), facts.machine
    if setting is None or not setting.value or machine is None or not facts.has_rdma:
        return
    if _is_of_other_host(setting, facts):
        return
    if chosen_far(facts) is not None:
        return  # told as what it is: the list names the NICs of other GPUs
    devices = [nic for nic in machine.nics if nic.rdma and not nic.name.startswith(("0", "1", "f"))]
    if any(_NUMBER_ALONE.fullmatch(nic.name) for nic in devices):
        return
    chosen = [nic for nic in devices if matches(setting.value, nic.name)]
    if devices and len(chosen) < len(devices) and not takes_the_nearest(facts.visible or machine, devices, chosen):
        unused = [nic.name for nic in devices if nic not in chosen]
        none = not chosen
        if none and any(each.startswith("IB ") for log in facts.logs for each in log.net_devices):
            return  # NCCL found one: the list of devices is not whole, or of another host
        yield _finding(
            setting, Severity.ERROR if none else Severity.WARNING,
            f"{setting.name}={setting.value} leaves " + ("every" if none else f"{len(unused)} of {len(devices)}")
            + " RDMA device unused", Evidence(f"unused: {', '.join(unused[:16])}", machine.source),
            "between nodes " + ("no RDMA at all" if none else f"{len(chosen) / len(devices):.0%} of the bandwidth"),
        )  # fmt: skip


def _sockets_between_nodes(facts: Facts) -> Iterator[Finding]:
    if facts.value("NCCL_IB_DISABLE") or (facts.value("NCCL_NET") or "").lower() == "socket":
        return  # that is a finding of its own
    for log in facts.logs:
        largest = log.largest
        if not _over_sockets(log, largest, several=facts.several_nodes):
            continue
        shown = [Evidence(f"Using network {each.text}", log.source, each.line) for each in (log.network,) if each]
        pairs = largest.transports if largest else ()
        shown += [Evidence(f"{each.sender} -> {each.receiver} via NET/Socket", log.source, each.line)
                  for each in pairs if each.detail.lower() == "socket"][:1]  # fmt: skip
        count = (largest.nnodes if largest else None) or 1
        missing = [Evidence(each.text, log.source, each.line) for each in log.plugins if "NET/IB" in each.text][:2]
        told = f"{count if count > 1 else 'several'} nodes talk over sockets{_gigabit(facts)}"
        apart = largest is not None and _is_one_host(largest)
        if apart:
            told = f"ranks of one host count as {count} nodes (NCCL_HOSTID, or containers) and talk over sockets"
        yield Finding(
            NAME, Severity.NOTE if apart else Severity.WARNING, told,
            (*shown, *missing,
             *(Evidence(device, log.source, log.net_devices_line) for device in log.net_devices[:4])),
            Cost("sockets reach 1 to 10 GB/s; an RDMA port of 200 Gb/s reaches 24"),
            "where the hosts have RDMA NICs, load their drivers and give the container "
            "/dev/infiniband (RDMA device plugin, "
            "--device=/dev/infiniband) and rdma-core. In a cloud load the provider's plugin "
            "(NCCL_NET_PLUGIN: EFA, gIB, "
            "TCPXO). Else name the fastest interface in NCCL_SOCKET_IFNAME",
            Proof(instruction="run on two nodes with the plugin loaded, and compare"),
        )  # fmt: skip


def _single_nic(facts: Facts) -> Iterator[Finding]:
    """A table of many ranks over one NIC that somebody named, where nothing tells whether hosts have more."""
    setting = facts.settings.get("NCCL_IB_HCA")
    if setting is None or not _ONE_NAME.fullmatch(setting.value.strip()) or facts.has_rdma or not facts.records:
        return
    for log in facts.logs:
        largest, used = log.largest, [each for each in log.net_devices if each.startswith("IB")]
        several = largest is not None and any(each.kind == "NET" for each in largest.transports)
        if largest is not None and several and len(used) == 1 and (largest.nranks or 0) >= _MANY_RANKS:
            yield Finding(
                NAME, Severity.NOTE, f"{setting.name}={setting.value} names one NIC for {largest.nranks} ranks",
                (evidence(setting), Evidence(used[0], log.source, log.net_devices_line)),
                Cost("where hosts have a NIC for each GPU, the others carry nothing; nothing here tells how many"),
                removal(setting), without(setting), undecided=True,
            )  # fmt: skip
            return


def _gigabit(facts: Facts) -> str:
    """That large messages go as fast as an interface of 1 Gb/s carries them, where a table says so."""
    rates = [each.busbw_GBps or 0.0 for record in facts.records for each in record.cases if each.bytes >= _LARGE_BYTES]
    return ", as fast as an interface of 1 Gb/s" if rates and 0.08 < max(rates) < 0.13 else ""


def _is_one_host(communicator: Communicator) -> bool:
    """Whether all its ranks are known, of one host, though NCCL counts several nodes."""
    hosts = set(communicator.hosts)
    whole = len(communicator.ranks) == communicator.nranks and len(communicator.ranks) > 1
    return whole and len(hosts) == 1 and not hosts <= {"localhost", ""}


def _over_sockets(log: NcclLog, largest: Communicator | None, *, several: bool) -> bool:
    """Whether nodes talk over sockets: NCCL says so of several nodes, or joins a pair by them."""
    if largest and any(each.kind == "NET" and each.detail.lower() == "socket" for each in largest.transports):
        return True
    several = several if largest is None else (largest.nnodes or 1) > 1
    return several and log.network is not None and log.network.text.lower() == "socket"


def _loopback(facts: Facts) -> Iterator[Finding]:
    """Bootstrap over the loopback interface in a job of several hosts."""
    used = [
        (log, log.bootstrap) for log in facts.logs if log.bootstrap and log.bootstrap.text.startswith(("lo:", "[0]lo:"))
    ]
    hosts = {place.host for log in facts.logs for each in log.communicators for place in each.ranks if place.host}
    if not used or (len(hosts) < 2 and not facts.several_nodes) or _met(facts):
        return
    over = [each for log, _ in used for each in log.communicators if (each.nnodes or 1) > 1]
    if over and all(_is_one_host(each) for each in over):
        return  # what is one host in truth reaches itself there
    log, first = used[0]
    yield Finding(
        NAME, Severity.ERROR, "several nodes, and NCCL bootstraps over loopback, which no other node reaches",
        (Evidence(f"Bootstrap : Using {first.text}", log.source, first.line),),
        Cost("init hangs or fails"),
        "set NCCL_SOCKET_IFNAME to the interface between the nodes; take the host's name off the 127.0.1.1 line of "
        "/etc/hosts",
        Proof(instruction="ip -br addr on every node; then run with NCCL_SOCKET_IFNAME set"),
        stage=Stage.SETTING,
    )  # fmt: skip


def _met(facts: Facts) -> bool:
    """Whether ranks of several hosts ended an init: names of hosts may differ where one machine runs all of them."""
    return any(
        each.ranks
        and len(each.ranks) == each.nranks
        and all(place.complete for place in each.ranks)
        and (len(each.hosts) > 1 or (each.nnodes or 1) > 1)
        for log in facts.logs
        for each in log.communicators
    )


def _down(facts: Facts) -> Iterator[Finding]:
    for nic in facts.machine.nics if facts.machine else ():
        if nic.rdma and nic.up is False:
            # An Ethernet port of an RDMA device is often left unused; an InfiniBand port that is down is a rail less.
            rail = nic.link_layer == "InfiniBand"
            yield Finding(
                NAME, Severity.WARNING if rail else Severity.NOTE, f"the RDMA port of {nic.name} is not active",
                (Evidence(f"state of {nic.name} is not ACTIVE", facts.machine.source if facts.machine else ""),),
                Cost("its share of the bandwidth between nodes"), "check cable, switch port and subnet manager",
                Proof(instruction="look at `ibstat` after the repair"),
            )  # fmt: skip


def _speed(nic: Nic) -> float:
    return nic.speed_Gbps or 0.0


def _finding(setting: Setting, severity: Severity, title: str, fact: Evidence, cost: str) -> Finding:
    return Finding(
        NAME, severity, title, (evidence(setting), fact), Cost(cost), removal(setting), without(setting)
    )  # fmt: skip
