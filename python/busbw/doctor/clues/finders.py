"""Clues that rows of words cannot tell: values that differ between hosts, ports that answer, ranks that stand apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from busbw.doctor.clues.addresses import for_itself_alone, given_by_program
from busbw.doctor.clues.batches import uneven_batches
from busbw.doctor.clues.copies import copies_of_model
from busbw.doctor.clues.devices import gpu_that_is_none, parts_that_are_none, plugin_beside_path
from busbw.doctor.clues.jobs import (
    holder_of_memory,
    hub_limits,
    ids_apart,
    same_node_rank,
    split_of_checkpoint,
)
from busbw.doctor.clues.launched import launchers_per_node, peermem_not_loaded, without_launcher
from busbw.doctor.clues.network import (
    bad_cable,
    gid_of_namespace,
    gid_of_nobody,
    gid_that_works,
    link_flaps,
    mtu_differs,
    other_port_answers,
)
from busbw.doctor.clues.platforms import (
    buffers_without_peers,
    closed_modules,
    interface_with_address,
    no_instance_of_aws,
    of_topology,
)
from busbw.doctor.clues.pods import headless, pending_pod, worker_not_ready
from busbw.doctor.clues.ports import blocked_ports, holder_of_port
from busbw.doctor.clues.programs import (
    apart_in_horovod,
    behind_main_process,
    loaded_library,
    local_rank_alike,
    of_two_packages,
    older_libfabric,
    several_launchers,
    uneven_gather,
)
from busbw.doctor.clues.rails import no_host_of_job, rails_apart
from busbw.doctor.clues.ray import unplaced
from busbw.doctor.clues.resume import resumed_apart
from busbw.doctor.clues.rooms import held_before_start, of_allocator, of_llama, of_ray_node
from busbw.doctor.clues.texts import Sharper, Text, named
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding

Finder = Callable[[Finding, Facts, Sequence[Text]], "Sharper | None"]

_BRIEF = re.compile(r"^(?P<name>[a-z][\w.-]{0,20}?)(?:@\S{1,20})? {2,30}(?:UP|DOWN|UNKNOWN) ", re.MULTILINE)
_LONG = re.compile(r"^\d{1,4}: (?P<name>[a-z][\w.-]{0,20}?)(?:@\S{1,20})?: <[A-Z_,-]{2,100}>", re.MULTILINE)


def not_listed(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL_SOCKET_IFNAME names an interface that the listing beside the error does not have."""
    value = facts.value("NCCL_SOCKET_IFNAME") or ""
    if not value or value.startswith("^"):
        return None
    wanted = [each.lstrip("=").partition(":")[0] for each in value.split(",") if each.lstrip("=")]
    for text in texts:
        found = list(_BRIEF.finditer(text.text)) or list(_LONG.finditer(text.text))
        names = list(dict.fromkeys(each["name"] for each in found))
        # NCCL takes a name without = for the begin of names.
        if len(names) < 2 or any(name.startswith(each) for each in wanted for name in names):
            continue
        return Sharper(
            f"NCCL_SOCKET_IFNAME={named(value)} names no network interface of this host: it has "
            f"{named(', '.join(names[:8]), 100)}",
            "set NCCL_SOCKET_IFNAME to one of these that reaches the other nodes (ip -br addr), or unset it; the same "
            "for GLOO_SOCKET_IFNAME. Where hosts name it differently, give a begin that all share, or exclude by "
            "^docker,lo",
            (text.evidence(found[0].start()),),
        )
    return None


FINDERS: Mapping[str, tuple[Finder, ...]] = {
    "no-interface": (not_listed,),
    "mixed-networks": (not_listed,),
    "version-mismatch": (not_listed,),
    "no-route": (other_port_answers,),
    "connection-timeout": (other_port_answers, blocked_ports),
    "init-incomplete": (blocked_ports,),
    "nccl-error": (blocked_ports,),
    "dns": (headless, worker_not_ready),
    "ssh-launch": (worker_not_ready,),
    "slurm-resources": (pending_pod, unplaced),
    "rank-count": (same_node_rank,),
    "gpu-memory-full": (holder_of_memory, held_before_start, of_llama, of_allocator),
    "host-memory": (of_ray_node, copies_of_model),
    "connection-refused": (for_itself_alone,),
    "wrong-interface": (given_by_program, interface_with_address),
    "loopback-interface": (given_by_program,),
    "worlds-of-one": (without_launcher,),
    "registration-failed": (peermem_not_loaded,),
    "python-exception": (hub_limits, split_of_checkpoint),
    "master-unreachable": (other_port_answers, for_itself_alone, given_by_program),
    "nic-hot": (link_flaps,),
    "ib-port-down": (bad_cable, link_flaps),
    "ib-retry": (mtu_differs, gid_that_works),
    "ib-completion-error": (mtu_differs, gid_that_works),
    "ib-connect-timeout": (gid_that_works, rails_apart),
    "remote-error": (no_host_of_job,),
    "ib-remote-error": (mtu_differs,),
    "ib-local-error": (mtu_differs,),
    "ib-invalid-gid": (gid_of_namespace, gid_of_nobody),
    "ibv-call-failed": (gid_of_namespace, gid_of_nobody),
    "duplicate-gpu": (launchers_per_node, local_rank_alike),
    "undefined-symbol": (of_two_packages, loaded_library),
    "efa-error": (older_libfabric, closed_modules),
    "efa-missing": (no_instance_of_aws,),
    "p2p-broken": (buffers_without_peers,),
    "vm-topology": (of_topology,),
    "rendezvous-timeout": (ids_apart, given_by_program),
    "port-in-use": (several_launchers, holder_of_port),
    "gpu-not-visible": (parts_that_are_none, gpu_that_is_none),
    "net-plugin-not-found": (plugin_beside_path,),
    "network-not-found": (plugin_beside_path, no_instance_of_aws),
    "collective-mismatch": (resumed_apart, apart_in_horovod, behind_main_process),
    "collective-order": (resumed_apart, behind_main_process, uneven_batches, uneven_gather),
    "watchdog-timeout": (resumed_apart, behind_main_process, uneven_batches),
    "calls-differ": (resumed_apart, uneven_batches),
    "stuck-in-collective": (resumed_apart,),
    "flight-recorder": (resumed_apart, behind_main_process, uneven_batches),
}
"""By finding, what looks for clues of it, in this order; before the rows of words."""
