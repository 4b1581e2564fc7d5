"""What was not read to its end, or not at all, is never called healthy."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.base.effort import ALLOWED, EFFORT
from busbw.doctor.facts import gather
from busbw.doctor.lines import work_limit
from busbw.doctor.reading import inputs
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.doctor.verdict import Outcome, verdict

from .corpus import healthy


def judged(*names: Path) -> Outcome:
    EFFORT.left = ALLOWED
    snapshot, records = read_inputs(Inputs(files=tuple(map(str, names)), named=tuple(map(str, names))))
    return verdict(gather(snapshot, records), []).outcome


def test_nothing_is_healthy_of_which_a_part_was_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, said = next(iter(healthy.logs()))
    one, other = tmp_path / "1.log", tmp_path / "2.log"
    steps = [f"step {at} loss {at % 7}.5" for at in range(5000)]
    for each in (one, other):
        each.write_text("\n".join([said, *steps, "# busbw algbw", ""]))
    assert judged(one, other) is Outcome.HEALTHY
    with monkeypatch.context() as changed:
        changed.setattr(inputs, "FOR_READING", 0.9999)  # the second file is not read
        assert judged(one, other) is Outcome.UNKNOWN
    with monkeypatch.context() as changed:
        changed.setattr(inputs, "FOR_TABLES", 1e-9)  # no table is looked for
        assert judged(one, other) is Outcome.UNKNOWN
    with monkeypatch.context() as changed:
        changed.setattr(work_limit, "FOR_THE_END", 0.999)  # the logs are not read from end to end
        assert judged(one, other) is Outcome.UNKNOWN


def test_the_logs_of_many_ranks_may_cost_more_by_their_size(tmp_path: Path) -> None:
    """A job of 1,000 ranks has as many logs: the sum that is enough for one file is not for them."""
    _, said = next(iter(healthy.logs()))
    names = [tmp_path / f"{at}.log" for at in range(inputs.MANY + 1)]
    for rank, each in enumerate(names):
        words = [f"word{chr(97 + rank % 26)}{chr(97 + at % 26)}{chr(97 + at // 26)} of nothing" for at in range(200)]
        each.write_text("\n".join([said, *words, ""]))
    size = sum(each.stat().st_size for each in names)
    enough = size * inputs.PER_MIB_OF_MANY / (1 << 20)

    def read(names: list[Path]) -> float:
        EFFORT.left = enough / 20
        read_inputs(Inputs(files=tuple(map(str, names))))
        return EFFORT.left

    assert read(names) > enough / 20 > read(names[1:])


def test_what_is_said_of_a_log_that_was_read_in_part_does_not_contradict_itself(tmp_path: Path) -> None:
    """A table behind so many lines that nobody looked for it: its absence is not known."""
    path = tmp_path / "job.log"
    lines = [f"node1:40:{41 + at % 7} [0] NCCL INFO Channel {at:02}/0 : 0[0] -> 1[1] via P2P" for at in range(40_000)]
    path.write_text("\n".join([*lines, "#       size    time   algbw   busbw", *lines, ""]))
    EFFORT.left = ALLOWED / 100
    facts = gather(*read_inputs(Inputs(files=(str(path),))))
    told = verdict(facts, [])
    [scan] = facts.scans
    assert 0 < scan.unread < scan.lines
    assert f"{scan.lines - scan.unread} of {scan.lines} lines" in told.read[0]
    said = "\n".join(told.unread)
    assert "no table was found in what was read, and the rest was not searched for one" in said
    assert "no table and no record was given" not in said and "the file was read" not in said
