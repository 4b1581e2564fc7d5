"""NVLinks that fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage
from busbw.doctor.xids import patterns

_FEW = 5
"""Packets sent again since the driver was loaded, as any link now and then has to."""


def _few(groups: Sequence[Mapping[str, str]], lines: int) -> bool:
    """Whether all that is said are counters of single links that sent a few packets again."""
    counts = [int(each["again"]) for each in groups if "again" in each]
    named = [each for each in groups if "again" in each]
    return len(named) == len(groups) == lines and sum(counts) <= _FEW


SIGNATURE = Signature(
    name="nvlink-error",
    stage=Stage.HARDWARE,
    title="an NVLink of a GPU fails (Xid {xid})",
    patterns=(
        r"^(?:GPU (?P<gpu>\d{1,3}): .{3,120}?\|)?\s{0,12}Link (?P<link>\d{1,2}): Replay Errors?(?: Count)?: "
        r"(?P<again>[1-9]\d{0,11})\b",
        r"^(?:GPU \d{1,3}: .{3,120}?\|)?\s{0,12}"
        r"Link \d{1,2}(?:: Replay Error|: Recovery Error|: CRC Error|: CRC FLIT Error)(?:s|s? Count)?: [1-9]",
        r"Link \d+: <inactive>",
        *patterns("72|74|144|145|146|147|148|149|150|151|152|153|155|156"),
        r"NVLink\b.{0,80}\bBER\b.{0,40}above",
        r"NVLink\b.{0,80}(?:(?:FEC|CRC|recover|replay|error)\w* (?:count|errors?|blocks)\D{0,4}[1-9])",
        r"NVLink: fatal error detected",
        r"nvlink.{0,40}(?:fatal|link down|went down|is down|inactive link)",
        r"Invalid access of peer GPU memory over nvlink",
        r"uncorrectable NVLink error|\bNVL(?:ink)? link \d+ is in DISABLED state",
        r"Cuda failure 220\b",
        r"cudaErrorNvlinkUncorrectable|CUDA_ERROR_NVLINK_UNCORRECTABLE",
        r"CUDA_ERROR_CONTAINED|cudaErrorContained|Invalid access of peer GPU memory over nvlink",
        r"DCGM_FR_NVLINK\w*(?:DOWN|ERROR|CRC|REPLAY|FATAL)",
        r"\bNvLink link \d+ is currently down",
        r"NVLink errors.{0,40}(?:exceed|detected)",
        r"all links are in[aA]ctive",
        r"[Uu]nable to retrieve NVLink information",
    ),
    unless=(
        "undefined reference",
        "nvlink fatal",
        "multiple definition",
    ),
    light=_few,
    explains=("roce-loss",),
    confirm="nvidia-smi nvlink -s; nvidia-smi nvlink -e; `dmesg | grep -i xid`",
    cure=(
        "drain the node and reset its GPUs and NVSwitches (nvidia-smi -r, or restart the fabric "
        "manager); replace GPU, bridge or board where it returns"
    ),
    source="NVIDIA's catalogue of Xid errors (docs.nvidia.com/deploy/xid-errors)",
)
