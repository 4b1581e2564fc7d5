"""An InfiniBand partition key that the port does not have."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def bears_out(groups: Sequence[Mapping[str, str]]) -> bool:
    """The step that uses the key was refused, or a key was chosen and some step was refused."""
    said = {name for each in groups for name in each}
    return "step" in said or {"index", "refused"} <= said


SIGNATURE = Signature(
    name="ib-pkey",
    stage=Stage.SETTING,
    title="a wrong partition key (P_Key): the port has none at the index that is asked for",
    patterns=(
        # The first step of a queue pair takes port and P_Key index alone: no GID can be wrong there.
        r"ibv_modify_qp failed with.{0,20}(?:22\b|Invalid argument).{0,120}(?P<step>next state INIT)",
        r"NCCL_IB_PKEY set by environment to (?P<index>0*[1-9]\d{0,5}|0x[0-9a-f]{1,4})",
        r"(?P<refused>ibv_modify_qp failed with).{0,20}(?:22\b|Invalid argument)(?!.{0,120}next state RT)",
        r"(?P<step>bad|invalid|wrong|illegal) p_?key(?:[ _]index)?\b(?!.{0,20}counter)",
        r"\bp_?key\w{0,10}\b.{0,60}(?P<step>not (?:found|in)|mismatch|invalid|out of range|does not exist)",
        r"(?P<step>hosts are in different partitions of InfiniBand)",
        r"P_Keys say that hosts are (?P<step>limited members of one partition)",
        r"(?P<step>fail\w*|unable|cannot|could not) .{0,30}(?:find|query|get|read) .{0,20}\bp_?key\b",
    ),
    unless=("ucx", "uct_", "opensm", "osm_", "nvshmem"),
    holds=bears_out,
    explains=("ib-invalid-gid", "ibv-call-failed", "invalid-argument", "ib-retry", "ib-completion-error"),
    confirm="grep -v 0x0000 /sys/class/infiniband/*/ports/1/pkeys/* on both hosts; env | grep -i pkey",
    cure=(
        "unset NCCL_IB_PKEY, which is an index into the port's table of P_Keys and no key. Or set it to the index at "
        "which /sys/class/infiniband/*/ports/1/pkeys/ holds the tenant's key, on all hosts. Where the table lacks that "
        "key, let the subnet manager add the port to the partition (full membership)"
    ),
    source="NCCL src/transport/net_ib.cc (ncclIbCreateQp: RESET to INIT), NCCL_IB_PKEY",
)
