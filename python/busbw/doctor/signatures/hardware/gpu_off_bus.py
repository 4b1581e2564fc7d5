"""A GPU that the driver can no longer reach over PCIe."""

from busbw.doctor.signature import Signature, Stage
from busbw.doctor.xids import patterns

SIGNATURE = Signature(
    name="gpu-off-bus",
    stage=Stage.HARDWARE,
    title="a GPU fell off the PCIe bus: the driver no longer reaches it",
    patterns=(
        r"ERR(?:OR)?_(?:GPU_IS_LOST|RESET_REQUIRED)\b",
        r"Reset Required {2,}: Yes",
        r"(?:drain|GPU) (?:and )?reset (?:is )?required",
        r"GPU Recovery Action *: *(?!None|N/A)\w+",
        r"GPU requires reset|\bGPU \S{1,40}: Requires a (?:node )?re(?:set|boot) to recover",
        r"\bERR!",
        r"(?:NVIDIA|3D controller).{0,160}\(rev ff\)|Unknown header type 7f",
        *patterns("79"),
        r"\bGPU\b.{0,40} (?:has )?(?:fallen|fell|dropped) off the bus",
        r"GPU has fallen off the bus|change power state from D3cold to D0",
        r"GPU is lost",
        r"Unable to determine the device handle for (?:GPU|gpu)",
        r"DCGM_FR_(?:FALLEN_OFF_BUS|GPU_LOST|DEVICE_LOST)",
    ),
    # What mends a GPU is told of any error.
    unless=("recovery action changed",),
    explains=("pcie-errors", "illegal-access"),
    confirm=(
        "nvidia-smi -L and `dmesg | grep -i -e xid -e pcieport`: is the GPU still listed, are there "
        "PCIe errors before it"
    ),
    cure=(
        "take the node out of service, reset or power-cycle it; where it returns, check power, "
        "seating, riser and temperature and replace the GPU"
    ),
    source="NVIDIA's catalogue of Xid errors (docs.nvidia.com/deploy/xid-errors)",
)
