"""A server's processes wait for one of them."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="server-waits",
    stage=Stage.EFFECT,
    title="the processes of a server wait for one of them: it compiles or loads, or hangs in a collective",
    patterns=(
        r"Timed out waiting for engines",
        r"No available shared memory broadcast block",
        r"\b\d{3,5} seconds elapsed: (?:Still )?[Ww]aiting for GCS",
        r"replicas that have taken more than \d+s to be scheduled|Waiting for all ray workers to be active\. \d",
        r"(?:Waiting for|still waiting for).{0,40}(?:engine core|core engine|workers?).{0,40}(?:ready|start|init)",
    ),
    unless=("current: 0, required: 1",),
    explains=("process-crashed",),
    confirm="py-spy dump --pid PID of each worker; nvidia-smi: is one GPU at 0 % while the others are at 100 %",
    cure=(
        "wait for the compilation at the first start; where it never ends: NCCL_P2P_DISABLE=1 (ACS, IOMMU), "
        "--disable-custom-all-reduce and --enforce-eager in turn, NCCL_DEBUG=INFO to see which rank stays behind"
    ),
    cost="requests wait, or the server never starts",
    source="vllm/distributed/device_communicators/shm_broadcast.py",
    soft=True,
)
