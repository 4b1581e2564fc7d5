"""Libraries of different versions are mixed."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="undefined-symbol",
    stage=Stage.SYSTEM,
    title="libraries of different versions are mixed: a symbol is missing ({symbol})",
    patterns=(
        r"undefined symbol: (?P<symbol>\w{1,80})",
        r"symbol lookup error",
        r"version `(?P<symbol>[\w.]{1,60})' not found",
        r"(?:ncclOsDlsym|dlsym) failed on (?P<symbol>nccl\w+)",
    ),
    explains=("library-not-found",),
    unless=(
        "ibverbs",
        "libnccl-net",
        "libnccl-tuner",
        "/plugin:",
    ),
    confirm="ldd PROGRAM | grep nccl; `pip list | grep -i nccl`; LD_DEBUG=libs",
    cure=(
        "leave one NCCL in LD_LIBRARY_PATH: the one that the program was built with or newer; "
        "remove the other (pip's nvidia-nccl against the system's)"
    ),
    source="ld.so's own words",
)
