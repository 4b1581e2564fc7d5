"""A link of the fabric came up narrower or slower than both its ends can."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="link-below",
    stage=Stage.NETWORK,
    title="a link of the fabric came up narrower or slower than its ends can: cable, transceiver or port",
    patterns=(
        r"^-[WE]- .{0,200}\bunexpected (?:actual )?(?:link )?width\b",
        r"^-[WE]- .{0,200}\bunexpected actual link (?:speed|width)\b",
    ),
    explains=("roce-loss",),
    between_nodes=True,
    severity=Severity.WARNING,
    cost="a ring over that link is as slow as it",
    confirm="iblinkinfo: rows with `Could be`; mlxlink -d DEVICE of both ends: width, speed and errors",
    cure=(
        "clean and reseat that cable, then replace it or the transceivers; ibportstate LID PORT reset, and look again. "
        "Leave that port out until then (NCCL_IB_HCA=^NAME)"
    ),
    source="ibdiagnet (ibutils2)",
)
