"""Buffers, threads or thresholds set by hand: NCCL_BUFFSIZE, NCCL_NTHREADS and others that tuning should choose."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Finding, Severity
from busbw.doctor.remedy import evidence, removal, without

NAME = "forced-sizes"
# Variable: the value below which it costs large messages, by NCCL's defaults (4 MiB buffers, 512 threads).
_DEFAULTS = {
    "NCCL_BUFFSIZE": 4 << 20,
    "NCCL_NTHREADS": 256,
    "NCCL_LL128_NTHREADS": 320,
    "NCCL_P2P_NVL_CHUNKSIZE": 1 << 19,
}


def examine(facts: Facts) -> Iterator[Finding]:
    for name, usual in _DEFAULTS.items():
        value = facts.whole(name)
        if value is None or value < 0:
            continue
        setting = facts.settings[name]
        small = value < usual
        yield Finding(
            NAME,
            Severity.WARNING if small else Severity.NOTE,
            f"{name}={value}" + (f" is below NCCL's default of {usual}" if small else " replaces NCCL's own choice"),
            (evidence(setting),),
            Cost(
                "large messages move in smaller pieces or with fewer threads"
                if small
                else "none known; memory per channel"
            ),
            removal(setting),
            without(setting),
        )
