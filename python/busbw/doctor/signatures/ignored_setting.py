"""NCCL reads a variable's value otherwise than meant."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ignored-setting",
    stage=Stage.SETTING,
    title="NCCL ignores or changes the value of a variable: {what}",
    patterns=(
        r"NCCL_\w+ ?= ?\S{1,60} is (?:not a|an invalid|no) (?:valid )?(?:number|value|integer)",
        r"(?P<what>Fusing NET devices from different NUMA domains)",
        r"(?P<what>(?:TOPO/NET|NET/IB)\b.{0,12}Could not force merge.{0,80})",
        r"(?P<what>(?:TOPO/NET|NET/IB)\b.{0,12}(?:Only matched|Trying to merge).{0,80})",
        r"(?P<what>Specified fused NIC.{0,80})",
        r"(?P<what>Ignoring SHM locality.{0,60})",
        r"(?P<what>\w{5,30} (?:is|has) (?:greater than the maximum|invalid value).{0,60})",
        r"(?P<what>Both NCCL_CTA_POLICY\w+.{0,80})",
        r"(?P<what>Invalid \S{1,40} \d+ \((?:minimum|maximum|must be).{0,40})",
        r"(?P<what>All entries except the first must have a prefix.{0,60})",
        r"(?P<what>NCCL cannot use (?:a|more than \d+) plane IDs?.{0,40})",
        r"(?P<what>Invalid value \S{1,60} for \w{1,60}), using default",
        r"(?P<what>Invalid NCCL_\w+ .{0,60}(?:minimum|maximum|multiple))",
        r"(?P<what>NCCL_\w+)[= ]\S{0,40} (?:is|value) .{0,30}(?:too (?:big|small|low)|ignored|out of range)",
        r"(?P<what>Unrecognized (?:element|prefix) token \S{1,60})",
        r"(?P<what>NCCL_\w+) list contains",
        r"User asked for a m(?:ax|in)imum of \d+ channels, (?:setting|limiting)",
        r"(?P<what>NCCL_\w+): unknown value",
        r"(?P<what>Ip address(?: mask)? '\S{1,60}') is invalid",
        r"(?P<what>m\w{2}CTAs) \d+ is larger than",
        r"(?P<what>splitShare \d+ is not a valid value)",
        r"(?P<what>NCCL_\w+) value \S+ is too big",
        r"(?P<what>GIN_IB_PROXY does not support.{0,40})",
        r"Unable to open (?P<what>\S{1,80}), not dumping topology",
        r"(?P<what>GDR Flush only supported on x86_64)",
    ),
    confirm="env | grep NCCL_; cat /etc/nccl.conf ~/.nccl.conf",
    cure="correct the value or remove the variable",
    cost="the setting has no effect, or another than meant",
    severity=Severity.WARNING,
    source="NCCL src/misc/param.cc, src/graph/tuning.cc",
)
