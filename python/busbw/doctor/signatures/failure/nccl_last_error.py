"""The sentence that NCCL gave to the program as its last error; scan.py tells it where no other signature knows it."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="nccl-last-error",
    stage=Stage.FAILURE,
    title="NCCL failed, and its last sentence is: {what}",
    patterns=(r"Last error of NCCL: (?P<what>.{5,160})",),
    explains=("nccl-error", "python-exception", "torch-distributed-error", "gloo-error"),
    confirm="run again with NCCL_DEBUG=INFO on all ranks: the lines before that sentence say what it tried",
    cure=(
        "follow the sentence: names of devices, files or peers in it are where to look. The first rank that said it "
        "by time is the one, and the others follow"
    ),
    source="NCCL src/debug.cc: ncclGetLastError; PyTorch prints it after `Last error:`",
)
