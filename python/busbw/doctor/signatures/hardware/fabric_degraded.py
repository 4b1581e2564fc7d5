"""An NVLink domain that is not whole."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="fabric-degraded",
    stage=Stage.HARDWARE,
    title="the NVLink domain (fabric) of a GPU is degraded: healthMask {mask}",
    patterns=(
        # Two bits each, from the lowest on; above them a number of four bits, of which 1 says that nothing is wrong.
        r"healthMask (?P<mask>0x[0-9a-f]{0,8}(?:[145679d]|[13-79bdf][0-9a-f]|[2-9a-f][0-9a-f]{2}))\b",
        r"Fabric.{0,60}Degraded Bandwidth *: *True",
        r"Route (?:Unhealthy|Recovery in progress) *: *True",
        r"\bHealth\b[^\"\n]{0,40}: Unhealthy",
    ),
    confirm="nvidia-smi -q | grep -A12 Fabric; the NVLink management software's (NMX) events",
    cure="drain the host; the domain's operator reseats or replaces the tray, cable or switch",
    source="nvml.h: NVML_GPU_FABRIC_HEALTH_MASK (two bits each, 1 is true; then the configuration, 1 is right)",
)
