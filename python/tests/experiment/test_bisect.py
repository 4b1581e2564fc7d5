"""A bisection names the value from which a size is slower, and says what does not fit."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from busbw.base.errors import UsageError, UserError
from busbw.experiment.bisect.search import Bisection, Change, not_monotone
from busbw.experiment.bisect.text import result_json, result_text, sure_of
from busbw.experiment.bisect.values import of_profiles, of_setting, parse_range, version_in, version_key, within
from busbw.experiment.factors import Factor, Level
from busbw.experiment.loop import Stop
from busbw.experiment.plan import Limits, Plan
from busbw.experiment.runner import command_of
from busbw.experiment.trial import Outcome, Point, Trial

KIB, MIB = 1 << 10, 1 << 20
RELEASES = [f"2.{minor}.{patch}" for minor in range(27, 33) for patch in (3, 5, 9)]


class Releases:
    """Each size's times by release, with 2 % of noise; a release with math.inf ends with an error."""

    def __init__(self, times: Mapping[int, list[float]], seed: int = 1, noise: float = 0.02) -> None:
        self.times, self.noise, self.random, self.now = times, noise, random.Random(seed), 0.0
        self.trials = 0

    def measure(self, plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        del folder, limit_s
        self.trials += 1
        self.now += 1.0
        value = int(plan.factors[0].levels[variant].label)
        found = {}
        for size, times in self.times.items():
            if times[value] == math.inf:
                return Trial(number, variant, Outcome.CRASHED, 0.1, reason="exit code 3: it cannot be loaded")
            for placement in ("in_place", "out_of_place"):
                found[Point("all_reduce", size, placement)] = times[value] * math.exp(self.random.gauss(0, self.noise))
        return Trial(number, variant, Outcome.MEASURED, 1.0, found)

    def bisect(self, folder: Path, seconds: float = 1e6, **limits: float) -> tuple[Bisection, list[Change]]:
        count = len(next(iter(self.times.values())))
        plan = Plan((), ("all_reduce",), limits=Limits(seconds=seconds, **limits))  # type: ignore[arg-type]
        done = Bisection(RELEASES[:count], lambda number: Level(str(number)), plan, folder, self.measure,
                         lambda: self.now)  # fmt: skip
        return done, done.run()


def stepped(count: int, *steps: tuple[int, float]) -> list[float]:
    """100 us, from each of these values on so many times more."""
    return [100 * math.prod(factor for at, factor in steps if number >= at) for number in range(count)]


@pytest.mark.parametrize("at", [1, 2, 7, 8, 15])
def test_the_release_is_named_in_log_steps(at: int, tmp_path: Path) -> None:
    machine = Releases({MIB: stepped(16, (at, 1.08))}, seed=at)
    done, (change,) = machine.bisect(tmp_path)
    assert (change.before, change.at) == (at - 1, at) and sure_of(change)
    assert change.step and change.step.interval and change.step.interval.contains(1 / 1.08)
    assert len(done.probes) <= 2 + math.ceil(math.log2(15))
    assert f"slower from release {RELEASES[at]} on" in result_text(done, [change], "release")


def test_sizes_that_got_slower_elsewhere_have_their_own_release(tmp_path: Path) -> None:
    times = {
        KIB: stepped(16, (3, 1.2)),
        MIB: stepped(16, (12, 1.5)),
        64 * MIB: stepped(16),
        4 * KIB: stepped(16, (3, 1.3)),
    }
    done, changes = Releases(times).bisect(tmp_path)
    assert {change.key[1]: change.at for change in changes} == {KIB: 3, 4 * KIB: 3, MIB: 12}
    assert "64 MiB: no difference" in result_text(done, changes, "release")
    # Two sizes of one release share their steps.
    assert len(done.probes) <= 1 + 2 * (math.ceil(math.log2(15)) + 1)
    found = result_json(done, changes)
    assert [each["at"] for each in found["changes"]] == [RELEASES[3], RELEASES[3], RELEASES[12]]
    assert found["changes"][0]["step"]["interval"][1] < 1


def test_nothing_slower_is_no_release(tmp_path: Path) -> None:
    done, changes = Releases({MIB: stepped(16)}).bisect(tmp_path)
    assert changes == [] and len(done.probes) == 1
    faster, none = Releases({MIB: stepped(16, (5, 0.5))}).bisect(tmp_path / "faster")
    assert none == [] and "times as fast as 2.27.3" in result_text(faster, none, "release")


def test_two_steps_are_told(tmp_path: Path) -> None:
    done, (change,) = Releases({MIB: stepped(16, (4, 1.1), (11, 1.4))}).bisect(tmp_path)
    assert change.at == 11
    assert "other steps slow it down too: without this one it would be 0.9" in result_text(done, [change], "release")


def test_what_is_not_monotone_is_said(tmp_path: Path) -> None:
    times = stepped(16, (10, 1.5))
    times[7] = 60.0  # the first middle: much faster than the first
    done, (change,) = Releases({MIB: times}).bisect(tmp_path)
    assert not_monotone(done.probes, change.key, 0.02) == [(0, 7)]
    assert "not monotone: 2.29.5 is faster than 2.27.3" in result_text(done, [change], "release")
    straight, (usual,) = Releases({MIB: stepped(16, (10, 1.5))}).bisect(tmp_path / "straight")
    assert "not monotone" not in result_text(straight, [usual], "release")


def test_releases_that_do_not_start_are_passed_over(tmp_path: Path) -> None:
    times = stepped(16, (9, 1.5))
    times[7] = times[6] = math.inf
    done, (change,) = Releases({MIB: times}).bisect(tmp_path)
    assert (change.before, change.at) == (8, 9) and sure_of(change)
    assert "left out, exit code 3" in result_text(done, [change], "release")
    times = stepped(16, (9, 1.5))
    times[8] = math.inf
    done, (change,) = Releases({MIB: times}).bisect(tmp_path / "beside")
    assert (change.before, change.at, change.between) == (7, 9, (8,)) and not sure_of(change)
    said = result_text(done, [change], "release")
    assert "slower somewhere after 2.29.5 and up to 2.30.3; 2.29.9: not measured" in said


@pytest.mark.parametrize("end", [0, 15])
def test_an_end_that_cannot_be_measured_ends_it(end: int, tmp_path: Path) -> None:
    times = stepped(16, (9, 1.5))
    times[end] = math.inf
    with pytest.raises(UserError, match="cannot be measured: exit code 3"):
        Releases({MIB: times}).bisect(tmp_path)


def test_a_release_that_cannot_be_fetched_is_passed_over(tmp_path: Path) -> None:
    machine = Releases({MIB: stepped(16, (9, 1.5))})
    done = Bisection(RELEASES[:16], level_without(7), Plan((), ("all_reduce",), limits=Limits(seconds=1e6)), tmp_path,
                     machine.measure, lambda: machine.now)  # fmt: skip
    (change,) = done.run()
    assert (change.before, change.at) == (8, 9) and sure_of(change)
    assert "2.29.5 against 2.27.3, 0 trials: left out, no wheel of it" in result_text(done, [change], "release")
    for end in (0, 15):
        done.level, done.probes, done.tracks = level_without(end), [], []
        with pytest.raises(UserError, match="no wheel of it"):
            done.run()


def level_without(missing: int) -> Callable[[int], Level]:
    """Levels as a source of releases makes them, one of which it has not."""

    def level(number: int) -> Level:
        if number == missing:
            raise UserError("no wheel of it")
        return Level(str(number))

    return level


def test_fetches_that_fail_slowly_end_with_the_budget(tmp_path: Path) -> None:
    machine = Releases({MIB: stepped(16, (9, 1.5))})

    def level(number: int) -> Level:
        if 0 < number < 15:
            machine.now += 300
            raise UserError("no answer")
        return Level(str(number))

    done = Bisection(RELEASES[:16], level, Plan((), ("all_reduce",), limits=Limits(seconds=500)), tmp_path,
                     machine.measure, lambda: machine.now)  # fmt: skip
    (change,) = done.run()
    assert done.stop is Stop.TIME and not sure_of(change) and len(done.probes) <= 4


def test_what_a_fetch_takes_is_not_taken_from_measuring(tmp_path: Path) -> None:
    machine = Releases({MIB: stepped(16, (5, 1.3))})
    fetched = set()

    def slow(number: int) -> Level:
        if number not in fetched:
            machine.now += 500.0  # 300 MB over a slow network, and unpacked
            fetched.add(number)
        return Level(str(number))

    plan = Plan((), ("all_reduce",), limits=Limits(seconds=400.0))
    done = Bisection(RELEASES[:16], slow, plan, tmp_path, machine.measure, lambda: machine.now)
    (change,) = done.run()
    assert (change.before, change.at) == (4, 5) and sure_of(change) and not done.over


def test_why_the_first_cannot_be_measured_is_told_though_the_time_is_up(tmp_path: Path) -> None:
    machine = Releases({MIB: [math.inf, 100.0, 100.0]})
    with pytest.raises(UserError, match=r"2\.27\.3 cannot be measured: exit code 3: it cannot be loaded"):
        machine.bisect(tmp_path, seconds=0.5)


def test_the_chance_of_a_false_claim_is_shared_among_steps_and_sizes(tmp_path: Path) -> None:
    def width(count: int, *sizes: int) -> float:
        chance = random.Random(3)
        trials = [
            Trial(number, variant, Outcome.MEASURED, 1.0,
                  {Point("all_reduce", size, "in_place"): 100 * math.exp(noise) for size in sizes})
            for number in range(8) for variant, noise in ((0, chance.gauss(0, 0.01)), (1, chance.gauss(0, 0.01)))
        ]  # fmt: skip

        def measure(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
            return next(each for each in trials if (each.round, each.variant) == (number, variant))

        plan = Plan((), ("all_reduce",), limits=Limits(seconds=1e6, rounds=8))
        folder = tmp_path / f"{count}-{len(sizes)}"
        done = Bisection(RELEASES[:count], lambda number: Level(str(number)), plan, folder, measure)
        done.run()
        interval = done.ends["all_reduce", MIB].interval
        assert interval is not None
        return interval.high / interval.low

    assert width(2, MIB) < width(16, MIB) < width(16, MIB, KIB, 64 * MIB)


def test_of_two_like_steps_the_first_is_named(tmp_path: Path) -> None:
    # The first middle lies half way itself.
    machine = Releases({MIB: stepped(16, (4, 1.2), (11, 1.2))}, noise=0.002)
    _, (change,) = machine.bisect(tmp_path)
    assert change.at == 4


def test_a_size_that_stays_undecided_leaves_time_for_the_others(tmp_path: Path) -> None:
    machine = Releases({MIB: stepped(16, (9, 1.5)), KIB: stepped(16, (1, 1.004))}, noise=0.05)
    done, changes = machine.bisect(tmp_path, seconds=200, rounds=1000)
    assert [(change.key[1], change.at) for change in changes] == [(MIB, 9)]
    assert done.stop is Stop.SURE and machine.now < 220


def test_time_that_is_up_and_going_on(tmp_path: Path) -> None:
    machine = Releases({MIB: stepped(16, (9, 1.1))})
    done, changes = machine.bisect(tmp_path, seconds=18)
    assert done.stop is Stop.TIME and not any(sure_of(change) for change in changes)
    _, (change,) = machine.bisect(tmp_path)
    assert change.at == 9
    lines = [json.loads(line) for line in (tmp_path / "000-015" / "trials.jsonl").read_text().splitlines()]
    rounds = [(line["round"], line["variant"]) for line in lines]
    assert len(rounds) == len(set(rounds))


def test_noise_names_no_release(tmp_path: Path) -> None:
    named = [Releases({MIB: stepped(8), KIB: stepped(8)}, seed).bisect(tmp_path / str(seed), rounds=20)[1]
             for seed in range(10)]  # fmt: skip
    assert sum(map(bool, named)) <= 1


def test_values_of_a_setting() -> None:
    assert [level.label for level in of_setting("NCCL_BUFFSIZE=1M..16M")] == [str(MIB << n) for n in range(5)]
    assert [level.label for level in of_setting("N=4..12+4")] == ["4", "8", "12"]
    assert [level.label for level in of_setting("N=8..2")] == ["8", "4", "2"]
    assert [level.label for level in of_setting("N=1..6")] == ["1", "2", "4", "6"]
    levels = of_setting("NCCL_ALGO=unset,Ring,Tree")
    assert [level.environment for level in levels] == [{"NCCL_ALGO": v} for v in (None, "Ring", "Tree")]


@pytest.mark.parametrize("text", ["N", "=1,2", "N=", "N=1", "N=1..1", "N=0..4", "N=a..b", "N=1,1", "N=1..99999999+1",
                                  "N=1..4+0", "N=1...4"])  # fmt: skip
def test_settings_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        of_setting(text)


def test_profiles_reach_the_launch() -> None:
    one, two = of_profiles(["old=--launcher srun --nodes 2", "new=--hosts a,b"])
    plan = Plan((Factor("value", (one, two)),), ("all_reduce", "-b", "8"), 2, ("--bind", "cores"))
    words = command_of(plan, plan.variants[1], Path("r"), 9)
    assert words[words.index("--bind") :][:5] == ["--bind", "cores", "--hosts", "a,b", "all_reduce"]
    for wrong in (["old"], ["=x", "b=y"], ["a=x", "a=y"], ["a='", "b="]):
        with pytest.raises(UsageError):
            of_profiles(wrong)


def test_versions() -> None:
    assert parse_range("2.27.3..2.32.3") == ("2.27.3", "2.32.3")
    assert sorted(["2.26.2.post1", "2.26.5", "2.26.2", "2.3.1"], key=version_key) == [
        "2.3.1", "2.26.2", "2.26.2.post1", "2.26.5"]  # fmt: skip
    names = ["libnccl.so.2.28.9", "nvidia_nccl_cu12-2.28.9-py3-none-manylinux_2_18_x86_64.whl", "nccl-2.28.9", "lib"]
    assert [version_in(name) for name in names] == ["2.28.9"] * 3 + [None]
    assert within(["2.9.1", "2.28.3", "2.10.0"], "2.9.1", "2.10.0", "here") == ["2.9.1", "2.10.0"]
    early = ["2.29.2rc1", "2.29.2", "2.29.2.dev3", "2.29.2a1", "2.28.3", "2.30.1b2"]
    assert sorted(early, key=version_key) == ["2.28.3", "2.29.2.dev3", "2.29.2a1", "2.29.2rc1", "2.29.2", "2.30.1b2"]
    assert within(early, "2.28.3", "2.29.2", "here") == ["2.28.3", "2.29.2"]
    assert within(early, "2.29.2rc1", "2.30.1b2", "here") == ["2.29.2rc1", "2.29.2", "2.30.1b2"]
    assert version_in("nvidia_nccl_cu12-2.29.2rc1-py3-none-manylinux_2_18_x86_64.whl") == "2.29.2rc1"
    with pytest.raises(UsageError, match=r"2\.28\.9 is not in here; near it are 2\.28\.3"):
        within(["2.27.3", "2.28.3"], "2.27.3", "2.28.9", "here")
    for wrong in ("2.28", "2.32.3..2.27.3", "a..b", "2.28.3..2.28.3"):
        with pytest.raises(UsageError):
            parse_range(wrong)
