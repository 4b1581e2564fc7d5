"""Ray reports an error that no other signature knows."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ray-error",
    stage=Stage.FAILURE,
    title="Ray reports: {what}",
    patterns=(
        r"(?P<what>This node has an IP address of .{0,300}none of these match this node's IP)",
        r"ray\.exceptions\.(?P<what>\w+.{0,140})",
        r"\(raylet\).{0,60}(?P<what>(?:ERROR|error|fail\w*)\b.{0,120})",
    ),
    unless=(
        "warning",
        "over 95% full",
    ),
    confirm="ray status; ray logs; /tmp/ray/session_latest/logs of the node that is named",
    cure=(
        "look at the log of the worker that died first; ask for no more GPUs and memory than nodes have; the "
        "same Ray and Python on all nodes"
    ),
    source="Ray's own words",
    last=True,
)
