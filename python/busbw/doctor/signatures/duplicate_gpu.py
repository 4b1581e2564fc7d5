"""Two ranks on one GPU."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="duplicate-gpu",
    stage=Stage.PROGRAM,
    title="two ranks use the same GPU",
    patterns=(
        r"Duplicate GPU detected",
        r"Multiple Ranks are using the same GPU",
        r"multiple ranks using the same NVML device",
        r"(?:multiple|two|several|\d+) (?:processes|ranks|workers|tasks)\b.{0,60}"
        r"\bsame (?:CUDA |NVIDIA )?(?:GPU|device)",
    ),
    confirm=("print LOCAL_RANK, CUDA_VISIBLE_DEVICES and torch.cuda.current_device() of every rank before init"),
    cure=(
        "call torch.cuda.set_device(LOCAL_RANK) before the first collective, start no more ranks "
        "per node than GPUs. Several containers of one host need distinct GPUs; equal host ids of "
        "VMs need NCCL_HOSTID. Instances (MIG) of one GPU count as that GPU: a whole GPU per rank"
    ),
    source="NCCL src/init.cc",
)
