"""Who looks for clues of findings of the network."""

from collections.abc import Mapping

from busbw.doctor.clues.finders.finder import Finder
from busbw.doctor.clues.launch.old_rendezvous import file_of_earlier_run
from busbw.doctor.clues.launch.pods import headless, without_service, worker_not_ready
from busbw.doctor.clues.launch.service_names import of_another_service
from busbw.doctor.clues.launch.told_name import told_by_agent
from busbw.doctor.clues.machine.flat_guest import flat_in_guest
from busbw.doctor.clues.machine.platforms import closed_modules
from busbw.doctor.clues.network.addresses import for_itself_alone
from busbw.doctor.clues.network.async_port import host_of_event
from busbw.doctor.clues.network.between_hosts import bad_cable, link_flaps, mtu_differs, other_port_answers
from busbw.doctor.clues.network.bridge_addresses import over_a_bridge
from busbw.doctor.clues.network.common_end import end_that_counts
from busbw.doctor.clues.network.counted_by_one import one_that_counts
from busbw.doctor.clues.network.empty_gids import gid_is_empty
from busbw.doctor.clues.network.fabric_devices import fabric_devices
from busbw.doctor.clues.network.firewalls import refused_by_rules
from busbw.doctor.clues.network.gid_changes import changed_by
from busbw.doctor.clues.network.gid_shifted import gid_shifted
from busbw.doctor.clues.network.gids import (
    gid_of_namespace,
    gid_of_nobody,
    gid_of_program,
    gid_that_works,
    gid_without_interface,
)
from busbw.doctor.clues.network.gpu_buffers import core_without_peers, refused_by_driver
from busbw.doctor.clues.network.group_rules import group_without_itself
from busbw.doctor.clues.network.helpers import container_ended, receiver_of_tcpx
from busbw.doctor.clues.network.kinds_apart import kinds_apart
from busbw.doctor.clues.network.link_local import roce_without_address
from busbw.doctor.clues.network.lost_leases import lost_lease
from busbw.doctor.clues.network.martians import martian_sources
from busbw.doctor.clues.network.mr_table import full_of_registrations
from busbw.doctor.clues.network.named_peers import peers_by_name
from busbw.doctor.clues.network.named_port import one_port_down
from busbw.doctor.clues.network.neighbours import rail_apart, unresolved
from busbw.doctor.clues.network.nic_states import forced_relaxed, none_active
from busbw.doctor.clues.network.octal import read_as_octal
from busbw.doctor.clues.network.one_device import over_one_device
from busbw.doctor.clues.network.one_nic import one_nic_alone
from busbw.doctor.clues.network.one_peer import one_peer_alone
from busbw.doctor.clues.network.one_subnet import rails_in_one_subnet
from busbw.doctor.clues.network.overlays import overlay_dropped
from busbw.doctor.clues.network.own_address import address_of_node
from busbw.doctor.clues.network.own_name import gloo_of_own_name, name_of_own_host
from busbw.doctor.clues.network.partitions import keys_apart, limited_members
from busbw.doctor.clues.network.paths import lost_between
from busbw.doctor.clues.network.peer_memory import not_registered
from busbw.doctor.clues.network.peer_module import peers_not_loaded
from busbw.doctor.clues.network.pinged import port_without_answer, rejected_though_there
from busbw.doctor.clues.network.plugin_absent import not_installed
from busbw.doctor.clues.network.ports import blocked_ports
from busbw.doctor.clues.network.rail_of_host import rail_of_host
from busbw.doctor.clues.network.rails import rails_apart
from busbw.doctor.clues.network.rdma_cm import without_rdma_address
from busbw.doctor.clues.network.rdma_devices import not_given
from busbw.doctor.clues.network.registered import size_by_hand
from busbw.doctor.clues.network.shared_address import one_address_of_two
from busbw.doctor.clues.network.small_frames import lost_by_size
from busbw.doctor.clues.network.ucx_device import device_of_connection
from busbw.doctor.clues.network.unshared import loopback_left, unshared_interfaces
from busbw.doctor.clues.network.virtual_functions import function_without_guid
from busbw.doctor.clues.network.visitors import by_first_bytes
from busbw.doctor.clues.network.zones import closed_by_zone
from busbw.doctor.clues.program.programs import older_libfabric

OF_NETWORK: Mapping[str, tuple[Finder, ...]] = {
    "network-interface": (not_installed, not_given, none_active),
    "no-route": (
        over_a_bridge,
        martian_sources,
        *(read_as_octal, rails_in_one_subnet, closed_by_zone, other_port_answers, refused_by_rules),
        *(overlay_dropped, rejected_though_there, unshared_interfaces),
    ),
    "socket-failed": (loopback_left, unshared_interfaces),
    "connection-timeout": (
        over_a_bridge,
        *(overlay_dropped, file_of_earlier_run, one_address_of_two, read_as_octal, name_of_own_host),
        *(closed_by_zone, refused_by_rules, other_port_answers, address_of_node, blocked_ports),
        *(port_without_answer, loopback_left, unshared_interfaces),
    ),
    "dns": (read_as_octal, headless, of_another_service, worker_not_ready, without_service, told_by_agent),
    "connection-refused": (
        over_a_bridge,
        *(file_of_earlier_run, one_address_of_two, read_as_octal, name_of_own_host, for_itself_alone),
        *(refused_by_rules, address_of_node, closed_by_zone, container_ended, receiver_of_tcpx, loopback_left),
    ),
    "ib-port-down": (function_without_guid, none_active, bad_cable, link_flaps, one_port_down, host_of_event),
    "ib-retry": (
        *(fabric_devices, kinds_apart, one_that_counts, end_that_counts, rails_in_one_subnet, rail_of_host),
        martian_sources,
        *(lost_between, mtu_differs),
        *(lost_by_size, gid_of_program, gid_without_interface, gid_shifted, gid_is_empty, gid_that_works),
        *(roce_without_address, rail_apart, unresolved, keys_apart, limited_members, one_nic_alone),
        *(lost_lease, one_peer_alone, peers_by_name),
    ),
    "ib-connect-timeout": (
        *(fabric_devices, kinds_apart, rails_in_one_subnet, rail_of_host, rail_apart, lost_between, unresolved),
        *(gid_of_program, gid_without_interface, gid_shifted, gid_is_empty, gid_that_works),
        *(roce_without_address, rails_apart, device_of_connection),
        without_rdma_address,
    ),
    "ib-remote-error": (fabric_devices, forced_relaxed, mtu_differs),
    "ib-local-error": (forced_relaxed, mtu_differs),
    "ib-invalid-gid": (
        *(fabric_devices, kinds_apart, changed_by, gid_of_namespace, gid_of_nobody, gid_of_program),
        *(gid_is_empty, gid_without_interface, gid_shifted),
    ),
    "efa-error": (group_without_itself, size_by_hand, full_of_registrations, older_libfabric, closed_modules),
    "ports-exhausted": (address_of_node,),
    "mpi-other": (over_a_bridge,),
    "mpi-network": (over_a_bridge, gid_of_program, core_without_peers, refused_by_driver),
    "stranger": (by_first_bytes,),
    "networks-differ": (none_active,),
    "nic-missing": (not_given,),
    "one-rail": (over_one_device,),
    "no-gdr": (not_registered, peers_not_loaded),
    "gloo-mesh": (gloo_of_own_name,),
    "nic-far": (flat_in_guest,),
    "ib-async": (fabric_devices,),
}
