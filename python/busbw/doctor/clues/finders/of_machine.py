"""Who looks for clues of findings of machines: GPUs, links, drivers, memory, containers."""

from collections.abc import Mapping

from busbw.doctor.clues.finders.finder import Finder
from busbw.doctor.clues.launch.clocks import clocks_apart
from busbw.doctor.clues.launch.launched import peermem_not_loaded
from busbw.doctor.clues.launch.library_path import not_passed_by_mpirun
from busbw.doctor.clues.launch.not_in_workers import not_passed_on
from busbw.doctor.clues.launch.pods import killed_at_limit
from busbw.doctor.clues.launch.resized import no_start_without
from busbw.doctor.clues.launch.store_on_lost import held_the_store
from busbw.doctor.clues.machine.acs_rates import acs_beside_rates
from busbw.doctor.clues.machine.apart import worn_memory
from busbw.doctor.clues.machine.dimms import host_of_storm
from busbw.doctor.clues.machine.flat_guest import flat_in_guest
from busbw.doctor.clues.machine.hidden_driver import hidden_driver
from busbw.doctor.clues.machine.lost_with_switches import lost_with_switches
from busbw.doctor.clues.machine.machine_checks import host_of_check
from busbw.doctor.clues.machine.no_p2p_by_make import none_by_make
from busbw.doctor.clues.machine.nvlinks import counting_link, links_of_gpu
from busbw.doctor.clues.machine.platforms import buffers_without_peers, no_instance_of_aws
from busbw.doctor.clues.machine.slots import narrow_slot
from busbw.doctor.clues.machine.topology_missing import file_not_opened
from busbw.doctor.clues.machine.worn_card import one_card, rank_of_card
from busbw.doctor.clues.memory.bare_kill import killed_by_whom
from busbw.doctor.clues.memory.cgroups import limit_of_cgroup
from busbw.doctor.clues.memory.copies import copies_of_model
from busbw.doctor.clues.memory.full_disk import full_mount
from busbw.doctor.clues.memory.full_state import full_state_on_all
from busbw.doctor.clues.memory.growth import host_grows_each_step
from busbw.doctor.clues.memory.left_in_shm import left_in_shm
from busbw.doctor.clues.memory.of_steps import limit_of_step
from busbw.doctor.clues.memory.offload import of_dask, of_offload
from busbw.doctor.clues.memory.rooms import of_ray_node
from busbw.doctor.clues.network.between_hosts import link_flaps
from busbw.doctor.clues.network.device_cgroups import refused_by_cgroup
from busbw.doctor.clues.network.gpu_buffers import core_without_peers, refused_by_driver
from busbw.doctor.clues.network.host_names import one_name_of_two
from busbw.doctor.clues.network.locked_memory import limit_of_service
from busbw.doctor.clues.network.mr_table import full_of_registrations
from busbw.doctor.clues.network.nic_states import forced_relaxed, whose_firmware
from busbw.doctor.clues.network.peer_memory import not_registered
from busbw.doctor.clues.network.rdma_devices import not_given
from busbw.doctor.clues.network.registered import size_by_hand
from busbw.doctor.clues.network.wrong_between_hosts import wrong_over_network
from busbw.doctor.clues.program.programs import loaded_library, of_two_packages
from busbw.doctor.clues.releases.extensions import built_for_another
from busbw.doctor.clues.releases.firmware_updated import after_firmware
from busbw.doctor.clues.releases.known_bugs import without_tail
from busbw.doctor.clues.releases.symbols import older_than_symbol
from busbw.doctor.clues.releases.too_old import of_links
from busbw.doctor.clues.releases.wrong_by_release import right_with_others

OF_MACHINE: Mapping[str, tuple[Finder, ...]] = {
    "host-memory": (
        *(full_state_on_all, of_ray_node, of_dask, of_offload, copies_of_model, host_grows_each_step),
        *(killed_at_limit, limit_of_cgroup, limit_of_step, killed_by_whom),
    ),
    "amd-gpu-error": (after_firmware,),
    "shm-full": (left_in_shm,),
    "library-not-found": (not_passed_by_mpirun, hidden_driver),
    "registration-failed": (
        *(size_by_hand, full_of_registrations, refused_by_driver, core_without_peers, peermem_not_loaded),
        *(not_registered,),
    ),
    "nic-hot": (link_flaps,),
    "undefined-symbol": (of_two_packages, loaded_library, older_than_symbol, built_for_another),
    "efa-missing": (no_instance_of_aws,),
    "p2p-broken": (none_by_make, buffers_without_peers, not_passed_on),
    "vm-topology": (file_not_opened, of_links),
    "memlock": (size_by_hand, full_of_registrations, refused_by_driver, limit_of_service),
    "gpu-memory-storm": (worn_memory,),
    "nvlink-error": (counting_link,),
    "wrong-results": (without_tail, forced_relaxed, right_with_others, wrong_over_network),
    "ib-devices-missing": (refused_by_cgroup, not_given),
    "gpu-memory-error": (one_card, rank_of_card),
    "cuda-ipc": (one_name_of_two,),
    "bad-shm-attach": (one_name_of_two,),
    "clock-skew": (clocks_apart,),
    "host-memory-storm": (host_of_storm,),
    "pcie-limited": (narrow_slot,),
    "pcie-link": (narrow_slot,),
    "node-lost": (held_the_store, no_start_without),
    "disk-full": (full_mount,),
    "topology-hidden": (flat_in_guest,),
    "iommu-fault": (acs_beside_rates,),
    "nic-firmware": (whose_firmware,),
    "machine-check": (host_of_check,),
    "nvlinks-down": (links_of_gpu,),
    "gpu-permission": (refused_by_cgroup,),
    "gpu-off-bus": (lost_with_switches,),
}
