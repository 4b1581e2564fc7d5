"""NCCL reads a variable's value otherwise than meant."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ignored-setting",
    stage=Stage.SETTING,
    title="NCCL ignores or changes the value of a variable: {what}",
    patterns=(
        r"(?P<what>Invalid value \S{1,60} for \w{1,60}), using default",
        r"(?P<what>Invalid NCCL_\w+ .{0,60}(?:minimum|maximum|multiple))",
        r"(?P<what>NCCL_\w+)[= ]\S{0,40} (?:is|value) .{0,30}(?:too (?:big|small|low)|ignored|out of range)",
        r"(?P<what>Unrecognized (?:element|prefix) token \S{1,60})",
        r"(?P<what>NCCL_\w+) list contains",
        r"User asked for a m(?:ax|in)imum of \d+ channels, (?:setting|limiting)",
        r"(?P<what>NCCL_\w+): unknown value",
        r"(?P<what>Ip address(?: mask)? '\S{1,60}') is invalid",
        r"(?P<what>m\w{2}CTAs) \d+ is larger than",
    ),
    confirm="env | grep NCCL_; cat /etc/nccl.conf ~/.nccl.conf",
    cure="correct the value or remove the variable",
    cost="the setting has no effect, or another than meant",
    severity=Severity.WARNING,
    source="NCCL src/misc/param.cc, src/graph/tuning.cc",
)
