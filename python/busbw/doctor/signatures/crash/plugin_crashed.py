"""A process crashed in code of a plugin of NCCL, as the frames of its stack tell."""

from busbw.doctor.signature import Signature, Stage

_PLUGIN = (
    r"(?P<what>ncclProfiler\w*|inspector\w*|nccl_(?:net_)?ofi\w*|ncclTuner\w*|libnccl-(?:net|tuner|profiler)[\w.-]*)"
)

SIGNATURE = Signature(
    name="plugin-crashed",
    stage=Stage.CRASH,
    title="a process crashed in a plugin of NCCL ({what})",
    patterns=(
        rf"^.{{0,80}}\b\d{{1,3}} +0x[0-9a-f]{{8,16}} {_PLUGIN}\(",
        rf"\[ ?\d{{1,3}}\] \S{{0,120}}?{_PLUGIN}\S{{0,40}}\+0x[0-9a-f]+\)",
        rf"#\d{{1,3}} +0x[0-9a-f]+ in .{{0,120}}?{_PLUGIN}",
    ),
    explains=("process-crashed",),
    confirm="run once without it: NCCL_PROFILER_PLUGIN=none NCCL_TUNER_PLUGIN=none NCCL_NET_PLUGIN=none",
    cure=(
        "unset NCCL_PROFILER_PLUGIN, NCCL_TUNER_PLUGIN or NCCL_NET_PLUGIN, whichever names it, or build the plugin "
        "against the headers of the NCCL that runs"
    ),
    source="stacks of UCX, Open MPI and gdb",
)
