"""Links between findings of one machine that tell the same fault, or a part of what it does."""

from __future__ import annotations

import re

from busbw.doctor.clues.links.link import Link

OF_MACHINES = (
    # The program's own try to open the file, and NCCL's.
    Link("gpu-permission", re.compile(r"by its cgroup of devices"), frozenset({"ib-devices-missing"})),
    # What NCCL makes of a machine whose topology file it could not open.
    Link(
        "vm-topology",
        re.compile(r"^the topology file that is set (?:does not exist|may not be read)"),
        frozenset({"nic-far", "no-gdr", "topology-hidden", "flat-topology", "one-nic", "one-rail"}),
    ),
    # One cause, told by a matrix, by NCCL's graph and by a table.
    Link("flat-topology", re.compile("virtual machine hides"), frozenset({"topology-hidden", "nic-far", "one-rail"})),
    Link("topology-hidden", re.compile(""), frozenset({"one-rail"})),
    # A program that finds no GPU, as the driver refuses its libraries.
    *(
        Link(
            name,
            re.compile(""),
            frozenset({"gpu-not-visible"}),
            re.compile(
                r"no GPUs? (?:is |are |was |were )?(?:found|available)|No CUDA GPUs|\bdevice_count\b|is_available"
            ),
        )
        for name in ("driver-too-old", "driver-mismatch", "driver-not-loaded", "fabric-manager")
    ),
    # What mends the GPU, said behind the fault itself.
    *(
        Link(name, re.compile(r"\bXid\b"), frozenset({"gpu-error-other"}), re.compile(r"\): ?154\b"))
        for name in (
            *("nvlink-error", "gpu-memory-error", "gpu-firmware", "gpu-off-bus", "nvswitch-error", "gpu-exception"),
            *("illegal-access",),
        )
    ),
    # Counters of other links of a GPU that lost some.
    Link("nvlinks-down", re.compile("counts errors"), frozenset({"nvlink-error"}), re.compile(r"\bLink \d{1,2}: \S")),
    # Without its toolkit Docker has no driver for GPUs, whatever else its tools say.
    Link(
        "gpu-not-visible",
        re.compile(r"^NVIDIA's container toolkit is not installed"),
        frozenset({"container-start", "command-not-found"}),
    ),
    # perftest ends after rdma_cm found no device; MPI calls the same wrong address by all its parts.
    Link(
        "ib-connect-timeout",
        re.compile(r"^rdma_cm finds no RDMA device"),
        frozenset({"connection-refused"}),
        re.compile(r"Unable to init the socket connection"),
    ),
    *(
        Link(name, re.compile(r"a bridge with that address on every host"), frozenset(sequels))
        for name, sequels in (
            ("wrong-interface", ("connection-refused", "mpi-network", "mpi-other", "mpi-error", "stands-still")),
            ("connection-refused", ("mpi-network", "mpi-other", "mpi-error", "stands-still")),
        )
    ),
    # Loaders that share a rank's one core are told where steps wait for them.
    Link("data-bound", re.compile(r"one processor|to one core|share 1 processor"), frozenset({"core-bound"})),
)
