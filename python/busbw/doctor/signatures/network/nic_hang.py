"""A network card, or its driver, stands still and is reset."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="nic-hang",
    stage=Stage.NETWORK,
    title="a network card or its driver stands still and is reset: packets of that time are lost",
    patterns=(
        r"NETDEV WATCHDOG",
        r"transmit queue \d+ timed out|\bTX timeout (?:detected|on queue)",
        r"\bena\b.{0,80}(?:Keep alive watchdog|Trigger reset|device has crashed|missing Tx completions)",
        r"\b(?:gve|idpf|ice|irdma|i40e|ixgbe|bnxt_(?:en|re)|virtio_net|mana|nfp|qede?|qedr|hv_netvsc|cxgb4|iw_cxgb4|ionic\w*"
        r"|efa|erdma|hns3|hns_roce|hinic\w*|enic|sfc|fm10k|octeon\w*|mlx[45]_core)\b[ :].{0,120}"
        r"(?:Tx (?:Unit )?Hang|TX timeout|resetting|unresponsive|(?:firmware|FW) "
        r"(?:error|hang|fatal|watchdog|down|over \d+)|fatal (?:error|reset|device)|adapter stopped|not responding"
        r"|heartbeat (?:stall|lost|stop|miss|fail)|timed ?out|timeout after|(?:cmd\w*|CQP) timeout|PFR? reset requested"
        r"|reset the device|reset required|reset in progress|FW down"
        r"|pre-initializing|device is (?:dead|stuck|not operational))",
    ),
    confirm="`dmesg | grep -i -e watchdog -e reset`; ethtool -S INTERFACE before and after a run",
    cure="update the driver and firmware of that card; in a cloud replace the instance; leave the host out until then",
    source="the Linux kernel: net/sched/sch_generic.c; drivers/net/ethernet",
    explains=("connection-timeout", "remote-error", "store-lost", "ib-retry", "ib-async", "registration-failed"),
    later=("kernel-hang",),
)
