"""What PyTorch's flight recorder shows: a collective that differs between ranks, or the ranks that lag."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.flight import standstills
from busbw.doctor.signature import Stage

NAME = "flight-recorder"
_FIXES = {
    True: "let all ranks call the same collectives in the same order and with the same sizes: look at the frames of "
    "the rank that differs in its dump",
    False: (
        "look at the rank that lags: what it did instead (data loading, checkpoint, an exception, a stuck GPU). Take "
        "py-spy dump, dmesg, and the frames of its last call in the dump"
    ),
}


def examine(facts: Facts) -> Iterator[Finding]:
    for found in standstills(facts.flights):
        yield Finding(
            NAME, Severity.ERROR, clean(found.title),
            tuple(Evidence(clean(fact), source) for fact, source in found.facts),
            Cost("all ranks wait until the watchdog ends the job"),
            _FIXES[found.mismatch],
            Proof(instruction="run again with TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_DISTRIBUTED_DEBUG=DETAIL"),
            stage=Stage.PROGRAM,
        )  # fmt: skip
