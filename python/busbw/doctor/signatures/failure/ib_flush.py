"""Work that was flushed after an earlier error."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ib-flush",
    stage=Stage.FAILURE,
    title="an RDMA connection went down with an earlier error (work requests were flushed)",
    patterns=(
        r"(?<!vendor )syndrome 0x5\b",
        r"Got completion.{0,80}(?:status|error)[= ]\(?5\b",
        r"WR_FLUSH_ERR",
        r"Work Request Flushed",
        r"\bstatus[ =:]{1,3}5\b.{0,30}(?:wr_id|vendor|syndrom)",
        r"IBV_WC_WR_FLUSH_ERR",
    ),
    explains=("ib-completion-error",),
    confirm="look for the first error of any rank, on the peer too",
    cure="see the first error on the peer's side; this is its consequence",
    source="ibv_wc_status 5",
)
