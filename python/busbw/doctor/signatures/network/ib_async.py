"""The NIC reports an asynchronous event."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """The first event that has a name, if any."""
    events = [each["event"].strip() for each in groups if each.get("event")]
    return "the NIC reports an error" + (f" event: {events[0]}" if events else " (its firmware, driver or a queue)")


SIGNATURE = Signature(
    name="ib-async",
    stage=Stage.NETWORK,
    title="the NIC reports an error event",
    patterns=(
        r"\birdma\b.{0,40}(?:AEQ event|error event)",
        r"bnxt_re\S* .{0,60}(?:Fail|fail|error)",
        r"irdma .{0,60}(?:overflow|error|fail)",
        r"infiniband mlx\S+ create_qp:.{0,40}failed",
        r"abnormal ae_id|Fatal error \(\d+\) on MAD QP",
        r"assert_var\[\d\]",
        r"mlx5_cmd_out_err",
        r"mlx5_core.{0,160}(?:bad resource|syndrome)",
        r"Got async error event",
        r"Device \d+ marked as failed",
        r"mlx5_core.{0,80}timeout",
        r"async (?:fatal )?event(?: on (?:QP|CQ|SRQ))?.{0,120}?: ?(?P<event>[A-Za-z][\w -]{2,60})$",
        r"async (?:fatal )?event ?: ?(?P<event>[\w -]{3,60})",
        r"async fatal event",
        r"device fatal|RDMA_CM_EVENT_DEVICE_REMOVAL",
        r"local catastrophic error",
        r"mlx5_core.{0,80}(?:health|fatal|poll_health|assert_exit|internal error|command.{0,20}timed? ?out)",
        r"mlx5_core.{0,60}(?:load_one|handle_hca_cap|init_one|probe)\b.{0,60}(?:fail|error)",
        r"mlx5_core: probe of \S+ failed",
        r"mlx5_poll_one.{0,60}error cqe",
    ),
    unless=(
        "non-fatal",
        "gid table",
        "insufficient power",
        "create_mkey(0x200) op_mod",
    ),
    later=("registration-failed", "connection-timeout"),
    confirm="`dmesg | grep mlx5`; perfquery; mlxlink -d DEVICE",
    cure=(
        "update the NIC's firmware and driver; replace cable or NIC where it returns; a QP error is "
        "often the peer's end"
    ),
    source="NCCL src/transport/net_ib.cc (async events)",
    tell=tell,
)
