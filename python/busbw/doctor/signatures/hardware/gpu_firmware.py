"""The GPU's system processor (GSP) or a micro-controller does not answer."""

from busbw.doctor.signature import Signature, Stage
from busbw.doctor.xids import patterns

SIGNATURE = Signature(
    name="gpu-firmware",
    stage=Stage.HARDWARE,
    title="the GPU's firmware processor no longer answers (Xid {xid})",
    patterns=(
        *patterns("61|62|119|120|123|136"),
        r"Timeout (?:after \d+s? of )?waiting for RPC (?:response )?from GSP",
        r"GSP RPC timeout",
        r"_kgspRpcRecvPoll",
        r"_kgsp\w+:",
        r"Cannot initialize GSP firmware",
        r"WPR2 already up",
        r"GSP.{0,20}(?:firmware|RM).{0,40}(?:fail|error|crash|timeout|unresponsive|not respond)",
    ),
    confirm="`dmesg | grep -i -e xid -e gsp`; nvidia-smi -q hangs or shows ERR!",
    cure=(
        "drain and reboot the node, update the driver; on drivers of 525 to 550 switching GSP off "
        "(NVreg_EnableGpuFirmware=0) helped others; replace the GPU where it returns"
    ),
    source="NVIDIA's catalogue of Xid errors (docs.nvidia.com/deploy/xid-errors)",
)
