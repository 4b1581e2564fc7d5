"""The receiver had no buffer posted."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ib-rnr",
    stage=Stage.NETWORK,
    title=("the receiving node does not take messages (receiver not ready): its process is stuck or gone"),
    patterns=(
        r"(?<!vendor )synd(?:rome)? 0x16\b",
        r"Got completion.{0,80}(?:status|error)[= ]\(?13\b",
        r"RNR_RETRY_EXC_ERR",
        r"RNR retry counter exceeded",
        r"\bstatus[ =:]{1,3}13\b.{0,30}(?:wr_id|vendor|syndrom)",
        r"IBV_WC_RNR_RETRY_EXC_ERR",
    ),
    explains=("ib-flush", "ib-completion-error"),
    confirm="py-spy dump or gdb on the peer named in the message",
    cure="find out why the peer's process or proxy thread stands still (CPU binding, OOM, crash)",
    source="ibv_wc_status 13",
)
