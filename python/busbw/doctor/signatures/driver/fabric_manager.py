"""NVSwitch machines need their fabric manager."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="fabric-manager",
    stage=Stage.DRIVER,
    title=(
        "the NVLink fabric is not initialised: the fabric manager does not run or is of another version than the driver"
    ),
    patterns=(
        r"fabric ?manager (?:does not|doesn't|don't) have access",
        r"\s{2,}State *: (?:Not Started|In Progress)\b",
        r"\bfabric\.state: (?:Not Started|In Progress)\b",
        r"\bfabric\.status: (?:Insufficient Resources|Invalid State|Timeout|Unknown Error)",
        r"fabric manager config file item: \w+ has an invalid value",
        r"nv-fabricmanager.{0,80}failed! Exit code",
        r"(?:NVLSM|nvlsm)\b.{0,100}(?:fail|fatal|could not|unable)",
        r"\u00d7.{0,4}nvidia-fabricmanager",
        r"nv-fabricmanager.{0,160}code=(?:killed|dumped|exited, status=[1-9])",
        r"NV_WARN_NOTHING_TO_DO",
        r"(?:fail\w*|unable|could not|error)\b.{0,60}\b(?:register\w*|join\w*)\b.{0,20}\bfabric\b",
        r"multicast team request|find the GPU handle",
        r"NVSwitch device information from NVSwitch driver failed",
        r"interface version.{0,60}don't match with driver",
        r"^\s{4,}Status *: *(?:Insufficient Resources|Invalid State|Timeout|Unknown Error)",
        r"nv-fabricmanager.{0,120}(?:fail|error|abort)",
        r"system not yet initialized",
        r"Cuda failure 802\b",
        r"CUDA_ERROR_SYSTEM_NOT_READY",
        r"fabric.?manager(?!.{0,60}\bsame version).{0,60}"
        r"(?:not running|failed|inactive|dead|error|version(?! (?:is|:|\d)))",
        r"nvidia-fabricmanager\.service.{0,40}(?:fail|dead|could not)",
        r"Fabric.{0,4}State *: *(?:In Progress|Not Started)",
        r"Error 802",
        r"cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY",
    ),
    explains=("nvls-multicast", "gpu-not-visible", "rendezvous-timeout"),
    confirm="systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A4 Fabric",
    cure=(
        "install nvidia-fabricmanager of exactly the driver's version and start it (systemctl "
        "enable --now nvidia-fabricmanager); in a VM the provider's host runs it"
    ),
    source="CUDA error 802; NVIDIA's Fabric Manager guide",
)
