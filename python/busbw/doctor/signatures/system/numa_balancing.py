"""The kernel moves memory between NUMA nodes."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="numa-balancing",
    stage=Stage.SYSTEM,
    title="automatic NUMA balancing is on: the kernel moves pages while the GPUs work",
    patterns=(
        r"NUMA (?:auto )?balancing enabled",
        r"kernel\.numa_balancing *= *1",
    ),
    confirm="sysctl kernel.numa_balancing",
    cure="sudo sysctl kernel.numa_balancing=0",
    cost="latency varies, bandwidth falls at times",
    severity=Severity.WARNING,
    source="RCCL src/init.cc",
)
