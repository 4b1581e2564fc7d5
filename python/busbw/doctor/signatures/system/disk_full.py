"""A file system is full."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="disk-full",
    stage=Stage.SYSTEM,
    title="a file system is full (not shared memory)",
    patterns=(
        r"low on resource: ephemeral-storage",
        r"DiskPressure",
        r"OutOfDiskError|[Ll]ocal disk is full|[Dd]isk (?:is )?full\b",
        r"No space left on device",
        r"Disk quota exceeded",
        r"inline_container\.cc.{0,60}unexpected pos",
        r"\[Errno 28\]",
    ),
    explains=("ray-error",),
    unless=(
        "</torch_",
        "'/psm_",
        "'/torch_",
        "'/sem.mp",
        "'/mp-",
        "shm",
        "nccl",
        "shared memory",
        "user namespace",
        "bpf load",
    ),
    confirm="df -h; df -i; quota",
    cure="free space where checkpoints, caches or TMPDIR lie, or set TMPDIR elsewhere",
    source="errno ENOSPC, EDQUOT",
)
