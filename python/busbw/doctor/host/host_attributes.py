"""Values that equal machines should share and no list names: whole folders, but for what changes by itself.

What nobody foresaw stands below what is known to matter, and is still told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from busbw.base.secrets import hide
from busbw.machine.topology.sysfs import read_word

MOST = 512
_LENGTH = 200
_FEW = 16
_VIRTUAL = re.compile(r"(?:lo|docker|veth|cali|cni|flannel|virbr|vnet|tap|tun|br-|lxc|cilium|nodelocaldns|kube).*")
# Of an interface or a port: names, addresses and numbers that a kernel gives out, and what is told elsewhere.
_OF_ONE = re.compile(
    r"address|addr_\w+|broadcast|if(?:index|link|alias)|phys_\w+|dev_(?:id|port)|uevent|carrier\w*|operstate|dormant|testing|bonding_\w+"
    r"|lid|lid_mask_count|sm_lid|state|phys_state|rate|link_layer|name_assign_type|netdev_group|proto_down"
)
# Folders of /proc/sys whose values are settings; others are read by name in host_facts.
_SYSCTLS = (
    "fs/*",
    "fs/inotify/*",
    "fs/mqueue/*",
    "kernel/*",
    "kernel/yama/*",
    "net/ipv6/conf/all/*",
    "net/ipv4/ip_*",
    "net/unix/*",
    "user/*",
)
_OF_ITSELF = re.compile(
    r".*(?:-nr|-state|nr_\w+|_nr|hostname|domainname|osrelease|version|ostype|ns_last_pid|tainted|boot_id|cad_pid|last_pid|uuid|random|threads-max"
    r"|max_user_\w+|shm_next_id|msg_next_id|sem_next_id|core_pattern|core_pipe_limit|modprobe|hotplug|usermodehelper|sched_\w+|numa_\w+|perf_\w+"
    r"|nmi_watchdog|watchdog\w*|pid_max|file-max|lease-break-time|stable_secret|bootloader_\w+|max_\w+_namespaces)"
)
_KEPT_ALL_THE_SAME = ("fs/file-max",)
_CGROUP = re.compile(
    r"(?:cpu\.(?:weight|idle|uclamp\.\w+|max\.burst)|cpuset\.cpus\.partition|memory\.(?:swap\.max|oom\.group|min|low)|io\.weight|hugetlb\..{1,20}\.max)"
)
_MODULES = re.compile(
    r"[ \t]*(options|blacklist|install)[ \t]+"
    r"((?:nvidia|nv_|mlx[45]|ib_|rdma|efa|irdma|bnxt|gdrdrv|iommu|vfio|nouveau)\w*)([^\n]*)"
)

WEIGHTS: Mapping[str, int] = {
    "modprobe ": 62,
    "library folders": 62,
    "mount of ": 60,
    "cgroup ": 55,
    "fs.": 30,
    "user.": 10,
}
OF_DEVICES: Mapping[str, int] = {"addresses (GIDs)": 60, "interrupts (number)": 55, "congestion waits": 45}


def host_attributes(root: Path = Path("/")) -> dict[str, str]:
    """Every such value that can be read, by its name."""
    found: dict[str, str] = {}
    for look in (_devices, _sysctls, _files, _cgroup):
        found.update({name: value[:_LENGTH] for name, value in look(root) if value})
    return found


Rows = Iterator[tuple[str, str | None]]


def _devices(root: Path) -> Rows:
    for each in _entries(root / "sys/class/net", "*"):
        if not _VIRTUAL.fullmatch(each.name):
            yield from _values(each, each.name)
    for each in _entries(root / "sys/class/infiniband", "*"):
        port = each / "ports/1"
        yield from _values(port, each.name)
        gids = [read_word(gid) or "" for gid in _entries(port / "gids", "*")]
        yield (
            f"{each.name} addresses (GIDs)",
            str(sum(any(c not in "0:" for c in gid.removeprefix("fe80")) for gid in gids)) if gids else None,
        )
        numbers = len(_entries(each / "device/msi_irqs", "*"))
        yield f"{each.name} interrupts (number)", str(numbers) if numbers else None
        waits = read_word(port / "counters/port_xmit_wait")
        yield f"{each.name} congestion waits", ("many" if len(waits) > 6 else "few or none") if waits else None


def _values(folder: Path, who: str) -> Rows:
    for each in _entries(folder, "*"):
        if not _OF_ONE.fullmatch(each.name) and each.is_file() and not each.is_symlink():
            yield f"{who} {each.name}", _one_line(read_word(each))


def _sysctls(root: Path) -> Rows:
    folder = root / "proc/sys"
    for pattern in _SYSCTLS:
        for each in _entries(folder, pattern):
            name = each.relative_to(folder)
            if (not _OF_ITSELF.fullmatch(each.name) or str(name) in _KEPT_ALL_THE_SAME) and each.is_file():
                yield ".".join(name.parts), _one_line(read_word(each))


def _files(root: Path) -> Rows:
    told: dict[str, list[str]] = {}
    for each in _entries(root / "etc/modprobe.d", "*.conf"):
        for what, module, rest in _MODULES.findall(read_word(each) or ""):
            told.setdefault(f"modprobe {what} {module}", []).append(" ".join(rest.split()))
    for name, rest_of in told.items():
        yield name, hide("; ".join(sorted(rest_of))) or "yes"
    lines: list[str] = []
    for each in (*_entries(root / "etc/ld.so.conf.d", "*.conf"), root / "etc/ld.so.conf"):
        lines += [line for line in (read_word(each) or "").splitlines() if line.startswith("/")]
    yield "library folders (ld.so.conf)", ", ".join(dict.fromkeys(lines))
    for line in (read_word(root / "proc/mounts") or "").splitlines()[:MOST]:
        words = line.split()
        if len(words) > 3 and words[1] in {"/dev/shm", "/dev/hugepages", "/tmp"}:
            options = sorted(
                word for word in words[3].split(",") if not re.match(r"size=|inode|seclabel|nr_inodes=", word)
            )
            yield f"mount of {words[1]}", f"{words[2]}: {' '.join(options)}"


def _cgroup(root: Path) -> Rows:
    for each in _entries(root / "sys/fs/cgroup", "*"):
        if _CGROUP.fullmatch(each.name):
            yield f"cgroup {each.name}", _one_line(read_word(each))


def _entries(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))[:MOST]
    except OSError:
        return []


def _one_line(text: str | None) -> str | None:
    """A setting is one short line; longer ones are tables that no two machines share."""
    return hide(" ".join(text.split())) if text and len(text) <= _LENGTH and text.count("\n") < _FEW else None
