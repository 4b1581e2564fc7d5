"""A virtual GPU without a licence, which runs slowly."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="vgpu-licence",
    stage=Stage.DRIVER,
    title="the virtual GPU has no licence, so that its driver restricts speed, memory or CUDA",
    patterns=(
        r"Valid (?:GRID|vGPU|NVIDIA).{0,30}licen[sc]e not found",
        r"nvidia-gridd.{0,80}(?:Failed to acquire|Error acquiring|Unable to (?:fetch|acquire)).{0,40}licen[sc]e",
        r"(?:licen[sc]e|licensing)\b.{0,80}\b(?:features?|performance) (?:is|are|will be) restricted",
        r"License Status *: Unlicensed \((?:Un)?restricted\)",
    ),
    explains=("credentials",),
    confirm="nvidia-smi -q | grep -i -A3 licens; systemctl status nvidia-gridd; can the host reach the licence server",
    cure=(
        "give /etc/nvidia/ClientConfigToken a valid token and FeatureType the right type. Let the host reach the "
        "licence server (DLS or CLS), and restart nvidia-gridd. Whole GPUs that are passed through need no licence"
    ),
    cost="after 20 minutes or more a vGPU is slowed to a fraction, and CUDA may be refused",
    severity=Severity.WARNING,
    source="NVIDIA vGPU documentation: unlicensed vGPU",
)
