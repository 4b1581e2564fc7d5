"""Faults of an NVSwitch."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="nvswitch-error",
    stage=Stage.HARDWARE,
    title="an NVSwitch reports a fault (SXid {sxid})",
    patterns=(
        r"SXid.{0,60}?\): (?P<sxid>\d{4,6})",
        r"NVSwitch.{0,60}(?:fatal|non-recoverable)",
    ),
    confirm="`dmesg | grep -i sxid`; nvidia-smi nvlink -s; systemctl status nvidia-fabricmanager",
    cure=(
        "drain the node and reset GPUs and NVSwitches together (reboot); a fatal SXid that returns "
        "means a faulty board: have it replaced"
    ),
    source="the Fabric Manager user guide, chapter on SXid errors",
)
