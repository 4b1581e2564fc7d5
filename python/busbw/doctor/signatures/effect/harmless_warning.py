"""Warnings that say nothing is wrong."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage
from busbw.doctor.xids import HARMLESS, HARMLESS_SXIDS, patterns

SIGNATURE = Signature(
    name="harmless-warning",
    stage=Stage.EFFECT,
    title="a warning that costs nothing",
    patterns=(
        *patterns(HARMLESS),
        rf"SXid.{{0,60}}?\): (?:{HARMLESS_SXIDS})\b",
        r"RCCL version *:",
        r"MSCCL\+\+: Cannot enable MSCCL",
        r"lacks GPU P2P capability",
        r"Missing .HSA_FORCE_FINE_GRAIN_PCIE",
        r"Cannot get incoming CPU",
        r"Maximum retry reached for (?:accept|connect)",
        r"cuMem host allocations do not appear to be working",
        r"nvmlDeviceSetCpuAffinity\(\) failed",
        r"Got non-fatal async event",
        r"TORCH_NCCL_AVOID_RECORD_STREAMS",
        r"RAS(?:: | thread| received unknown| client| failed to (?:establish|find)| invalid| overflow)",
        r"Invalid client status \d+",
        r"Profiler init failed",
        r"shm (?:unlink|close) failed|munmap of shared memory|unlink shared memory|UnmapViewOfFile"
        r"|CloseHandle for shared memory",
        r"PARAM: Duplicate",
        r"No NVML device handle\. Skipping nvlink detection",
        r"fatal error - RAS thread terminating",
        # Slurm reads the hardware anew, or takes /tmp, and the task goes on.
        r"xcpuinfo_hwloc_topo_load: failed \(load will be required|error: TMPDIR \[[^\]]{1,200}\] is not writeable"
        r"|error: Setting TMPDIR to /",
        r"tuner plugin can ?not be loaded.{0,120}Defaulting to internal tuner",
    ),
    confirm="nothing",
    cure="nothing needs to be done",
    cost="none",
    severity=Severity.NOTE,
    source="NCCL and its plugins, Slurm",
)
