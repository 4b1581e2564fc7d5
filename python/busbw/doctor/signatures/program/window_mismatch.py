"""Symmetric memory, device communicators and one-sided calls of NCCL that do not fit together."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="window-mismatch",
    stage=Stage.PROGRAM,
    title="symmetric memory or the device API of NCCL is used as ranks or machine do not allow: {what}",
    patterns=(
        r"(?P<what>\bnccl(?:DevComm|CommWindow)\w+ (?:failed|returned) ?.{0,60})",
        r"NCCL WARN.{0,20}(?P<what>(?:Coll \w+ size \d+ )?symmetric registration check failed.{0,120})",
        r"(?P<what>Elastic GIN: .{5,120})",
        r"(?P<what>Window (?:registration|address).{5,120})",
        r"(?P<what>window has a NULL user pointer|Failed to window register\w*.{0,60})",
        r"(?P<what>Communicator does not support symmetric memory)",
        r"(?P<what>does not satisfy symmetric registration requirements)",
        r"(?P<what>(?:GIN|RMA)(?: Symmetric)? register failed.{0,60})",
        r"NCCL WARN.{0,60}(?P<what>(?:No (?:GIN|RMA)-capable devices found|(?:GIN"
        r"|RMA) (?:is )?(?:not supported|disabled)).{0,40})",
        r"NCCL WARN.{0,20}(?P<what>(?:GIN|RMA) (?:plugin|proxy|CE)\b.{5,100})",
        r"(?P<what>User requested GIN.{5,120})",
        r"NCCL WARN.{0,20}(?P<what>One.sided RMA.{5,100})",
        r"(?P<what>nccl(?:Put|Wait)?Signal\b: .{5,100})",
        r"(?P<what>(?:VA represented by|Segment \d+ has unsupported).{5,120})",
        r"(?P<what>no symmetric kernel available.{0,80})",
        r"(?P<what>Multimem pointer requested.{0,80})",
        r"(?P<what>Hierarchical CE collective not supported.{0,40})",
        r"(?P<what>MCBasePtr \S+ needs to be valid)",
        r"(?P<what>provided lsaRank \d+ is not in.{0,40})",
        r"(?P<what>ncclDevrWorldToLsaRank: .{5,60})",
        r"(?P<what>Dev comm not found)",
        r"(?P<what>ncclPutSignal currently does not support.{0,60})",
        r"(?P<what>Register symmetric memory with an implicitly created.{0,40})",
        r"(?P<what>Cannot get (?:backend version|gin type).{0,60})",
    ),
    confirm="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=REG,COLL on all ranks: compare addresses and sizes of the windows",
    cure=(
        "register the same buffer, size and offset on all ranks (ncclMemAlloc or expandable segments off), make the "
        "communicator before the first window (init_process_group(device_id=...)). Ask only for what the communicator "
        "supports; without symmetric memory: NCCL_WIN_ENABLE=0"
    ),
    source="NCCL src/dev_runtime.cc, src/symmetric.cc, src/gin, src/rma",
    versions="NCCL 2.27 and later",
)
