"""One rank waits in ncclCommSplit for ranks that never call it."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether a stack stands in the split, and other ranks waited until their time was over."""
    said = {name for each in groups for name in each}
    return {"split", "others"} <= said


SIGNATURE = Signature(
    name="split-not-joined",
    stage=Stage.PROGRAM,
    title=(
        "a rank waits in ncclCommSplit, which every rank of the parent communicator must call, while others wait "
        "elsewhere: with device_id PyTorch makes a new group by splitting the default one"
    ),
    patterns=(
        # Frames of py-spy and gdb.
        r"^\s{0,12}(?:#\d{1,3} .{0,60}?)?\b(?P<split>ncclCommSplit|commGetSplitInfo|c10d::NCCLComm::split)\b.{0,200}"
        r"(?:\(\S{0,120}\.so[\w.]{0,20}\)| from /\S{1,200}\.so| at \S{1,200}\.(?:cc|cpp):\d)",
        r"(?P<others>Watchdog caught collective) operation timeout",
        r"(?P<others>Not all ranks joining) collective",
    ),
    holds=_holds,
    explains=("collective-mismatch", "watchdog-timeout", "heartbeat-lost", "collective-order"),
    confirm="py-spy dump --native of the rank that lags: ncclCommSplit stands in its stack",
    cure=(
        "make a group of some ranks without a split: do not pass device_id to init_process_group, or clear "
        "bound_device_id (split_from) for that group, so that it is made by ncclCommInitRank. Else let every rank of "
        "the default group call new_group, those outside of it too"
    ),
    versions="PyTorch 2.3 and later with device_id",
    source="torch/csrc/distributed/c10d/NCCLUtils.cpp (NCCLComm::split); NCCL src/init.cc (commGetSplitInfo)",
)
