"""UCX has no CUDA support, so that it takes GPU memory for memory of the host."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """What shows it: how it was built, the transports that it lacks, memory that it takes for the host's."""
    said = {name for each in groups for name in each}
    built = " (it was built --without-cuda)" if "built" in said else ""
    path = next((each["path"] for each in groups if "path" in each), "")
    which = f" that is loaded from {path}" if path else ""
    return f"the UCX{which} has no CUDA support{built}, and takes memory of GPUs for memory of the host"


SIGNATURE = Signature(
    name="ucx-without-cuda",
    stage=Stage.SETTING,
    title="UCX has no CUDA support, and takes memory of GPUs for memory of the host",
    patterns=(
        r"UCX +WARN +transports? '(?P<lacks>[^\n]{0,120}\bcuda\w{0,8})'[^\n]{0,120}(?:is|are) not available",
        r"(?P<host>memory is detected as host, check that UCX is configured with CUDA)",
        r"^# Configured with: .{0,600}(?P<built>--without-cuda)\b",
        r"UCX +INFO +Version \S{1,20} \(loaded from (?P<path>/[\w./+-]{4,160})\)",
    ),
    holds=lambda groups: any(not each.keys().isdisjoint({"lacks", "host", "built"}) for each in groups),
    explains=("kv-transfer", "crash-in-library", "process-crashed", "registration-failed"),
    confirm="ucx_info -v (Configured with), ucx_info -d | grep cuda; which libucp.so the process maps (/proc/PID/maps)",
    cure=(
        "let the process load a UCX with CUDA (ucx_info -d then lists cuda_copy and cuda_ipc): take the other one out "
        "of LD_LIBRARY_PATH. The wheels of NIXL and ucx-py (libucx-cu12) and HPC-X bring one; or build it --with-cuda. "
        "Its libuct_cuda.so must lie beside it (UCX_MODULE_DIR). NICs, memlock and nvidia_peermem are not what is "
        "missing"
    ),
    versions="UCX 1.8 and later",
    source="UCX src/ucp/core/ucp_context.c; NIXL src/utils/ucx/ucx_utils.cpp",
    tell=tell,
)
