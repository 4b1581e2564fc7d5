"""A limit on virtual memory keeps CUDA from reserving its addresses, so that an empty GPU looks full."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_ENOUGH = 2**40
"""Bytes: CUDA reserves at least the memory of all GPUs and of the host, which is less on most machines."""


def _bytes(each: Mapping[str, str]) -> int:
    return int(each["kib"]) * 1024 if "kib" in each else int(each.get("limit", "0"))


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether such a limit is told, and memory ran out where no allocator tells how much of a GPU is in use."""
    limits = [size for each in groups if (size := _bytes(each)) > 0]
    names = {name for each in groups for name in each}
    low = bool(limits) and min(limits) < _ENOUGH
    return (low or "asked" in names) and "full" in names and "used" not in names


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """How low the limit is."""
    low = min((size for each in groups if (size := _bytes(each)) > 0), default=0)
    if not low:
        asked = next(each["asked"] for each in groups if "asked" in each)
        return f"the job's limit on virtual memory ({asked}) is too low: CUDA reserves far more than it uses"
    return f"the limit on virtual memory (ulimit -v, {low / 2**30:.0f} GiB) is too low: CUDA reserves far more of it"


SIGNATURE = Signature(
    name="address-space",
    stage=Stage.SYSTEM,
    title="the limit on virtual memory (ulimit -v) is too low for CUDA, which reserves far more addresses",
    patterns=(
        # ulimit -a of bash; a script's own call; /proc/PID/limits; prlimit.
        r"\bvirtual memory\s{1,20}\(k?bytes, -v\) (?P<kib>\d{5,15})\s*$",
        r"\bulimit -S?v (?P<kib>\d{5,15})\b",
        r"\bMax address space\s{1,20}(?P<limit>\d{8,18})\s",
        r"^\s*AS\s{1,8}address space limit\s{1,20}(?P<limit>\d{8,18})\s",
        r"\bRLIMIT_AS\b\D{1,12}(?P<limit>\d{8,18})\b",
        r"\b(?P<asked>h_vmem|s_vmem|pvmem)(?:=|\b.{0,20}\blimit exceeded)",
        r"(?P<full>Cuda failure (?:2 )?'out of memory'|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY"
        r"|cudaErrorMemoryAllocation|cudaGetDeviceCount.{0,160}"
        r"Error 2: out of memory)",
        r"Tried to allocate .{1,40}(?P<used>total capacity)",
    ),
    explains=("gpu-memory-full", "host-memory", "nccl-error", "cuda-call-failed", "gpu-not-visible"),
    confirm="ulimit -v in the job's own shell; cat /proc/PID/limits; nvidia-smi shows GPUs with free memory",
    cure=(
        "ulimit -v unlimited in the job's script and login shell (as in /etc/security/limits.conf). Where a scheduler "
        "sets it: no h_vmem or pvmem for jobs on GPUs (SGE, PBS), VSizeFactor=0 in slurm.conf. Limit memory by cgroups"
    ),
    source="getrlimit(2): RLIMIT_AS; CUDA: unified virtual addressing",
    tell=tell,
    holds=_holds,
)
