"""Two ranks on one GPU."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """Which ranks share which GPU."""
    sharers: defaultdict[str, set[int]] = defaultdict(set)
    for each in groups:
        if "gpu" in each:
            sharers[each["gpu"]] |= {int(each["one"]), int(each["other"])}
    if not sharers:
        return "two ranks use the same GPU"
    gpu, ranks = max(sharers.items(), key=lambda each: len(each[1]))
    who = f"{', '.join(map(str, sorted(ranks)[:8]))}{' ...' if len(ranks) > 8 else ''}"
    title = f"ranks {who} use the same GPU (bus id {gpu})"  # NCCL calls it a CUDA device
    alone = len(ranks) > 2 and len(sharers) == 1
    return f"{title}: they see no other one, or none chose by its local rank" if alone else title


SIGNATURE = Signature(
    name="duplicate-gpu",
    stage=Stage.PROGRAM,
    title="two ranks use the same GPU",
    patterns=(
        r"Duplicate GPU detected ?: rank (?P<one>\d{1,7}) and rank (?P<other>\d{1,7}) both on CUDA "
        r"device (?P<gpu>\w{1,20})",
        r"Duplicate GPU detected",
        r"Multiple Ranks are using the same GPU",
        r"same CUDA device for multiple distinct roles",
        r"multiple ranks using the same NVML device",
        r"(?:multiple|two|several|\d+) (?:processes|ranks|workers|tasks)\b.{0,60}"
        r"\bsame (?:CUDA |NVIDIA )?(?:GPU|device)",
    ),
    confirm=("print LOCAL_RANK, CUDA_VISIBLE_DEVICES and torch.cuda.current_device() of every rank before init"),
    cure=(
        "call torch.cuda.set_device(LOCAL_RANK) before the first collective, start no more ranks "
        "per node than GPUs are visible (nvidia-smi -L in the container: --gpus all). "
        "Several containers of one host need distinct GPUs; equal host ids of "
        "VMs need NCCL_HOSTID. Instances (MIG) of one GPU count as that GPU: a whole GPU per rank"
    ),
    source="NCCL src/init.cc",
    tell=tell,
)
