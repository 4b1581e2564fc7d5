"""The GPU stopped a program: bad address, bad instruction, or a kernel that hung."""

from busbw.doctor.signature import Signature, Stage
from busbw.doctor.xids import patterns

SIGNATURE = Signature(
    name="gpu-exception",
    stage=Stage.PROGRAM,
    title="the GPU stopped a program: bad address or exception of a kernel (Xid {xid})",
    patterns=(
        *patterns("13|31|43|68|69|109|137"),
        # cuda-gdb and its core dumps.
        r"\bCUDA Exception: (?:Warp|Lane|Device|Cluster) ",
    ),
    confirm=(
        "run the program with compute-sanitizer, or with CUDA_LAUNCH_BLOCKING=1; the same host with "
        "another program (`dcgmi diag -r 3`)"
    ),
    cure=(
        "mend the kernel that accesses memory out of bounds (Xid 31, 13); where different programs "
        "fail on one GPU alone, it is that GPU's memory: replace it"
    ),
    source="NVIDIA's catalogue of Xid errors (docs.nvidia.com/deploy/xid-errors)",
)
