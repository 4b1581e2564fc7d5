"""Transfers that the GPU itself starts (GIN, RMA) fail."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gin-error",
    stage=Stage.NETWORK,
    title="transfers that the GPU itself starts (GIN, RMA) fail: {what}",
    patterns=(
        r"GIN (?:strong )?signals are required, but the GIN plugin does not support",
        r"(?P<what>GIN Error.{0,60})",
        r"(?P<what>DOCA (?:Error|failure).{0,40})",
        r"(?P<what>Error on GFD test.{0,40})",
        r"(?P<what>(?:No shared contexts|Requested number of exclusive GIN contexts).{0,120})",
        r"(?P<what>GIN-capable device type mismatch)",
        r"\bgin/\S{3,60}:\d+ NCCL WARN (?P<what>.{5,100})",
        r"(?P<what>(?:Gin|Rma) connect : min local net count is zero)",
        r"\brma/\S{3,60}:\d+ NCCL WARN (?P<what>.{5,100})",
        r"plugin/(?:gin|rma)\.cc:\d+ NCCL WARN (?P<what>.{5,100})",
        r"net_ib/gin\S{0,40}:\d+ NCCL WARN (?P<what>.{5,100})",
        r"gdaki\S{0,40}:\d+ NCCL WARN (?P<what>.{5,100})",
        r"(?P<what>Cannot create worldGinBarrier.{0,60})",
        r"(?P<what>nccl(?:Gin|Rma)IbProxy\w+: .{5,80})",
    ),
    unless=("uninitialized",),
    confirm="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET,INIT; ibv_devinfo; nvidia-smi topo -m; modinfo nvidia_peermem",
    cure=(
        "run with the proxy instead (NCCL_GIN_TYPE=2) or without (NCCL_GIN_ENABLE=0); raise "
        "NCCL_GIN_NCONTEXTS where contexts are short; the same NICs, rdma-core and DOCA on all hosts"
    ),
    versions="NCCL 2.28 and later",
    source="NCCL src/gin, src/rma, src/transport/net_ib/gdaki",
)
