"""A rank joined with the ncclUniqueId of an earlier job, whose root listens no more."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="stale-id",
    stage=Stage.LAUNCH,
    title="a rank joins with an ncclUniqueId that an earlier job left in its file: nobody listens at its address now",
    patterns=(
        r"\b(?:id|uid|unique_?id)(?: |_)file\b.{0,60}"
        r"\b(?:\d{3,9} ?s(?:ec\w*)?|\d{1,6} ?(?:min\w*|h|hours?|days?)) old\b",
        r"\b(?:stale|left-?over|outdated) (?:nccl)?_?(?:unique)?_?(?:id|uid)\b(?! (?:was|of|map))",
    ),
    unless=("remov", "delet", "ignor", "discard", "skip", "replac", "waiting", "overwrit", "cleaned"),
    explains=("connection-refused", "connection-timeout", "loopback-interface", "remote-error"),
    confirm="ls -l --time-style=full-iso on the file of the id, beside the start of the job",
    cure=(
        "remove the file before each start, or give it a name by the job's number. Let rank 0 write it under another "
        "name and rename it, and let the others take none that is older than the job"
    ),
    soft=True,
    source="NCCL src/bootstrap.cc: ncclUniqueId holds the root's address and port",
)
