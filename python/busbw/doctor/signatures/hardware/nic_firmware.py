"""The firmware of a NIC failed."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="nic-firmware",
    stage=Stage.HARDWARE,
    title="the firmware of a NIC failed or no longer answers: its port is gone, and peers get no answer",
    patterns=(
        r"\bmlx[45]_core\b.{0,80}(?:handling bad device|unrecoverable hardware error|firmware internal error"
        r"|[Ff]atal error \d+ detected|device's health compromised)",
        r"\bmlx5_core\b.{0,80}\(0x[\da-f]{1,6}\) timeout\. Will cause a leak",
        r"\bin livefish mode\b|\blivefish mode \(",
        r"\bbnxt_(?:en|re)\w{0,4}\b.{0,60}(?:FW STALL|Error \(timeout: \d{1,9}\) msg|timedout \(\d{1,8}\) ?msec)",
        r"\bmlx4_core\b.{0,60}Internal error detected",
        r"\bice\b.{0,60}(?:firmware|FW).{0,30}(?:hang|fatal|assert)",
        r"\b(?:cxi_core|cxi_ss1)\b.{0,80}(?:firmware|uC).{0,30}(?:fail|hang|not respond|reset)",
    ),
    explains=("ib-async", "ib-retry", "ib-flush", "nic-hang", "ib-port-down", "ibv-call-failed", "ib-local-error"),
    confirm="dmesg -T | grep -e mlx5 -e bnxt on that host; devlink health show; ibv_devinfo",
    cure=(
        "mlxfwreset -d DEVICE reset, or power the host off and on; update its firmware and driver (mlxfwmanager). Keep "
        "a dump for the maker (devlink health dump); replace the NIC where it comes again"
    ),
    source="the Linux kernel: drivers/net/ethernet (mlx5/core/health.c, bnxt)",
)
