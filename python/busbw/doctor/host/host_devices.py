"""What devices and services of equal machines should share: counted errors, ports, links, programs, device files.

Counters never agree: what is told is whether there are many. Nothing here names a host, a user or an address.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from busbw.machine.topology.sysfs import read_word

MOST = 512
"""Files that are looked through in one folder."""
_PROGRAMS = 65_536
_LENGTH = 200
_MANY, _OFTEN = 100, 5

_PORT_ERRORS = {
    "symbol_error": "symbol errors",
    "link_error_recovery": "link recoveries",
    "link_downed": "times that the link was down",
    "port_rcv_errors": "receive errors",
    "port_xmit_discards": "discarded packets",
    "local_link_integrity_errors": "link integrity errors",
    "excessive_buffer_overrun_errors": "buffer overruns",
    "VL15_dropped": "dropped management packets",
}
_RDMA_ERRORS = {
    "out_of_sequence": "packets out of sequence",
    "local_ack_timeout_err": "acknowledgement timeouts",
    "packet_seq_err": "sequence errors",
    "rnr_nak_retry_err": "receiver-not-ready retries",
    "out_of_buffer": "packets without buffer",
    "implied_nak_seq_err": "lost packets",
    "req_transport_retries_exceeded": "exceeded retries",
    "roce_adp_retrans": "adaptive retransmissions",
    "rx_icrc_encapsulated": "checksum errors",
}
_NET_ERRORS = {"rx_crc_errors": "checksum errors", "rx_errors": "receive errors", "tx_errors": "send errors"}
_VIRTUAL = re.compile(r"(?:lo|docker|veth|cali|cni|flannel|virbr|vnet|tap|tun|br-|lxc|cilium|nodelocaldns|kube).*")
# Programs by the 15 letters that the kernel keeps of their names.
_SERVICES = {
    "nv-fabricmanager": "NVIDIA fabric manager",
    "nvidia-persistenced": "nvidia-persistenced",
    "nvidia-imex": "nvidia-imex",
    "nvidia-cuda-mps-control": "CUDA MPS",
    "nv-hostengine": "DCGM",
    "irqbalance": "irqbalance",
    "opensm": "opensm",
    "chronyd": "clock service",
    "ntpd": "clock service",
    "systemd-timesyncd": "clock service",
    "ptp4l": "ptp4l",
    "tuned": "tuned",
    "numad": "numad",
    "ksmtuned": "ksmtuned",
    "thermald": "thermald",
    "rasdaemon": "rasdaemon",
    "nvidia-powerd": "nvidia-powerd",
}
_DEVICE_FILES = (
    "infiniband/uverbs*",
    "infiniband/rdma_cm",
    "gdrdrv",
    "nvidia-caps-imex-channels/*",
    "nvidia-uvm",
    "nvidiactl",
    "nvidia-modeset",
    "nvidia-nvswitch*",
    "nvidia-fs*",
    "knem",
    "xpmem",
    "fuse",
)

_FAULTS, _LINKS, _LIMITS, _VERSIONS, _HOSTS = 100, 80, 70, 50, 40
WEIGHTS: Mapping[str, int] = {
    "program ": 65,
    "device file ": _LINKS,
    "corrected memory errors": _LINKS,
    "uncorrected memory errors": _FAULTS,
    "mitigation of": 45,
    "processors throttled": _LIMITS,
    "uncore clock": _LIMITS,
    "power limit of processors": _LIMITS,
    "shares of cache and memory": _LIMITS,
    "processes that the container may have": 60,
    "memory nodes of the container": _LIMITS,
    "memory at which the container is slowed": 60,
    "kernel taint": 45,
    "SELinux": 45,
    "AppArmor": _HOSTS,
    "own name in /etc/hosts": 65,
    "PCIe ": _LINKS,
    "windows of GPUs": _LIMITS,
    "GSP firmware": 60,
    "GPUDirect Storage": _HOSTS,
    "file ": 60,
    "ucx.conf ": 60,
    "openmpi-mca-params.conf ": 60,
    "mca-params.conf ": 60,
}
OF_DEVICES: Mapping[str, int] = {
    **dict.fromkeys((*_PORT_ERRORS.values(), *_RDMA_ERRORS.values(), *_NET_ERRORS.values()), _LINKS),
    "pkeys": _LIMITS,
    "GID kinds": _LINKS,
    "subnet manager": _FAULTS,
    "port state": _FAULTS,
    "bond": _LIMITS,
    "bond partners": _LINKS,
    "bond policy": _HOSTS,
    "queues": 60,
    "changes of carrier": _LIMITS,
    "ECN": 65,
    "rp_filter": 60,
}

Rows = Iterator[tuple[str, str | None]]


def host_devices(root: Path = Path("/")) -> dict[str, str]:
    """Every such fact that can be read, by its name."""
    found: dict[str, str] = {}
    for look in (_ports, _interfaces, _pcie, _gpus, _services, _memory, _processors, _container, _security):
        found.update({name: value[:_LENGTH] for name, value in look(root) if value})
    return found


def _ports(root: Path) -> Rows:
    for device in _entries(root / "sys/class/infiniband", "*"):
        who, port = device.name, device / "ports/1"
        keys = {read_word(each) for each in _entries(port / "pkeys", "*")[:16]} - {None, "0x0000"}
        yield f"{who} pkeys", _joined(keys)
        yield f"{who} GID kinds", _joined({read_word(each) for each in _entries(port / "gid_attrs/types", "*")})
        if read_word(port / "link_layer") == "InfiniBand":
            lid = _number(read_word(port / "sm_lid"))
            yield f"{who} subnet manager", None if lid is None else "there" if lid else "none"
        yield f"{who} port state", _joined({read_word(port / "state"), read_word(port / "phys_state")})
        for folder, errors in (("counters", _PORT_ERRORS), ("hw_counters", _RDMA_ERRORS)):
            for file, name in errors.items():
                most = _OFTEN if file == "link_downed" else _MANY
                yield f"{who} {name}", _many(_number(read_word(port / folder / file)), most)


def _interfaces(root: Path) -> Rows:
    for each in _entries(root / "sys/class/net", "*"):
        if _VIRTUAL.fullmatch(each.name):
            continue
        who, bond = each.name, each / "bonding"
        yield f"{who} bond", read_word(bond / "mode")
        partners = read_word(bond / "slaves")
        yield f"{who} bond partners", None if partners is None else str(len(partners.split()))
        yield f"{who} bond policy", read_word(bond / "xmit_hash_policy")
        queues = len(_entries(each / "queues", "rx-*"))
        yield f"{who} queues", str(queues) if queues else None
        yield f"{who} changes of carrier", _many(_number(read_word(each / "carrier_changes")), 4 * _OFTEN)
        for file, name in _NET_ERRORS.items():
            yield f"{who} {name}", _many(_number(read_word(each / "statistics" / file)), _MANY)
        marks = [
            read_word(file) or "?"
            for kind in ("np", "rp")
            for file in _entries(each / f"ecn/roce_{kind}/enable", "[0-7]")
        ]
        yield f"{who} ECN", " ".join(marks) or None
        yield f"{who} rp_filter", read_word(root / "proc/sys/net/ipv4/conf" / who / "rp_filter")


def _pcie(root: Path) -> Rows:
    """By kind of device, since slots have other addresses on other machines."""
    seen: dict[str, Counter[str]] = {}
    windows: Counter[str] = Counter()
    for each in _entries(root / "sys/bus/pci/devices", "*"):
        kind = _kind(each)
        if kind is None:
            continue
        told = {
            "with many corrected errors": _errors(each, "correctable") >= _MANY,
            "with uncorrected errors": _errors(each, "nonfatal") + _errors(each, "fatal") > 0,
            "with link power saving": any(read_word(file) == "1" for file in _entries(each / "link", "*aspm")),
            "that may sleep": read_word(each / "power/control") == "auto",
            "with virtual functions": (_number(read_word(each / "sriov_numvfs")) or 0) > 0,
        }
        for what, is_so in told.items():
            seen.setdefault(f"PCIe {kind} {what}", Counter())[str(is_so)] += 1
        if kind == "GPUs" and (size := _window(each)):
            windows[size] += 1
    for name, counts in seen.items():
        yield name, str(counts["True"]) if counts["True"] else "none"
    yield "windows of GPUs (BAR)", _joined({f"{count} of {size}" for size, count in windows.items()})


def _kind(device: Path) -> str | None:
    kind = (read_word(device / "class") or "")[:4]
    if kind == "0x03" and read_word(device / "vendor") in {"0x10de", "0x1002"}:
        return "GPUs"
    return {"0x02": "NICs", "0x06": "bridges"}.get(kind)


def _errors(device: Path, kind: str) -> int:
    found = re.search(r"^TOTAL_ERR_\w+ (\d{1,18})", read_word(device / f"aer_dev_{kind}") or "", re.MULTILINE)
    return int(found[1]) if found else 0


def _window(device: Path) -> str | None:
    spans = re.findall(r"^0x([0-9a-f]{16}) 0x([0-9a-f]{16}) ", read_word(device / "resource") or "", re.MULTILINE)
    size = max((int(end, 16) - int(start, 16) + 1 for start, end in spans if end != start), default=0)
    return f"{size >> 20} MiB" if size >> 20 else None


def _gpus(root: Path) -> Rows:
    texts = [read_word(each / "information") or "" for each in _entries(root / "proc/driver/nvidia/gpus", "*")]
    yield "GSP firmware", _joined({found[1] for text in texts if (found := re.search(r"GPU Firmware:\s*(\S+)", text))})
    yield "GPUDirect Storage (nvidia-fs)", read_word(root / "proc/driver/nvidia-fs/version") or "not loaded"


def _services(root: Path) -> Rows:
    running: set[str] = set()
    try:
        for number, each in enumerate(os.scandir(root / "proc")):
            if number < _PROGRAMS and each.name.isdecimal() and (name := read_word(Path(each.path) / "comm")):
                running.add(name[:15])
    except OSError:
        return
    told: dict[str, bool] = {}
    for name, service in _SERVICES.items():
        told[service] = told.get(service, False) or name[:15] in running
    for service, runs in told.items():
        yield f"program {service}", "runs" if runs else "does not run"
    for pattern in _DEVICE_FILES:
        count = len(_entries(root / "dev", pattern))
        yield f"device file {pattern}", str(count) if count else "none"


def _memory(root: Path) -> Rows:
    for file, name, most in (("ce_count", "corrected", _MANY), ("ue_count", "uncorrected", 1)):
        counts = [_number(read_word(each / file)) or 0 for each in _entries(root / "sys/devices/system/edac/mc", "mc*")]
        yield f"{name} memory errors", _many(sum(counts), most) if counts else None


def _processors(root: Path) -> Rows:
    cpu = root / "sys/devices/system/cpu"
    for each in _entries(cpu / "vulnerabilities", "*"):
        yield f"mitigation of {each.name}", read_word(each)
    counts = [
        _number(read_word(each / "thermal_throttle/package_throttle_count")) for each in _entries(cpu, "cpu[0-9]*")
    ]
    known = [count for count in counts if count is not None]
    yield "processors throttled by heat", _many(max(known), _MANY) if known else None
    clocks = {
        _number(read_word(each / "max_freq_khz")) for each in _entries(cpu / "intel_uncore_frequency", "package_*")
    }
    yield "uncore clock", _joined({f"{clock // 1000} MHz" for clock in clocks if clock})
    limits = {
        _number(read_word(each / "constraint_0_power_limit_uw"))
        for each in _entries(root / "sys/class/powercap", "*-rapl:[0-9]")
    }
    yield "power limit of processors", _joined({f"{limit // 1_000_000} W" for limit in limits if limit})
    yield (
        "shares of cache and memory bandwidth (resctrl)",
        "; ".join((read_word(root / "sys/fs/resctrl/schemata") or "").split()),
    )


def _container(root: Path) -> Rows:
    group = root / "sys/fs/cgroup"
    yield "processes that the container may have", read_word(group / "pids.max")
    yield "memory nodes of the container's set", read_word(group / "cpuset.mems.effective")
    yield "memory at which the container is slowed", read_word(group / "memory.high")


def _security(root: Path) -> Rows:
    yield "kernel taint", read_word(root / "proc/sys/kernel/tainted")
    yield "SELinux", {"1": "enforcing", "0": "permissive"}.get(read_word(root / "sys/fs/selinux/enforce") or "", "none")
    yield "AppArmor", read_word(root / "sys/module/apparmor/parameters/enabled")
    name = read_word(root / "proc/sys/kernel/hostname")
    lines = (line.partition("#")[0].split() for line in (read_word(root / "etc/hosts") or "").splitlines()[:10_000])
    own = [words[0] for words in lines if name and name in words[1:]]
    loopback = any(address.startswith("127.") or address == "::1" for address in own)
    yield "own name in /etc/hosts", "loopback" if loopback else "an address" if own else "not there"


def _entries(folder: Path, pattern: str) -> Sequence[Path]:
    try:
        return sorted(folder.glob(pattern))[:MOST]
    except OSError:
        return ()


def _joined(words: set[str | None] | set[str]) -> str | None:
    return ", ".join(sorted(word for word in words if word)) or None


def _number(text: str | None) -> int | None:
    try:
        return int((text or "")[:20], 0)
    except ValueError:
        return None


def _many(count: int | None, most: int) -> str | None:
    return None if count is None else "many" if count >= most else "few or none"
