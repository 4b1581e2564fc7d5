"""The host ran out of memory, and the kernel or the scheduler killed a process."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="host-memory",
    stage=Stage.SYSTEM,
    title="the host ran out of memory: a process was killed or could not allocate",
    patterns=(
        r"node running low on memory",
        r"MemoryError: Unable to allocate",
        r"Cannot allocate memory.{0,40}(?:fork|mmap)",
        r"Out of memory: Kill",
        r"oom[-_]kill",
        r"oom_reaper",
        r"Killed process \d+",
        r"OOMKilled",
        r"exitcode *: *-9\b",
        r"exit code:? (?:-9|137)\b",
        r"Signal 9 \(SIGKILL\)",
        r"on signal 9\b",
        r"Failed to malloc",
        r"malloc\(size=\d+\) returned null",
        r"exceeded memory limit",
        r"DefaultCPUAllocator: can't allocate memory",
        r"Call to \S+ failed.{0,20}Cannot allocate memory",
    ),
    unless=("ibv_",),
    explains=("process-crashed",),
    confirm="`dmesg | grep -i -e oom -e killed`; sacct -j JOB -o MaxRSS,State; kubectl describe pod",
    cure=("ask for more memory (--mem=0, the pod's limit), fewer data loader workers, or less pinned memory"),
    source="the Linux kernel: mm/oom_kill.c",
)
