"""A network card, or its driver, stands still and is reset."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="nic-hang",
    stage=Stage.NETWORK,
    title="a network card or its driver stands still and is reset: packets of that time are lost",
    patterns=(
        r"NETDEV WATCHDOG",
        r"transmit queue \d+ timed out",
        r"\bena\b.{0,80}(?:Keep alive watchdog|Trigger reset|device has crashed|missing Tx completions)",
        r"\b(?:gve|idpf|ice|i40e|ixgbe|bnxt_en|virtio_net|mana|nfp|qede|hv_netvsc)\b.{0,80}"
        r"(?:Tx (?:Unit )?Hang|TX timeout|resetting|firmware (?:error|hang|fatal)|unresponsive)",
    ),
    confirm="`dmesg | grep -i -e watchdog -e reset`; ethtool -S INTERFACE before and after a run",
    cure="update the driver and firmware of that card; in a cloud replace the instance; leave the host out until then",
    source="the Linux kernel: net/sched/sch_generic.c; drivers/net/ethernet",
    explains=("connection-timeout", "remote-error", "store-lost"),
)
