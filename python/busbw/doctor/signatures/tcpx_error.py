"""Google's plugins for their networks cannot work with their daemon."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="tcpx-error",
    stage=Stage.SETTING,
    title=(
        "the network plugin of Google's machines (TCPX, TCPXO) fails: its receive daemon (rxdm) does not run, cannot "
        "be reached from this container, or does not fit"
    ),
    patterns=(
        r"\brxdm\b.{0,120}(?:fail|error|refused)",
        r"(?:NET/GPUDirectTCPX|NET/FasTrak|TCPXO?).{0,160}(?:unable|failed|not found|error|refused)",
        r"\btcpx\w*\(?.{0,200}(?:timeout|failed|error)",
    ),
    unless=("hmem",),
    explains=("connection-refused", "socket-failed", "nccl-internal"),
    confirm="kubectl logs POD -c tcpxo-daemon (or tcpx-daemon, rxdm); ls /run/tcpx /tmp/*rxdm* in the rank's container",
    cure=(
        "start the receive daemon beside the ranks and share its sockets with them (the volume of /run/tcpx or "
        "hostNetwork), give both /dev/dmabuf_import_helper and the NICs' interfaces, and take plugin, daemon and NCCL "
        "of one release: a NCCL that PyTorch brings itself may not fit the plugin (LD_LIBRARY_PATH of the plugin first)"
    ),
    source="Google's nccl-plugin-gpudirecttcpx and TCPXO (FasTrak)",
)
