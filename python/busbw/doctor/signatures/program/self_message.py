"""Sends and receives that do not pair."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="self-message",
    stage=Stage.PROGRAM,
    title="a rank sends to or receives from itself without the other half",
    patterns=(
        r"Trying to (?:send to|recv to|recv from) self",
        r"self without a matching",
    ),
    confirm="the lines of ncclSend and ncclRecv between ncclGroupStart and ncclGroupEnd",
    cure="put both calls into one group",
    source="NCCL src/enqueue.cc",
)
