"""Huge pages that a library asks for are not there."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="hugepages",
    stage=Stage.SYSTEM,
    title="no huge pages are left or set aside on the host (or the container may not use them)",
    patterns=(
        r"No free \d+ kB hugepages|Cannot get hugepage information",
        r"MAP_HUGETLB\b.{0,80}(?:fail|error|Cannot allocate)",
        r"\bhugetlb\w*\b.{0,80}(?:fail|error|not permitted|check )|fail\w*\b.{0,80}\b(?:hugetlb|huge ?pages?)\b",
        r"[Uu]nable to allocate huge ?pages?|could not allocate huge ?pages?",
        r"SHM_HUGETLB\b.{0,60}(?:fail|not permitted)|Insufficient hugepages-\w+",
    ),
    confirm="grep Huge /proc/meminfo; cat /sys/kernel/mm/hugepages/*/nr_hugepages",
    cure=(
        "set them aside (sysctl vm.nr_hugepages=N, the pod's hugepages-2Mi), free those of jobs that ended, or let "
        "the library do without (EFA: FI_EFA_USE_HUGE_PAGE=0)"
    ),
    source="the Linux kernel: mm/hugetlb.c; DPDK; UCX",
    unless=("debug", "falling back", "transparent"),
    explains=("mpi-network", "registration-failed", "host-memory", "efa-error", "memlock"),
)
