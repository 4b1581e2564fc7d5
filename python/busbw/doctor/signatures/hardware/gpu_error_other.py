"""Any other Xid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage
from busbw.doctor.xids import other_patterns, told


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """What the numbers mean, at most three of them."""
    numbers = list(dict.fromkeys(each["xid"] for each in groups if "xid" in each))
    if not numbers:
        return "the driver asks for a GPU's reset, or reports that the board's own memory (infoROM) is corrupted"
    return "the driver reports " + ", ".join(map(told, numbers[:3])) + (" ..." if len(numbers) > 3 else "")


SIGNATURE = Signature(
    name="gpu-error-other",
    stage=Stage.HARDWARE,
    title="the driver reports Xid {xid} of a GPU",
    patterns=(
        r"CorruptedInforom|CORRUPTED_INFOROM",
        r"(?:GPU Recovery Action|Reset Required) *: *(?:Reset|Yes|Drain|Reboot)",
        r"infoROM is corrupted",
        *other_patterns(),
    ),
    confirm="look the number up in NVIDIA's catalogue of Xid errors; nvidia-smi -q; dcgmi diag -r 3",
    cure=(
        "follow the catalogue's action for that number; most often: restart the program, then reset "
        "the GPU, then replace it"
    ),
    source="NVIDIA's catalogue of Xid errors (docs.nvidia.com/deploy/xid-errors)",
    tell=tell,
)
