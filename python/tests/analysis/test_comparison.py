"""Sides are matched by shape, unlike shapes are refused by name, and the rows say what simulated runs were made of."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from busbw.analysis.comparison import Options, Side, compare
from busbw.analysis.verdict import Verdict
from busbw.base.errors import UserError
from busbw.records import Case, Library, Record, Run, Tool

pytest.importorskip("numpy")
SIZES = [1 << power for power in range(10, 24)]


def make(
    name: str = "a", *, speed: float = 1.0, samples: int = 0, seed: int = 0, sizes: Sequence[int] = SIZES,
    noise: float = 0.02, environment: dict[str, str] | None = None, **shape: object,
) -> Record:  # fmt: skip
    """A record of one sweep on two threads, with batches where asked for."""
    rng = random.Random(seed)
    cases = []
    for number, size in enumerate(sizes):
        time = (10 + size / 100e3) / speed
        batches = tuple(tuple(time * (1 + noise * rng.gauss(0, 1)) for _ in range(samples)) for _ in range(2))
        case = Case(
            name, number, "all_reduce", size, "out_of_place", "measured", time, size / time / 1e3, size / time / 1e3,
            type="float", op="sum", root=-1, ranks=2, average="mean", batches_us=batches if samples else (),
        )  # fmt: skip
        cases.append(replace(case, **shape))  # type: ignore[arg-type]
    return Record(Run(name, None, Tool("busbw"), Library("NCCL"), environment=environment or {}), tuple(cases))


def side(record: Record) -> Side:
    return Side(record.run.run, (record,))


def test_a_gain_is_found_at_every_size_and_summed_up() -> None:
    found = compare(side(make(samples=20)), side(make("b", speed=1.25, samples=20, seed=1)))
    assert {row.judgement.verdict for row in found.rows} == {Verdict.FASTER}
    assert all(row.interval and row.interval.low / 1.02 < 1.25 < row.interval.high * 1.02 for row in found.rows)
    assert len(found.sweeps[0].ranges) == 1


def test_one_sample_each_has_no_interval() -> None:
    found = compare(side(make()), side(make("b", speed=2)))
    assert all(row.interval is None and row.judgement.verdict is Verdict.FASTER for row in found.rows)
    assert all("one sample each" in row.judgement.reason for row in found.rows)


def test_batches_are_not_set_against_iterations() -> None:
    iterations = make("b")
    times = tuple(replace(case, iterations_us=((case.time_us or 0.0,) * 9,)) for case in iterations.cases)
    found = compare(side(make(samples=9)), side(replace(iterations, cases=times)))
    assert all(row.interval is None for row in found.rows)


def test_repeated_runs_are_one_side_with_their_own_noise() -> None:
    before = Side("before", tuple(make(f"a{i}", speed=1 + 0.01 * (i % 3)) for i in range(6)))
    after = Side("after", tuple(make(f"b{i}", speed=1.5 + 0.01 * (i % 3)) for i in range(6)))
    rows = list(compare(before, after).rows)
    assert all(row.interval is not None and row.samples == (6, 6) for row in rows)
    assert all(row.judgement.verdict is Verdict.FASTER for row in rows)


@pytest.mark.parametrize(
    ("shape", "named"),
    [
        ({"ranks": 4}, "ranks: 2 against 4"),
        ({"type": "half"}, "type: float against half"),
        ({"op": "prod"}, "op: sum against prod"),
        ({"placement": "in_place"}, "placement: out_of_place against in_place"),
        ({"collective": "reduce_scatter"}, "collective: all_reduce against reduce_scatter"),
    ],
)
def test_unlike_shapes_are_refused_by_name_and_allowed_aloud(shape: dict[str, object], named: str) -> None:
    sides = side(make()), side(make("b", **shape))
    with pytest.raises(UserError, match=named):
        compare(*sides)
    found = compare(*sides, Options(allow_different=True))
    assert any(f"different {named.split(':', maxsplit=1)[0]}" in note for note in found.notes)
    assert len(found.sweeps) == 1


def test_different_ranks_are_compared_by_bus_bandwidth() -> None:
    other = make("b")
    doubled = tuple(replace(case, ranks=4, busbw_GBps=2 * (case.busbw_GBps or 0)) for case in other.cases)
    found = compare(side(make()), side(replace(other, cases=doubled)), Options(allow_different=True))
    assert found.sweeps[0].of_bus_bandwidth
    assert all(row.ratio == pytest.approx(2) for row in found.rows)


def test_an_unknown_dimension_is_named_not_guessed_silently() -> None:
    with pytest.raises(UserError, match="nothing says on how many ranks b was measured, the other on 2: name them"):
        compare(side(make()), side(make("b", ranks=None)))
    told = compare(side(make()), side(make("b", ranks=None)), Options(ranks=2))
    assert told.notes == () and len(list(told.rows)) == len(SIZES)
    with pytest.raises(UserError, match="differ in shape"):
        compare(side(make()), side(make("b", ranks=None)), Options(ranks=4))
    found = compare(side(make()), side(make("b", ranks=None)), Options(allow_different=True))
    assert "ranks of B is not known; taken to be that of the other (2)" in found.notes


def test_what_only_one_side_has_is_counted() -> None:
    found = compare(side(make()), side(make("b", sizes=SIZES[2:])))
    assert found.notes == ("2 cases only in A",)
    assert len(list(found.rows)) == len(SIZES) - 2


def test_no_common_size_and_no_measured_case_are_errors() -> None:
    with pytest.raises(UserError, match="share no size"):
        compare(side(make()), side(make("b", sizes=[8, 16])))
    with pytest.raises(UserError, match="no measured case"):
        compare(side(make()), side(make("b", outcome="failed")))


def test_a_source_that_gives_ranges_gets_the_interval_of_their_extremes() -> None:
    shape = {"time_us": None, "algbw_GBps": None, "busbw_GBps": 5.0, "range": {"busbw_GBps": (4.0, 6.0)}}
    found = compare(side(make("a", sizes=[1024], **shape)), side(make("b", sizes=[1024], **{**shape, "range": {}})))
    row = next(found.rows)
    assert row.interval is not None
    assert (row.interval.low, row.interval.high) == (pytest.approx(5 / 6), pytest.approx(5 / 4))
    assert row.judgement.verdict is Verdict.UNDECIDED


def test_differences_name_the_environment_and_the_library() -> None:
    found = compare(side(make(environment={"NCCL_ALGO": "Ring"})), side(make("b", environment={})))
    assert [(each.what, each.values) for each in found.differences] == [("NCCL_ALGO", ("Ring", "-"))]


def test_samples_within_runs_do_not_hide_the_noise_between_them() -> None:
    """Three runs a side, each steady in itself, scattered by 10 % from run to run: nothing can be concluded."""
    before = Side("before", tuple(make(f"a{i}", speed=1 + 0.1 * i, samples=30, noise=0.001, seed=i) for i in range(3)))
    after = Side("after", tuple(make(f"b{i}", speed=0.95 + 0.1 * i, samples=30, noise=0.001, seed=i) for i in range(3)))
    assert {row.judgement.verdict for row in compare(before, after).rows} == {Verdict.UNDECIDED}


def test_what_a_launcher_sets_for_every_start_is_no_difference() -> None:
    one = {"BUSBW_ADDRESS": "127.0.0.1:1", "SLURM_JOB_ID": "1", "OMPI_MCA_orte_hnp_uri": "1", "SLURM_NNODES": "1"}
    two = {"BUSBW_ADDRESS": "127.0.0.1:2", "SLURM_JOB_ID": "2", "OMPI_MCA_orte_hnp_uri": "2", "SLURM_NNODES": "2"}
    found = compare(side(make(environment=one)), side(make("b", environment=two)))
    assert [each.what for each in found.differences] == ["SLURM_NNODES"]
