"""A transport of UCC (TL) cannot start on some ranks, and the others wait for these in their next exchange."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ucc-context",
    stage=Stage.NETWORK,
    title="UCC's transport {tl} cannot start on some ranks: those clean up in a barrier, and the others wait elsewhere",
    patterns=(
        r"\bctx create epilog for (?P<tl>\w{2,20}) failed\b",
        r"^#\d{1,3}\s.{0,60}\bucc_tl_(?P<tl>\w{2,20}?)_context_barrier\b",
    ),
    explains=("sharp", "stands-still", "process-crashed"),
    confirm="UCC_LOG_LEVEL=debug on all ranks: which say `initialized tl context` and which failed; gdb -p PID -batch -ex bt",
    cure=(
        "leave that transport out on all ranks: UCC_TLS=^mlx5 for mlx5 (or UCC_CL_BASIC_TLS=^mlx5). Or take a newer UCC, "
        "in which all ranks learn of the failure. UCX, GPUs and NVLinks are not at fault"
    ),
    cost="the job hangs in its start",
    source="UCC src/core/ucc_context.c (ucc_context_create_proc_info), src/components/tl",
    versions="UCC 1.3 and 1.4",
    soft=True,
)
