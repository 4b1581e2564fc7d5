"""A protocol forced by NCCL_PROTO: LL halves the payload, Simple makes small messages slow."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Finding, Severity
from busbw.doctor.prescribed import is_prescribed
from busbw.doctor.remedy import evidence, removal, without

NAME = "forced-protocol"
# LL carries 4 bytes of data with every 4 bytes of flag, and NCCL's model gives it at most a quarter to a half of the
# rate; LL128 carries 120 of 128 bytes (NCCL src/include/device.h, src/graph/tuning.cc).
_FACTOR = {"ll": 2.0}
_SMALL = 64 << 10


def examine(facts: Facts) -> Iterator[Finding]:
    setting = facts.settings.get("NCCL_PROTO")
    value = facts.value("NCCL_PROTO")
    if setting is None or value is None:
        return
    only = value.lower().split(":")[-1]
    chosen = set(only.lstrip("^").split(","))
    slow = ("simple" in chosen) == only.startswith("^")
    factor = _FACTOR.get(only)
    # A benchmark beside it ran the sizes that it slows.
    measured = any(each.bytes <= _SMALL and each.busbw_GBps is not None for run in facts.records for each in run.cases)
    cost = (
        "large messages lose what Simple would reach"
        if slow
        else "small messages take longer: Simple has no fast flags"
    )
    if factor:
        cost = f"at least {factor:g} times less bus bandwidth for large messages: half of every LL line is flags"
    yield Finding(
        NAME,
        Severity.WARNING if slow or (measured and not is_prescribed(facts, "NCCL_PROTO")) else Severity.NOTE,
        f"NCCL_PROTO={value} forces the protocol at every size",
        (evidence(setting),),
        Cost(cost, factor, "4 bytes of flag to 4 bytes of data" if factor else ""),
        removal(setting),
        without(setting),
    )
