"""More queues or processes share an AMD GPU than it runs at once."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="queues-oversubscribed",
    stage=Stage.SYSTEM,
    title="more queues or processes share an AMD GPU than it runs at once, so that the driver swaps them in turns",
    patterns=(r"Runlist is getting oversubscribed",),
    confirm="rocm-smi --showpids; `dmesg | grep -i runlist` while the job runs",
    cure=(
        "one process per GPU: end what is left of other jobs (rocm-smi --showpids), and let no data loader open the "
        "GPU. Then fewer queues: GPU_MAX_HW_QUEUES=2, fewer streams and communicators in the program"
    ),
    cost="kernels of all of them wait for each other: the job is slower",
    severity=Severity.WARNING,
    source="the Linux kernel: drivers/gpu/drm/amd/amdkfd/kfd_packet_manager.c",
)
