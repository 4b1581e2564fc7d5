"""Ranks call different collectives."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="collective-mismatch",
    stage=Stage.PROGRAM,
    title="ranks call different collectives, or in another order",
    patterns=(
        r"DDP expects same model across all ranks",
        r"op\.preamble\.length <= op\.nbytes",
        r"Expected to have finished reduction in the prior iteration",
        r"Expected to mark a variable ready only once",
        r"submitted to be reduced, gathered or broadcasted by subset of ranks",
        r"Stalled ranks",
        r"\bHorovod\w+ \[missing ranks: \d",
        r"Mismatched \w{3,20} (?:tensor )?(?:shapes|operations|types)\b",
        r"Not all ranks joining collective|Collective sequence number: \d+ has errors",
        r"different collective operation counts",
        r"Detected mismatch between collectives",
        r"caused by a collective mismatch",
        r"(?:collective|shape|dtype|order).{0,30}mismatch.{0,60}rank",
        r"Mismatched? collective",
        r"ranks? .{0,60}(?:is|are) running collective",
        r"match_state\b.{0,60}(?:COLLECTIVE_TYPE_MISMATCH|SIZE_OR_SYNTAX_MISMATCH"
        r"|COLLECTIVE_DTYPE_MISMATCH|COLLECTIVE_STATE_MISMATCH)",
        r"COLLECTIVE_TYPE_MISMATCH",
        r"SIZE_OR_SYNTAX_MISMATCH",
        r"joined but didn't finish collective",
        r"didn't join collective",
        r"appears not to match sizes of",
    ),
    explains=("watchdog-timeout",),
    confirm=("TORCH_DISTRIBUTED_DEBUG=DETAIL, or NCCL_DEBUG_SUBSYS=COLL on all ranks and compare opCount and names"),
    cure=(
        "let all ranks take the same branches: no collective inside `if rank == 0`, the same number of batches "
        "(drop_last, join), the same order of groups. The ranks named are those to look at"
    ),
    source="torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp, TraceUtils.h",
)
