"""An NVLink domain that is not whole."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="fabric-degraded",
    stage=Stage.HARDWARE,
    title="the NVLink domain (fabric) of a GPU is degraded: healthMask {mask}",
    patterns=(
        r"healthMask (?P<mask>0x[0-9a-f]*[145679d][0-9a-f]*)\b",
        r"Fabric.{0,60}Degraded Bandwidth *: *True",
        r"Route (?:Unhealthy|Recovery in progress) *: *True",
        r"\bHealth\b[^\"\n]{0,40}: Unhealthy",
    ),
    confirm="nvidia-smi -q | grep -A12 Fabric; the NVLink management software's (NMX) events",
    cure="drain the host; the domain's operator reseats or replaces the tray, cable or switch",
    source="nvml.h: NVML_GPU_FABRIC_HEALTH_MASK (two bits each, 1 is true)",
)
