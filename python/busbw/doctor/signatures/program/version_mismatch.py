"""Ranks with different NCCL versions."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="version-mismatch",
    stage=Stage.PROGRAM,
    title="ranks use different versions of NCCL",
    patterns=(
        r"Mismatched NCCL version",
        r"NCCL version mismatch",
        r"NCCL library is (?:too old|not backwards compatible)",
        r"compiled with NCCL version \S+ but .{0,40}\d",
        r"NCCL version.{0,40}(?:differ|mismatch)",
        r"compiled with too old version of NCCL",
        r"Invalid GIN gdaki backend version",
        r"with family 0 is neither AF_INET",
        # What ncclGetErrorString says of a number that is none of its results.
        r"nccl.{0,300}unknown result code",
    ),
    explains=("rank-count", "message-truncated", "communicator-misused"),
    confirm=("python -c 'import torch; print(torch.cuda.nccl.version())' and ldd on every node; NCCL_DEBUG=VERSION"),
    cure=(
        "install one image or environment on all nodes; look for a second libnccl in "
        "LD_LIBRARY_PATH, LD_PRELOAD or conda"
    ),
    source="NCCL src/init.cc, src/misc/socket.cc",
)
