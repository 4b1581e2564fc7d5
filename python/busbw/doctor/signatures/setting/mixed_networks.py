"""Ranks that chose different networks."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="mixed-networks",
    stage=Stage.SETTING,
    title=("ranks of one job chose different networks or plugins (one host lacks a plugin, device or setting)"),
    patterns=(
        r"with family \d+ is neither AF_INET",
        r"Detected mixed local (?:Net|CollNet) device counts",
        r"Rank \d+ requires NIC \d+ but that NIC is not available",
        r"netName \(?\S+?\)? (?:does not match|is different)",
        r"Unsupported address family",
        r"different number of devices=",
        r"There are mismatched physical devices",
    ),
    unless=("with family 0 is neither",),
    confirm="grep -h -e 'Using network' -e 'NET/Plugin' in the logs of all ranks: which host differs",
    cure="make image, plugin, LD_LIBRARY_PATH, devices and NCCL_NET the same on all hosts",
    source="NCCL src/misc/socket.cc, src/init.cc",
)
