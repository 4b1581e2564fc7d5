"""The NIC reports an asynchronous event."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ib-async",
    stage=Stage.NETWORK,
    title="the NIC reports an error event: {event}",
    patterns=(
        r"mlx5_cmd_out_err",
        r"mlx5_core.{0,160}(?:bad resource|syndrome)",
        r"Got async error event",
        r"Device \d+ marked as failed",
        r"mlx5_core.{0,80}timeout",
        r"async (?:fatal )?event(?: on (?:QP|CQ|SRQ))?.{0,120}?: ?(?P<event>[A-Za-z][\w -]{2,60})$",
        r"async (?:fatal )?event ?: ?(?P<event>[\w -]{3,60})",
        r"async fatal event",
        r"device fatal",
        r"local catastrophic error",
        r"mlx5_core.{0,80}(?:health|fatal|poll_health|assert_exit|internal error|command.{0,20}timed? ?out)",
    ),
    unless=(
        "non-fatal",
        "gid table",
        "insufficient power",
    ),
    confirm="`dmesg | grep mlx5`; perfquery; mlxlink -d DEVICE",
    cure=(
        "update the NIC's firmware and driver; replace cable or NIC where it returns; a QP error is "
        "often the peer's end"
    ),
    source="NCCL src/transport/net_ib.cc (async events)",
)
