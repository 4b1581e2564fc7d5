"""Several parts (MIG) of one GPU in a communicator, which NCCL takes for the same GPU."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="mig-ranks",
    stage=Stage.DRIVER,
    title="ranks run on parts of one GPU (MIG), which NCCL takes for the same GPU twice",
    patterns=(
        r"(?P<twice>Duplicate GPU detected|Multiple Ranks are using the same GPU)",
        r"(?P<mig>\bMIG \d{1,2}g\.\d{1,3}gb\b|\bMIG-[0-9a-f]{4,8}\b|MIG-GPU-)",
    ),
    confirm="nvidia-smi -L: several MIG devices below one GPU; CUDA_VISIBLE_DEVICES of the ranks",
    cure=(
        "give each rank a GPU of its own: switch MIG off (nvidia-smi -mig 0) and reset, or run one "
        "rank per GPU; from NCCL "
        "2.29 on NCCL_MULTI_RANK_GPU_ENABLE=1 allows several"
    ),
    source="NCCL src/init.cc; nvidia-smi -L",
    explains=("duplicate-gpu",),
    holds=lambda groups: any("twice" in each for each in groups) and any("mig" in each for each in groups),
)
