"""The container may not bind memory or threads."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="numa-binding-denied",
    stage=Stage.SYSTEM,
    title="the container may not bind memory or threads to NUMA nodes or processors: {what}",
    patterns=(
        r"(?P<what>failed to bind memory)",
        r"(?P<what>tried to bind a process but failed)",
        r"(?P<what>(?:set_mempolicy|get_mempolicy|mbind|move_pages)\S*: Operation not permitted)",
        r"(?P<what>hwloc_set_(?:mem|cpu)bind)\b.{0,100}(?:fail|errno)",
        r"(?P<what>sched_[sg]etaffinity) failed",
        r"(?P<what>[GS]etProcessAffinityMask) failed",
        r"(?P<what>numactl|numa_\w+)\b.{0,60}(?:not permitted|out of range|failed)",
        r"(?P<what>This system does not support NUMA policy)",
        r"libnuma: Warning: (?P<what>.{5,100})",
        r"a bind (?:request|attempt).{0,80}(?P<what>could not|not supported|failed)",
    ),
    confirm="grep -i -e seccomp -e cpus_allowed_list /proc/self/status; numactl --show, in the container",
    cure=(
        "start the container with --cap-add=SYS_NICE (or a seccomp profile that allows set_mempolicy), and "
        "bind within the processors that the job was given; NCCL_IGNORE_CPU_AFFINITY=1 if the binding is "
        "wrong"
    ),
    cost="threads and memory may lie on the far socket",
    source="the default seccomp profiles of Docker and containerd; NCCL src/os/linux.cc",
)
