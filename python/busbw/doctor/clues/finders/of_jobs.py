"""Who looks for clues of findings of jobs: settings, launch, ranks, programs, failures."""

from collections.abc import Mapping

from busbw.doctor.clues.finders.finder import Finder
from busbw.doctor.clues.launch.begins import first_node_late
from busbw.doctor.clues.launch.clocks import clocks_apart
from busbw.doctor.clues.launch.conf_origin import from_conf
from busbw.doctor.clues.launch.containers_meet import containers_over_hosts
from busbw.doctor.clues.launch.coordinators_apart import coordinators_apart
from busbw.doctor.clues.launch.device_plugins import plugin_that_ends
from busbw.doctor.clues.launch.given_gpus import fewer_gpus_given, fewer_gpus_listed, fewer_gpus_visible
from busbw.doctor.clues.launch.gpus_of_tasks import fewer_than_tasks
from busbw.doctor.clues.launch.gres import not_counted
from busbw.doctor.clues.launch.handed_on import handed_on
from busbw.doctor.clues.launch.horovod_ranks import same_in_horovod
from busbw.doctor.clues.launch.jobs import holder_of_memory, hub_limits, ids_apart, same_node_rank, split_of_checkpoint
from busbw.doctor.clues.launch.late_pods import pod_that_came_late
from busbw.doctor.clues.launch.launched import launchers_per_node, without_launcher
from busbw.doctor.clues.launch.node_ranks import evaluated_in_batch, nodes_alike
from busbw.doctor.clues.launch.old_rendezvous import file_of_earlier_run
from busbw.doctor.clues.launch.one_node_of_several import (
    gpus_times_ranks,
    launchers_on_one_node,
    one_name_of_hosts,
)
from busbw.doctor.clues.launch.over_the_gpus import more_than_gpus
from busbw.doctor.clues.launch.own_endpoint import endpoint_of_each_node
from busbw.doctor.clues.launch.pods import pending_pod, worker_not_ready
from busbw.doctor.clues.launch.probes import killed_while_loading
from busbw.doctor.clues.launch.ranks_of_init import device_after, ranks_with_gap, workers_of_one_gpu
from busbw.doctor.clues.launch.ranks_twice import ranks_on_two_hosts
from busbw.doctor.clues.launch.ray import unplaced
from busbw.doctor.clues.launch.ray_twice import node_twice
from busbw.doctor.clues.launch.renumbered import takes_number_of_host
from busbw.doctor.clues.launch.resized import no_fit
from busbw.doctor.clues.launch.second_in_step import second_in_step
from busbw.doctor.clues.launch.starts import spawned_twice, without_srun, worlds_apart
from busbw.doctor.clues.launch.store_address import no_host_address, served_by_nobody
from busbw.doctor.clues.launch.tasks import tasks_overridden
from busbw.doctor.clues.launch.unequal_nodes import file_left_over, worlds_of_nodes
from busbw.doctor.clues.launch.unhealthy_gpus import marked_unhealthy
from busbw.doctor.clues.launch.world_by_hand import world_by_hand
from busbw.doctor.clues.machine.apart import slow_by_one
from busbw.doctor.clues.machine.devices import gpu_that_is_none, parts_that_are_none, plugin_beside_path
from busbw.doctor.clues.machine.fabric_versions import of_another_release
from busbw.doctor.clues.machine.faults_of_all import faults_of_all
from busbw.doctor.clues.machine.faulty_card import stops_all
from busbw.doctor.clues.machine.hidden_driver import hidden_driver
from busbw.doctor.clues.machine.imex_domain import session_of_host, without_domain, without_racks
from busbw.doctor.clues.machine.imex_nodes import node_apart
from busbw.doctor.clues.machine.imex_service import service_down
from busbw.doctor.clues.machine.platforms import interface_with_address, no_instance_of_aws
from busbw.doctor.clues.machine.upgraded_driver import libraries_upgraded
from busbw.doctor.clues.machine.visible import given_the_same
from busbw.doctor.clues.memory.before_work import full_before_work
from busbw.doctor.clues.memory.beside_server import no_room_for_nccl
from busbw.doctor.clues.memory.growth import grows_each_step
from busbw.doctor.clues.memory.holders import held_by_another
from busbw.doctor.clues.memory.rooms import held_before_start, of_allocator, of_llama
from busbw.doctor.clues.memory.served import part_of_server
from busbw.doctor.clues.network.addresses import for_itself_alone, given_by_program
from busbw.doctor.clues.network.announced import peer_announced
from busbw.doctor.clues.network.between_hosts import mtu_differs, other_port_answers
from busbw.doctor.clues.network.bridge_addresses import over_a_bridge
from busbw.doctor.clues.network.bridged import on_default_bridge
from busbw.doctor.clues.network.common_end import end_that_counts
from busbw.doctor.clues.network.daemon_counts import counts_apart
from busbw.doctor.clues.network.device_cgroups import refused_by_cgroup
from busbw.doctor.clues.network.empty_gids import gid_is_empty
from busbw.doctor.clues.network.fabric_devices import fabric_devices
from busbw.doctor.clues.network.families import family_without_address
from busbw.doctor.clues.network.gid_shifted import gid_shifted
from busbw.doctor.clues.network.gids import (
    gid_of_namespace,
    gid_of_nobody,
    gid_of_program,
    gid_that_works,
    gid_without_interface,
)
from busbw.doctor.clues.network.gpu_buffers import core_without_peers, dmabuf_refused, refused_by_driver
from busbw.doctor.clues.network.gpu_networks import network_of_another_kind
from busbw.doctor.clues.network.helpers import receiver_of_tcpx
from busbw.doctor.clues.network.interfaces import not_in_workers, not_listed
from busbw.doctor.clues.network.kinds_apart import kinds_apart
from busbw.doctor.clues.network.lost_in_midst import lost_in_midst
from busbw.doctor.clues.network.mr_table import full_of_registrations
from busbw.doctor.clues.network.nic_states import forced_relaxed
from busbw.doctor.clues.network.octal import read_as_octal
from busbw.doctor.clues.network.one_nic import one_nic_alone
from busbw.doctor.clues.network.one_peer import one_peer_alone
from busbw.doctor.clues.network.one_subnet import rails_in_one_subnet
from busbw.doctor.clues.network.outgoing import taken_by_connection
from busbw.doctor.clues.network.overlays import overlay_dropped
from busbw.doctor.clues.network.own_address import address_of_node
from busbw.doctor.clues.network.own_name import name_of_own_host
from busbw.doctor.clues.network.partitions import keys_apart, limited_members
from busbw.doctor.clues.network.paths import lost_between
from busbw.doctor.clues.network.peer_memory import not_registered
from busbw.doctor.clues.network.peer_module import peers_not_loaded
from busbw.doctor.clues.network.peer_symbols import peers_of_another_build
from busbw.doctor.clues.network.pinged import port_without_answer
from busbw.doctor.clues.network.plugin_absent import not_installed
from busbw.doctor.clues.network.plugin_symbols import plugin_too_old
from busbw.doctor.clues.network.ports import blocked_ports, holder_of_port
from busbw.doctor.clues.network.rails import no_host_of_job
from busbw.doctor.clues.network.ray_addresses import addresses_of_ray
from busbw.doctor.clues.network.rdma_devices import not_given
from busbw.doctor.clues.network.registered import size_by_hand
from busbw.doctor.clues.network.shared_address import one_address_of_two, within_one_host
from busbw.doctor.clues.network.side_channel import side_channel_without_address
from busbw.doctor.clues.network.small_frames import lost_by_size
from busbw.doctor.clues.network.tunnels import first_is_tunnel
from busbw.doctor.clues.network.ucx import built_without_cuda
from busbw.doctor.clues.network.unshared import loopback_left, unshared_interfaces
from busbw.doctor.clues.network.zones import closed_by_zone
from busbw.doctor.clues.program.after_restart import refuses_other_size
from busbw.doctor.clues.program.at_boundary import at_boundary
from busbw.doctor.clues.program.at_exit import crashed_at_exit
from busbw.doctor.clues.program.bars_apart import bars_apart
from busbw.doctor.clues.program.batches import uneven_batches
from busbw.doctor.clues.program.behind_init import first_collective
from busbw.doctor.clues.program.blocking_launch import launch_waits
from busbw.doctor.clues.program.culprit_reports import culprit_of_report
from busbw.doctor.clues.program.culprits import culprit
from busbw.doctor.clues.program.decisions import decides_for_itself
from busbw.doctor.clues.program.dumped_status import lags_by_dumps
from busbw.doctor.clues.program.end_of_training import alone_after_training, stood_after_saving
from busbw.doctor.clues.program.ended_before import ended_before
from busbw.doctor.clues.program.failed_in_horovod import failed_itself
from busbw.doctor.clues.program.filtered import leaves_samples_out
from busbw.doctor.clues.program.gradients import without_gradients
from busbw.doctor.clues.program.groups import group_of_few, group_of_some
from busbw.doctor.clues.program.hung_read import hangs_in_file
from busbw.doctor.clues.program.key_prefixes import names_apart
from busbw.doctor.clues.program.launch_sizes import launch_sizes
from busbw.doctor.clues.program.left_alone import leaves_before
from busbw.doctor.clues.program.loader_of_lagging import waits_for_loader
from busbw.doctor.clues.program.locks import waits_for_locks
from busbw.doctor.clues.program.lost_alarms import limit_was_lost
from busbw.doctor.clues.program.master_ended import ended_as_it_should
from busbw.doctor.clues.program.micro_batches import uneven_micro_batches
from busbw.doctor.clues.program.models_apart import models_apart
from busbw.doctor.clues.program.norms import norms_are_nan
from busbw.doctor.clues.program.operations import counted_apart
from busbw.doctor.clues.program.out_of_step import out_of_step
from busbw.doctor.clues.program.own_stop import stops_for_itself
from busbw.doctor.clues.program.padded_apart import padded_apart
from busbw.doctor.clues.program.parts_of_tensors import on_other_devices, view_of_part
from busbw.doctor.clues.program.positions import beyond_positions
from busbw.doctor.clues.program.programs import (
    apart_in_horovod,
    behind_main_process,
    local_rank_alike,
    several_launchers,
    uneven_gather,
)
from busbw.doctor.clues.program.reads_far import reads_over_network
from busbw.doctor.clues.program.resume import resumed_apart
from busbw.doctor.clues.program.saving_alone import saves_alone
from busbw.doctor.clues.program.setup_stands import stands_in_setup
from busbw.doctor.clues.program.shards import uneven_shards
from busbw.doctor.clues.program.short_batch import shorter_batch
from busbw.doctor.clues.program.skipped_branch import leaves_branch_out
from busbw.doctor.clues.program.skips_alone import skips_alone
from busbw.doctor.clues.program.splits import index_of_first_node, on_another_disk, sequence_in_parts
from busbw.doctor.clues.program.stacks_apart import stacks_apart
from busbw.doctor.clues.program.transfer_sizes import unequal_transfers
from busbw.doctor.clues.program.triton_kernels import kernel_of_triton
from busbw.doctor.clues.program.types_apart import types_apart
from busbw.doctor.clues.releases.drivers_apart import older_on_a_host
from busbw.doctor.clues.releases.known_bugs import lost_slots, without_tail
from busbw.doctor.clues.releases.libfabric_apart import libfabric_apart
from busbw.doctor.clues.releases.loaded_nccl import older_than_installed
from busbw.doctor.clues.releases.packages_apart import packages_apart
from busbw.doctor.clues.releases.passes_with import passes_with_other
from busbw.doctor.clues.releases.releases_apart import releases_apart

OF_JOBS: Mapping[str, tuple[Finder, ...]] = {
    "no-interface": (side_channel_without_address, family_without_address, not_listed),
    "mixed-networks": (not_listed,),
    "hca-not-found": (not_given,),
    "version-mismatch": (not_listed, packages_apart, older_than_installed),
    "connection-returned": (loopback_left, unshared_interfaces),
    "init-incomplete": (
        *(ranks_on_two_hosts, file_of_earlier_run, one_address_of_two, tasks_overridden, without_srun),
        *(closed_by_zone, blocked_ports),
    ),
    "nccl-error": (
        *(passes_with_other, blocked_ports, older_than_installed, containers_over_hosts),
        *(ranks_with_gap, workers_of_one_gpu, device_after),
    ),
    "nccl-internal": (passes_with_other, packages_apart, older_than_installed),
    "invalid-argument": (older_than_installed,),
    "cuda-not-supported": (older_than_installed,),
    "ssh-launch": (worker_not_ready,),
    "slurm-resources": (marked_unhealthy, plugin_that_ends, libraries_upgraded, pending_pod, unplaced, not_counted),
    "rank-count": (packages_apart, no_fit, same_node_rank, sequence_in_parts),
    "gpu-memory-full": (
        *(grows_each_step, holder_of_memory, held_before_start, of_llama, of_allocator, part_of_server),
        *(held_by_another, full_before_work, no_room_for_nccl),
    ),
    "wrong-interface": (
        over_a_bridge,
        *(one_address_of_two, within_one_host, first_is_tunnel, given_by_program, on_default_bridge),
        *(interface_with_address, addresses_of_ray),
        peer_announced,
    ),
    "loopback-interface": (name_of_own_host, not_in_workers, given_by_program, loopback_left),
    "stuck-at-start": (tasks_overridden, without_srun),
    "stale-store": (spawned_twice, worlds_of_nodes, file_left_over),
    "engine-mismatch": (worlds_apart,),
    "cuda-call-failed": (passes_with_other, stops_all, hidden_driver, launch_sizes, more_than_gpus),
    "weights-not-loaded": (names_apart,),
    "driver-not-loaded": (hidden_driver,),
    "driver-too-old": (hidden_driver, older_on_a_host),
    "driver-mismatch": (libraries_upgraded, hidden_driver),
    "worlds-of-one": (without_launcher,),
    "python-exception": (
        hangs_in_file,
        *(refuses_other_size, without_tail, view_of_part, on_other_devices, names_apart, hidden_driver),
        *(launch_sizes, read_as_octal, index_of_first_node, on_another_disk, hub_limits, split_of_checkpoint),
        *(norms_are_nan,),
    ),
    "master-unreachable": (
        *(overlay_dropped, read_as_octal, name_of_own_host, tasks_overridden, without_srun, first_node_late),
        *(nodes_alike, closed_by_zone, evaluated_in_batch, other_port_answers, for_itself_alone),
        *(given_by_program, address_of_node, port_without_answer, ranks_on_two_hosts),
        *(no_host_address, endpoint_of_each_node, served_by_nobody),
    ),
    "ib-completion-error": (
        *(fabric_devices, kinds_apart, forced_relaxed, end_that_counts, rails_in_one_subnet, lost_between),
        *(mtu_differs, lost_by_size, gid_of_program, gid_shifted, gid_that_works, keys_apart, limited_members),
        *(one_nic_alone, one_peer_alone),
    ),
    "remote-error": (no_host_of_job, lost_in_midst),
    "ibv-call-failed": (
        *(kinds_apart, refused_by_cgroup, size_by_hand, full_of_registrations, dmabuf_refused),
        *(gid_of_namespace, gid_of_nobody, gid_is_empty, gid_without_interface),
    ),
    "duplicate-gpu": (
        launchers_on_one_node,
        *(fewer_than_tasks, node_twice, fewer_gpus_given, launchers_per_node, given_the_same, local_rank_alike),
        *(handed_on, fewer_gpus_listed, same_in_horovod, fewer_gpus_visible),
    ),
    "rendezvous-timeout": (
        coordinators_apart,
        endpoint_of_each_node,
        pod_that_came_late,
        *(overlay_dropped, group_of_few, file_of_earlier_run, group_of_some, read_as_octal, name_of_own_host),
        *(ids_apart, tasks_overridden, without_srun, world_by_hand, first_node_late, nodes_alike),
        *(evaluated_in_batch, given_by_program, address_of_node, port_without_answer, worlds_of_nodes),
        *(ranks_on_two_hosts, no_host_address, served_by_nobody),
    ),
    "port-in-use": (several_launchers, launchers_per_node, nodes_alike, holder_of_port, taken_by_connection),
    "gpu-not-visible": (
        *(one_name_of_hosts, gpus_times_ranks),
        *(fewer_than_tasks, libraries_upgraded, fewer_gpus_given, hidden_driver, parts_that_are_none),
        *(gpu_that_is_none, handed_on, fewer_gpus_listed, takes_number_of_host),
    ),
    "net-plugin-not-found": (not_installed, plugin_beside_path),
    "network-not-found": (libfabric_apart, plugin_too_old, not_given, plugin_beside_path, no_instance_of_aws),
    "collective-mismatch": (
        skips_alone,
        *(leaves_branch_out, reads_over_network, shorter_batch, failed_itself, without_gradients, culprit),
        *(decides_for_itself, resumed_apart, apart_in_horovod, leaves_before, types_apart, models_apart),
        *(behind_main_process, saves_alone, leaves_samples_out, uneven_batches, counted_apart),
        *(culprit_of_report, waits_for_loader, padded_apart),
    ),
    "collective-order": (
        skips_alone,
        *(leaves_branch_out, decides_for_itself, resumed_apart, behind_main_process, saves_alone),
        *(uneven_batches, uneven_gather),
    ),
    "watchdog-timeout": (
        skips_alone,
        *(reads_over_network, shorter_batch, lost_slots, uneven_micro_batches, unequal_transfers),
        stops_for_itself,
        *(waits_for_locks, launch_waits, decides_for_itself, resumed_apart, leaves_before, behind_main_process),
        *(uneven_batches, uneven_shards, bars_apart, ended_before, waits_for_loader, stacks_apart),
        *(lags_by_dumps, limit_was_lost, alone_after_training, stood_after_saving, out_of_step),
        at_boundary,
    ),
    "pmi": (second_in_step,),
    "calls-differ": (skips_alone, decides_for_itself, resumed_apart, uneven_batches, uneven_shards),
    "stuck-in-collective": (
        *(lost_slots, launch_waits, stacks_apart, decides_for_itself, resumed_apart, uneven_batches),
    ),
    "flight-recorder": (decides_for_itself, resumed_apart, behind_main_process, uneven_batches),
    "tcpx-error": (counts_apart, receiver_of_tcpx),
    "gdr-unavailable": (
        peers_of_another_build,
        *(core_without_peers, dmabuf_refused, refused_by_driver, not_registered, size_by_hand),
        *(peers_not_loaded,),
    ),
    "steps-slower": (slow_by_one,),
    "kv-transfer": (gid_of_program,),
    "nvshmem-init": (gid_of_program,),
    "fabric-manager": (of_another_release,),
    "ras-mismatch": (resumed_apart, behind_main_process, uneven_batches, counted_apart),
    "message-truncated": (shorter_batch, packages_apart, forced_relaxed, models_apart, releases_apart),
    "gdr-differs": (not_registered,),
    "server-waits": (stands_in_setup,),
    "stands-still": (lost_slots, launch_waits, stacks_apart, first_collective),
    "imex": (node_apart, service_down, session_of_host, without_domain, without_racks),
    "crash-in-library": (passes_with_other, built_without_cuda),
    "process-crashed": (passes_with_other, built_without_cuda, crashed_at_exit),
    "illegal-access": (passes_with_other, stops_all, beyond_positions, kernel_of_triton),
    "gpu-exception": (stops_all, faults_of_all),
    "mpi-launch": (closed_by_zone,),
    "slurm-setup": (clocks_apart, not_counted),
    "slurm-error": (not_counted,),
    "tcpx-nics": (network_of_another_kind,),
    "probe-failed": (killed_while_loading,),
    "ray-pending": (libraries_upgraded,),
    "store-lost": (leaves_before, ended_before, ended_as_it_should),
    "p2p-disabled": (from_conf,),
    "ib-disabled": (from_conf,),
    "shm-disabled": (from_conf,),
    "few-channels": (from_conf,),
    "forced-protocol": (from_conf,),
    "forced-algorithm": (from_conf,),
    "forced-sizes": (from_conf,),
    "slow-settings": (from_conf,),
    "no-multicast": (from_conf,),
    "imex-channel": (service_down,),
}
