"""Faults of an NVSwitch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage
from busbw.doctor.xids import HARMLESS_SXIDS, told_of_switch


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """What the numbers mean, at most three of them."""
    numbers = list(dict.fromkeys(each["sxid"] for each in groups if "sxid" in each))
    said = ", ".join(map(told_of_switch, numbers[:3])) + (" ..." if len(numbers) > 3 else "")
    return f"an NVSwitch reports {said or 'a fault'}"


SIGNATURE = Signature(
    name="nvswitch-error",
    stage=Stage.HARDWARE,
    title="an NVSwitch reports a fault (SXid {sxid})",
    patterns=(
        rf"SXid.{{0,60}}?\): (?!(?:{HARMLESS_SXIDS})\b)(?P<sxid>\d{{4,6}})",
        r"NVSwitch.{0,60}(?:(?<!non-)fatal|non-recoverable)",
    ),
    confirm="`dmesg | grep -i sxid`; nvidia-smi nvlink -s; systemctl status nvidia-fabricmanager",
    cure=(
        "drain the node and reset GPUs and NVSwitches together (reboot); a fatal SXid that returns "
        "means a faulty board: have it replaced"
    ),
    source="the Fabric Manager user guide, chapter on SXid errors",
    tell=tell,
)
