"""A NIC or its transceiver is too hot."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="nic-hot",
    stage=Stage.HARDWARE,
    title="a NIC or the transceiver in its port is too hot",
    patterns=(
        r"mlx5_core.{0,80}High temperature",
        r"Port module event\[error\].{0,80}High Temp",
        r"\b(?:module|transceiver|optic\w*|NIC)\b.{0,40}"
        r"(?:over-?temperature|temperature .{0,30}(?:high alarm|critical))",
    ),
    unless=("gpu ", "gpu:", "gpus"),
    explains=("ib-port-down", "roce-loss", "nic-hang"),
    confirm="mlxlink -d DEVICE -m (temperature of the module); mget_temp -d DEVICE; ethtool -m IF",
    cure="mend the airflow: fans, blanking panels, the card's slot; replace the transceiver that stays hot",
    cost="the port slows down, loses packets or switches off",
    source="the Linux kernel: drivers/net/ethernet/mellanox/mlx5/core/events.c",
)
