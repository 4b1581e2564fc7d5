"""CollNet (SHARP) is asked for, and NCCL has no plugin that offers it."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether it was asked for and no plugin is there."""
    said = {name for each in groups for name in each}
    return {"wanted", "absent"} <= said and "there" not in said


SIGNATURE = Signature(
    name="collnet-no-plugin",
    stage=Stage.SETTING,
    severity=Severity.WARNING,
    title="NCCL_COLLNET_ENABLE=1 asks for SHARP (CollNet), and no plugin that offers it is found: NCCL does without",
    patterns=(
        r"NCCL_COLLNET_ENABLE set (?:by environment )?to (?P<wanted>1)",
        r"NCCL INFO NET/Plugin ?: (?P<absent>No plugin found|Could not find: libnccl-net|"
        r"Plugin load \(?libnccl-net\S{0,20} returned 2|dlerror=libnccl-net\.so: cannot open)",
        r"NCCL INFO NET/Plugin.{0,80}(?P<there>SHARP|\bcollnet plugin|\bcoll plugin)",
    ),
    between_nodes=True,
    confirm="find / -name 'libnccl-net*'; the log must say that a CollNet plugin (SHARP) was loaded",
    cure=(
        "put HPC-X's nccl_rdma_sharp_plugin (and its sharp and ucx folders) into LD_LIBRARY_PATH on every node, or "
        "unset NCCL_COLLNET_ENABLE"
    ),
    cost="between nodes no reduction in the switches: up to half of the bandwidth of all-reduce",
    source="NCCL src/plugin/net.cc; nccl-rdma-sharp-plugins",
    holds=_holds,
)
