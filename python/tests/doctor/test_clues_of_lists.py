"""What lists of operators' tools decide beside an error: zones, queues, lanes, rows, clocks, plugins, links, rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.clues.launch import clocks, device_plugins, gres
from busbw.doctor.clues.machine import dimms, slots, worn_card
from busbw.doctor.clues.network import group_rules, losses, mr_table, one_subnet, virtual_functions, zones

from .asked import logs_of, loud

MODULES = (
    *(clocks, device_plugins, gres, dimms, slots, worn_card),
    *(group_rules, losses, mr_table, one_subnet, virtual_functions, zones),
)

LOGS = logs_of("f154-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("zone-of-firewalld", "a firewall on teal1 (firewalld, zone work) lets only", "--change-interface=ens1f0"),
        ("zone-of-firewalld", "and port 29500 through, and rejects port 45117", "Routes, names"),
        ("ufw-in-the-way", "a firewall on node-a (ufw) lets only 22, 443 through, and drops port 29400", "ufw allow"),
        ("mpirun-behind-ufw", "a firewall on tern1 (ufw)", "ufw allow from NETWORK"),
        ("priority-unused", "go in priority 0, which drops them, and not in priority 4", "NCCL_IB_TC=138"),
        ("queues-of-sonic", "go in priority 0, which drops them, and not in priority 3", "NCCL_IB_TC=106"),
        ("index-is-the-same", "RDMA packets get no answer", "check cable"),
        ("card-without-spare-rows", "0000:0f:00 is worn out", "a reset or restart does not mend it"),
        ("row-not-remapped", "0000:4e:00 is worn out", "(RMA)"),
        ("slot-by-the-kernel", "GPU 2 (c2:00.0) has 4 of 16 lanes", "c0:03.1"),
        ("slot-by-a-copy", "GPU 1 (81:00.0) has 4 of 16 lanes: copies to it reach 6.10 GB/s", "leave GPU 1 out"),
        ("host-error-of-cloud", "(host error)", "start all processes"),
        ("redeployed-host", "for maintenance of the host", "scheduled events"),
        ("slurmd-without-nvml", "cannot load libnvidia-ml.so on a40-07", "ln -s libnvidia-ml.so.1"),
        ("slurmd-without-nvml", "has the name libnvidia-ml.so.1 alone", "ldconfig"),
        ("slurmd-built-without-nvml", "built without NVML", "File=/dev/nvidia[0-7]"),
        ("slurmd-before-the-driver", "counts 0 of 2 GPUs, though nvidia-smi lists all", "restart slurmd"),
        ("rails-in-one-subnet", "2 NICs of kite2 are in one subnet (192.168.100.0/24)", "arp_ignore=1"),
        ("one-mac-for-two", "reach another, which drops them (ARP has 94:6d:ae:11:20:1c", "ip neigh flush"),
        ("table-of-efa-full", "no room for more registered memory: its driver refuses", "rdma resource show mr"),
        ("cache-holds-the-table", "cachesrv (pid 4003) holds 256 GiB, in pages of 4 KiB", "vm.nr_hugepages"),
        ("link-between-switches", "the link of leaf-g12 port 38 to spine-1 port 7", "take that link out"),
        ("lid-of-mlxlink", "leaf-7 port 61 to spine-4 port 2 has bit errors (BER", "take that link out"),
        ("link-of-a-host", "the link of g12n3 HCA-1 port 1 has bit errors", "Drain the host"),
        ("clock-without-a-source", "3 minutes apart", "on wisp3 see chronyc"),
        ("times-of-unmunge", "60 minutes apart", "on both nodes"),
        ("function-without-guid", "virtual function (mlx5_9) of the InfiniBand NIC has no GUID", "ib-kubernetes"),
        ("module-of-another-abi", "irdma of release 1.13.43", "of release 1.13.43 into the image"),
        ("plugin-in-a-loop", "their device plugin does not run", "kubectl logs nvidia-device-plugin"),
        ("namespaces-kept-apart", "netns exclusive", "rdma system set netns shared"),
        ("module-of-edac-util", "the memory of crane4 has errors without end", "replace that memory module"),
        ("storms-of-the-kernel", "and all ranks wait for that host's", "drain"),
        ("pids-of-a-container", "(pids, 4096)", "--pids-limit -1"),
        ("nproc-of-a-user", "(ulimit -u, 1024)", "LimitNPROC"),
        ("group-without-a-way-out", "sg-0a11c4a92f6d0b358 has no rule outbound to itself", "all traffic"),
        ("group-without-a-way-in", "has no rule inbound from itself", "all traffic"),
        ("evicted-by-lustre", "the server work-OST0007 threw this host out", "lfs check servers"),
    ],
)
def test_a_list_beside_the_error_names_the_cause(name: str, title: str, fix: str, tmp_path: Path) -> None:
    first = loud(LOGS[name], tmp_path)[0]
    assert title in first.title and fix in first.fix


@pytest.mark.parametrize(
    ("name", "old", "new", "title"),
    [
        ("zone-of-firewalld", "target: default", "target: ACCEPT", "a firewall on"),
        ("zone-of-firewalld", "29500/tcp", "1024-65535/tcp", "a firewall on"),
        ("zone-of-firewalld", "(default, active)", "", "a firewall on"),
        ("ufw-in-the-way", "deny (incoming)", "allow (incoming)", "a firewall on"),
        ("ufw-in-the-way", "443/tcp ", "29400/tcp", "a firewall on"),
        ("mpirun-behind-ufw", "6006                       ALLOW       Anywhere",
         "Anywhere                   ALLOW       10.0.0.0/8", "a firewall on"),
        ("priority-unused", "_prio4_packets: 0", "_prio4_packets: 81222", "go in priority"),
        ("queues-of-sonic", "        88121", "            0", "and not in priority 3, which is lossless (PFC): no"),
        ("index-is-the-same", "", "", "takes a GID"),
        ("row-not-remapped", "64, pid", "63, pid", "worn out"),
        ("card-without-spare-rows", "Occurred        : Yes", "Occurred        : No", "worn out"),
        ("slot-by-a-copy", "Width x4 (downgraded)", "Width x16 (ok)", "lanes"),
        ("slurmd-before-the-driver", "GPU 1: NVIDIA", "gpu-1: NVIDIA", "nvidia-smi lists all"),
        ("rails-in-one-subnet", "arp_ignore = 0", "arp_ignore = 1", "in one subnet"),
        ("rails-in-one-subnet", "192.168.100.21/24", "192.168.101.21/24", "in one subnet"),
        ("one-mac-for-two", "172.16.5.4) at 94:6d:ae:11:20:1c", "172.16.5.4) at 94:6d:ae:11:20:1d", "in one subnet"),
        ("cache-holds-the-table", "pid 4003", "pid 88", "holds 256 GiB"),
        ("table-of-efa-full", "\nunlimited", "\n65536", "its driver refuses"),
        ("link-between-switches", "SymbolErrorCounter == 65535] [LinkErrorRecoveryCounter == 255",
         "SymbolErrorCounter == 0] [LinkErrorRecoveryCounter == 0", "leaf-g12 port 38 to"),
        ("times-of-unmunge", "08:14:02", "09:14:02", "apart"),
        ("function-without-guid", "0000:0000:0000:0000", "b8ce:f603:00e2:a1d4", "virtual function"),
        ("plugin-in-a-loop", "CrashLoopBackOff", "Running         ", "device plugin does not run"),
        ("storms-of-the-kernel", "47 2025] mce: CMCI storm detected", "47 2025] mce: polled", "without end"),
        ("module-of-edac-util", "2210093", "93", "without end"),
        ("pids-of-a-container", "fork rejected by pids controller", "created", "control group"),
        ("group-without-a-way-out", '"UserIdGroupPairs": [], "IpRanges": [{',
         '"UserIdGroupPairs": [{"GroupId": "sg-0a11c4a92f6d0b358"}], "IpRanges": [{', "has no rule outbound"),
    ],
)  # fmt: skip
def test_without_these_words_no_list_decides(name: str, old: str, new: str, title: str, tmp_path: Path) -> None:
    assert old in LOGS[name]
    assert all(title not in each.title for each in loud(LOGS[name].replace(old, new), tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        "zone-of-firewalld",
        "card-without-spare-rows",
        "link-between-switches",
        "priority-unused",
        "cache-holds-the-table",
    ],
)
def test_what_follows_of_it_is_no_second_error(name: str, tmp_path: Path) -> None:
    assert len(loud(LOGS[name], tmp_path)) == 1
