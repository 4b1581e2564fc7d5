"""Google's plugins for their networks cannot work with their daemon."""

from busbw.doctor.signature import Signature, Stage

_FAILS = (
    r"(?:unable to|\bfail(?:ed|s|ure|ing)?\b(?!\W{0,3}\d)|not found|refused"
    r"|(?<!\b0 )(?<!\bno )\berrors?\b(?!\W{0,3}0\b)"
    r"|timed out|\btimeout\b(?! ?(?:\(\w{0,8}\) ?)?[=:]? ?[\d=]))"
)
"""Words of a failure; counters that are 0 and settings of a time are none."""

SIGNATURE = Signature(
    name="tcpx-error",
    stage=Stage.SETTING,
    title=(
        "the network plugin of Google's machines (TCPX, TCPXO) fails: its receive daemon (rxdm) does not run, cannot "
        "be reached from this container, or does not fit"
    ),
    patterns=(
        r"fastrak_gpumem_manager(?!\W.{0,60}\b(?:is )?(?:ready|started|up and running|listening)\b)",
        r"Number of GPUs detected in the PCI tree \d+ is not equal",
        r"(?:tcpx|tcpxo|rxdm)\S{0,20} exited with code [1-9]",
        r"NCCL WARN NET/(?:GPUDirectTCPX|FasTrak)\b",
        r"\btcpxResult_t tcpx\w+\(.{0,200}NCCL WARN ",
        rf"\brxdm\b.{{0,120}}{_FAILS}",
        rf"(?:NET/GPUDirectTCPX|NET/FasTrak|\btcpx\w*).{{0,200}}{_FAILS}",
    ),
    unless=("hmem",),
    explains=("connection-refused", "socket-failed", "nccl-internal"),
    confirm="kubectl logs POD -c tcpxo-daemon (or tcpx-daemon, rxdm); ls /run/tcpx /tmp/*rxdm* in the rank's container",
    cure=(
        "start the receive daemon beside the ranks and share its sockets with them (the volume of /run/tcpx or "
        "hostNetwork). Give both /dev/dmabuf_import_helper and the NICs' interfaces. Take plugin, daemon and NCCL of "
        "one release: a NCCL that PyTorch brings itself may not fit the plugin (LD_LIBRARY_PATH of the plugin first)"
    ),
    source="Google's nccl-plugin-gpudirecttcpx and TCPXO (FasTrak)",
)
