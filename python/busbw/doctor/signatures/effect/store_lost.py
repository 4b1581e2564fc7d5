"""Rank 0's store went away."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="store-lost",
    soft=True,
    stage=Stage.EFFECT,
    title="the store of rank 0 went away while others still waited: rank 0 or its host ended first",
    patterns=(
        r"but store->get\('\S+?'\) got error",
        r"retrieving ncclUniqueId from",
        r"recvValue failed",
        r"sendBytes failed",
        r"TCPStore.{0,100}(?:reset by peer|Broken pipe|closed)",
        r"Failed to recv, got 0 bytes",
        r"Connection was likely closed",
    ),
    explains=("remote-error", "killed-by-launcher"),
    confirm="the end of rank 0's own log",
    cure="look at the log of rank 0: its error is the cause",
    source="torch/csrc/distributed/c10d/TCPStore.cpp",
)
