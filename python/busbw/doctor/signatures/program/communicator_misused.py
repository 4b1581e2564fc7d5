"""A communicator is used after its end, or from two places at once."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="communicator-misused",
    stage=Stage.PROGRAM,
    title="a communicator is used after it was destroyed or aborted, or outside of its group rules",
    patterns=(
        r"corrupted comm object",
        r"has already been destroyed",
        r"Attempt to use communicator before",
        r"not in a group call",
        r"communicator was revoked",
        r"in abort state",
        r"Blocking and nonblocking communicators",
        r"Group creation failed",
        r"Process group has been destroyed",
    ),
    confirm="where the program calls destroy_process_group or ncclCommAbort",
    cure="destroy it once, at the end, from all ranks; make a new one after an abort",
    source="NCCL src/init.cc, src/group.cc",
)
