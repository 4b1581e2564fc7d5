"""Gloo reports an error that no other signature knows."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gloo-error",
    stage=Stage.FAILURE,
    title="Gloo (PyTorch's transport for processors) failed: {what}",
    patterns=(
        r"gloo/[\w/]+\.\w{1,2}:\d+\] (?P<what>.{4,140})",
        r"gloo::\w+(?:Exception|Error).{0,20}(?P<what>.{0,120})",
    ),
    confirm="GLOO_SOCKET_IFNAME on all hosts; ip -br addr; TORCH_DISTRIBUTED_DEBUG=DETAIL",
    cure=(
        "set GLOO_SOCKET_IFNAME to an interface that all hosts reach; see whether a rank ended first; sizes "
        "and types must agree on all ranks"
    ),
    source="gloo/transport/tcp",
    last=True,
)
