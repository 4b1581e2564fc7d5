"""Checkpoints are begun faster than storage takes them."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage


def _is_rare(_groups: Sequence[Mapping[str, str]], count: int) -> bool:
    """One save may be slow by chance."""
    return count < 2


SIGNATURE = Signature(
    name="save-backlog",
    stage=Stage.EFFECT,
    title="a save of a checkpoint begins before the one before it is written: storage is too slow for that interval",
    patterns=(
        r"Starting a checkpoint save before previous has finished",
        r"(?:previous|last) (?:async(?:hronous)? )?(?:checkpoint|save)\b.{0,40}"
        r"(?:still (?:in progress|running|being (?:written|saved))|not (?:yet )?(?:finished|completed))",
    ),
    light=_is_rare,
    confirm="the time from the begin of a save to `successfully saved`; dd or elbencho on that file system",
    cure=(
        "save less often (--save-interval), or write faster: all ranks in parallel (--ckpt-fully-parallel-save), to a "
        "local disk first, to more targets (lfs setstripe). Look at what else loads that storage"
    ),
    cost="training waits for the save before it goes on, and host memory holds both",
    severity=Severity.WARNING,
    versions="any framework",
    source="Megatron-LM training/checkpointing.py; torch.distributed.checkpoint",
)
