"""PyTorch's allocator gives back and takes memory anew in the middle of steps, since the GPU is nearly full."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage


def _is_rare(_groups: Sequence[Mapping[str, str]], count: int) -> bool:
    """A flush now and then, as at the first steps or an evaluation, costs little."""
    return count < 3


SIGNATURE = Signature(
    name="allocator-flush",
    stage=Stage.EFFECT,
    title="a GPU's memory is nearly full: PyTorch frees its cache within steps and takes memory anew, which is slow",
    patterns=(
        r"\d pytorch allocator cache flushes since last step",
        r"\b[1-9]\d{0,8} (?:CUDA|HIP|XPU) memory allocation retries",
    ),
    light=_is_rare,
    confirm="torch.cuda.memory_stats()['num_alloc_retries'] before and after a step, on each rank",
    cure=(
        "leave some GiB free: a smaller micro batch, gradient checkpointing, smaller stage3_max_live_parameters and "
        "stage3_prefetch_bucket_size, more sharding or offload. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; "
        "empty_cache() on all ranks at the same step keeps them from waiting for one another"
    ),
    cost="steps in which a rank does so are slow, and all ranks wait for it",
    severity=Severity.WARNING,
    versions="any PyTorch",
    source="DeepSpeed runtime/zero/stage3.py; torchtitan components/metrics.py",
)
