"""Memory errors of a GPU that ECC could not correct."""

from busbw.doctor.signature import Signature, Stage
from busbw.doctor.xids import patterns

SIGNATURE = Signature(
    name="gpu-memory-error",
    stage=Stage.HARDWARE,
    title="a GPU's memory has errors that ECC could not correct (ECC, Xid {xid})",
    patterns=(
        r"Pending {2,}: Yes",
        r"Pending Page Blacklist {2,}: Yes",
        r"PENDING_ROW_REMAP|row remap\w* (?:is |are )?pending|pending (?:retired pages?|row remap\w*|page retirement)",
        r"diag\w*.{0,40}\bMemory (?:bandwidth )?.{0,30}\bFail\b",
        r"Contained memory error",
        *patterns("48|63|64|92|94|95|140|171|172"),
        r"uncorrectable ECC error",
        r"Cuda failure (?:214|'uncorrectable)",
        r"CUDA_ERROR_ECC_UNCORRECTABLE",
        r"Row Remapper.{0,60}(?:fail|pending)",
        # A row of `nvidia-smi --query-... --format=csv`, spelled out (busbw.doctor.reading.pasted).
        r"\b(?:remapped_rows|retired_pages)\.(?:pending|failure)\w*: (?:Yes|[1-9])",
        r"\becc\.errors\.uncorrected\.volatile\.\w+: [1-9]",
        r"(?:double|multi)[- ]bit ECC error",
        r"Remapping Failure Occurred *: Yes",
        r"SRAM Uncorrectable.{0,20}: *[1-9]",
        r"cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE",
        r"DCGM_FR_(?:VOLATILE_DBE|ROW_REMAP\w*|PENDING_\w+|RETIRED_PAGES\w*|UNCONTAINED\w*|ECC_\w+"
        r"|DBE_\w+|MAX_DBE\w*)",
    ),
    explains=("health-check", "wrong-results"),
    confirm="nvidia-smi -q -d ECC,ROW_REMAPPER on that host",
    cure=(
        "drain the node, reset the GPU (nvidia-smi -r) so that pending row remappings take effect; "
        "replace the GPU where remapping failed or errors return"
    ),
    source="NVIDIA's catalogue of Xid errors (docs.nvidia.com/deploy/xid-errors)",
)
