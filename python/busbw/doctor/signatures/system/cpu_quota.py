"""The container's share of the processors is used up."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="cpu-quota",
    stage=Stage.SYSTEM,
    title="the container's limit of processors holds the ranks back (the kernel stops them for part of each period)",
    patterns=(
        r"\bnr_throttled\W{1,4}[1-9]\d{3,}",
        r"CPUThrottlingHigh|[Cc]ontainer .{0,60}(?:is|was|being) (?:CPU )?throttled\b",
        r"limited to \d+(?:\.\d+)? (?:CPUs?|cores|processors) (?:with|for|by) \d+ (?:threads|ranks|processes)",
    ),
    confirm="cat /sys/fs/cgroup/cpu.stat twice while the job runs: does nr_throttled grow",
    cure=(
        "raise or remove the limit (resources.limits.cpu, --cpus, --cpus-per-task), or start fewer threads "
        "(OMP_NUM_THREADS)"
    ),
    cost="ranks launch their kernels late, and all ranks wait for the last one",
    severity=Severity.WARNING,
    source="the Linux kernel: CFS bandwidth control (cpu.stat)",
)
