"""A job of GB200 within 72 GPUs may lie on several racks: NCCL says it, a setting does, or the doctor asks."""

from __future__ import annotations

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.expected import _nets_in
from busbw.doctor.facts import gather
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.doctor.verdict import Outcome, verdict
from busbw.expect.links import NetKind
from busbw.expect.machines import require
from busbw.machine.nccl.log import read_log
from busbw.records import Record

from .cases import rail_record

ONE, TWO, LOST = 750.0, 560.0, 360.0
"""GB/s at 1 GiB of 16 hosts: of one NVLink domain, of two, and of one in which something is amiss."""
SIZED = (
    "n0:1:2 [0] NCCL INFO ncclCommInitRank comm 0x8dd01c0 rank 0 nranks 64 cudaDev 0 nvmlDev 0 busId 801000 commId 0x1 "
    "- Init COMPLETE\n"
    "n0:1:2 [0] NCCL INFO comm 0x8dd01c0 rank 0 nRanks 64 nNodes {} localRanks {} localRank 0 MNNVL {}\n"
)
CLIQUE = "n0:1:2 [0] NCCL INFO MNNVL {} cliqueId 7ffe cliqueSize {} cliqueRank 0 \n"
OFF = "n0:1:2 [0] NCCL INFO NCCL_MNNVL_ENABLE set by environment to 0.\n"


def judged(rate: float, log: str = "", hosts: int = 16, *, named: bool = False) -> tuple[Outcome, set[str], str]:
    """The outcome, the findings, and what is missing."""
    record: Record = rail_record(rate, 4, "NVIDIA GB200", hosts)
    texts = (TextFile("nccl.log", log),) if log else ()
    facts = gather(Snapshot("files", logs=texts), (record,), require("gb200-nvl72") if named else None)
    findings = examine(facts)
    return verdict(facts, findings).outcome, {each.name for each in findings}, facts.expected[0].missing


def test_what_two_racks_give_is_asked_about_and_not_told_as_slow() -> None:
    assert judged(ONE) == (Outcome.HEALTHY, set(), "")
    outcome, names, missing = judged(TWO)
    assert outcome is Outcome.UNKNOWN and not names
    assert (
        "is what 16 hosts of two NVLink domains give, of one " in missing and "NCCL_DEBUG=INFO does: MNNVL" in missing
    )
    assert judged(LOST)[1] == {"below-expected"}


@pytest.mark.parametrize(
    ("log", "slow"),
    [(SIZED.format(2, 32, 1), False), (CLIQUE.format(1, 32), False), (SIZED.format(1, 64, 1), True),
     (CLIQUE.format(1, 64), True)],
)  # fmt: skip
def test_the_log_says_how_many_domains_there_are(log: str, slow: bool) -> None:
    for named in (False, True):
        assert ("below-expected" in judged(TWO, log, named=named)[1]) is slow
    assert "below-expected" not in judged(ONE, log, named=True)[1]


@pytest.mark.parametrize("log", [SIZED.format(16, 4, 0), CLIQUE.format(0, 64), OFF])
def test_without_nvlinks_between_hosts_the_nics_are_what_counts(log: str) -> None:
    assert "below-expected" not in judged(190.0, log, named=True)[1]
    assert "below-expected" in judged(90.0, log, named=True)[1]


def test_hosts_of_several_racks_lack_no_nvlinks_between_each_other() -> None:
    assert "nvlink-domain" in judged(180.0)[1]
    assert "nvlink-domain" in judged(180.0, SIZED.format(16, 4, 0))[1]
    assert "nvlink-domain" not in judged(180.0, SIZED.format(2, 32, 1))[1]


def test_two_hosts_at_half_are_slow_whatever_the_racks_are() -> None:
    assert "below-expected" in judged(400.0, hosts=2)[1]


@pytest.mark.parametrize(("provider", "net"), [("cxi (found 4 nics)", NetKind.SLINGSHOT), ("efa", NetKind.EFA)])
def test_the_provider_of_libfabric_says_which_network_it_is(provider: str, net: NetKind) -> None:
    head = "n0:1:2 [0] NCCL INFO "
    text = f"{head}NET/OFI Selected provider is {provider}\n{head}Using network AWS Libfabric\n"
    assert _nets_in((read_log(text.splitlines(), "nccl.log"),)) == {net}
