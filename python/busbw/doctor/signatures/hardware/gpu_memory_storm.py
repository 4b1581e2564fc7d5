"""A GPU whose memory is corrected all the time."""

from busbw.doctor.signature import Signature, Stage

_MANY = r"(?:[1-9]\d{6,18}|[1-9]\d{0,2}(?:,\d{3}){2,6})\b(?!\.)"
"""A million and more: GPUs that are well have none in most lives, and a handful in some."""

SIGNATURE = Signature(
    name="gpu-memory-storm",
    stage=Stage.HARDWARE,
    title=(
        "a GPU's memory has errors without end, each corrected: it is slow by that, all ranks wait for it, and its "
        "memory is failing"
    ),
    patterns=(
        rf"^\s{{0,40}}(?:DRAM|Device Memory|HBM) Correctable(?: Errors?)?\s{{0,30}}: {_MANY}",
        rf"\becc\.errors\.corrected\.(?:volatile|aggregate)\.(?:dram|device_memory|total): {_MANY}",
        rf"\bDCGM_FI_DEV_ECC_SBE_(?:VOL|AGG)_(?:TOTAL|DEV)\b.{{0,400}}[ }}:]\s{{0,4}}{_MANY}\W{{0,4}}$",
        rf"\b(?:ecc_)?sbe_(?:vol|agg)\w{{0,12}}\W{{1,4}}{_MANY}",
        rf"\b(?:umc|hbm)\b.{{0,40}}\b(?:correctable|CE)\w{{0,12}}\W{{1,6}}(?:count\W{{1,4}})?{_MANY}",
    ),
    explains=("health-check", "straggler"),
    confirm="nvidia-smi -q -d ECC twice, a minute apart: the counter of corrected errors grows; others' stays at 0",
    cure=(
        "take the node out of the job (drain, cordon) and have that GPU replaced. A reset or reboot only sets the "
        "counter back. Power, clocks, network and health monitors need no change: monitors that ask this GPU hang by it"
    ),
    cost="every step takes as long as on that GPU",
    source="NVIDIA's guide to GPU memory errors (nvidia-smi -q -d ECC); public reports of HBM with such counters",
)
