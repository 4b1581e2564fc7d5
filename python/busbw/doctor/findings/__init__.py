"""The list of findings: adding one is a file with NAME and `examine(facts)`, a line here, and its part of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.findings import (
    acs,
    below_expected,
    built_without_mpi,
    conf_files,
    cpu_binding,
    few_channels,
    flight_recorder,
    forced_algorithm,
    forced_protocol,
    forced_sizes,
    gpu_busy,
    gpu_faults,
    gpu_throttled,
    graph_file,
    hca_not_found,
    ib_disabled,
    init_incomplete,
    iommu,
    library_versions,
    locked_memory,
    nccl_warnings,
    network_interface,
    networks_differ,
    no_gdr,
    nvlink_domain,
    nvlink_errors,
    nvlinks_down,
    one_rail,
    p2p_disabled,
    p2p_matrix,
    pcie_link,
    settings_differ,
    shared_memory,
    shm_disabled,
    slow_settings,
    slow_transport,
    stuck_in_collective,
    topology_file,
)

Examination = Callable[[Facts], Iterator[Finding]]

FINDINGS: Mapping[str, Examination] = {
    module.NAME: module.examine
    for module in (
        graph_file,
        topology_file,
        conf_files,
        p2p_disabled,
        shm_disabled,
        ib_disabled,
        hca_not_found,
        few_channels,
        forced_algorithm,
        forced_protocol,
        forced_sizes,
        slow_settings,
        network_interface,
        networks_differ,
        no_gdr,
        slow_transport,
        init_incomplete,
        settings_differ,
        flight_recorder,
        stuck_in_collective,
        p2p_matrix,
        built_without_mpi,
        nccl_warnings,
        below_expected,
        one_rail,
        nvlink_domain,
        pcie_link,
        nvlinks_down,
        nvlink_errors,
        acs,
        iommu,
        cpu_binding,
        gpu_busy,
        gpu_throttled,
        gpu_faults,
        library_versions,
        shared_memory,
        locked_memory,
    )
}
