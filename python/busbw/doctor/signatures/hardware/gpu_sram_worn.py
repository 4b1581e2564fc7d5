"""A GPU whose SRAM has failed more often than it may."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gpu-sram-worn",
    stage=Stage.HARDWARE,
    title=(
        "a GPU has met more uncorrectable errors in its SRAM than it may: neither a reset nor remapped rows mend that"
    ),
    patterns=(
        r"SRAM Threshold Exceeded *: *Yes",
        r"\becc\.errors\.uncorrected\.aggregate\.sram_threshold\w*: (?:Yes|1)",
        r"DCGM_FR_SRAM_THRESHOLD\w*|SRAM threshold (?:was |has been |is )exceeded",
    ),
    explains=("gpu-memory-error", "health-check"),
    confirm="nvidia-smi -q -d ECC on that host: SRAM Threshold Exceeded, and which part under SRAM Sources",
    cure="take the node out and have that GPU replaced: the maker takes this state as the reason; restart without it",
    source="NVIDIA's guide to GPU memory errors (nvidia-smi -q -d ECC)",
)
