"""A host, rank, GPU or pair that is far slower than all others in a table of the log."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.host_tables import Apart, apart
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "slow-host"
MOST = 4


def examine(facts: Facts) -> Iterator[Finding]:
    for shown in facts.shown:
        for told, each in enumerate(apart(shown.lines)):
            if told == MOST:
                break
            yield _finding(shown, each)


def _finding(shown: Shown, each: Apart) -> Finding:
    mine = each.rows[0].figure
    of = f" in each of its {len(each.rows)} rows" if len(each.rows) > 1 else ""
    how = "together " if each.pair else ""
    return Finding(
        NAME, Severity.WARNING,
        f"{each.who} {'are' if each.pair else 'is'} {how}{each.factor:.1f} times slower than the others{of}: {mine:g} "
        f"where they have {each.usual:g} ({each.name})",
        tuple(Evidence(row.said, shown.source, row.line) for row in each.rows[:3]),
        Cost("a job over all of them goes at the rate of the slowest", each.factor, "the log's own figures"),
        f"take {each.who} out of the job (Slurm: scontrol update nodename=NAME state=drain). Look there at rate and "
        "width of each port (ibstat, mlxlink), PCIe links, clocks and heat of its GPUs (nvidia-smi -q -d PERFORMANCE), "
        "other programs. Test it again before it returns",
        Proof(instruction="the same test without it, and two of the others in its place"),
        stage=Stage.EFFECT,
    )  # fmt: skip
