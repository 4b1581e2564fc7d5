"""`busbw fleet run` with a stand-in that measures: faults are named, failures are results, a stop loses little."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.fleet import run
from busbw.fleet.fabric import Fabric, fabric_of
from busbw.fleet.judge import judge
from busbw.fleet.kept import records
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.results import Results
from busbw.fleet.trial import WITHIN, Outcome, Trial
from busbw.fleet.words import Launching, traffic
from busbw.records import read_records

STAND_IN = """\
#!{python} -SE
import os, sys, time
if os.environ.get("BUSBW_RANK", "0") != "0":
    sys.exit()
nodes = os.environ["BUSBW_FLEET_NODES"].split(",")
with open({log!r}, "a") as log:
    log.write(os.environ["BUSBW_FLEET_CHANNEL"] + " " + ",".join(nodes) + "\\n")
time.sleep({pause})
if "n3" in nodes and {n3!r} == "dies":
    sys.exit("the NIC is gone")
if "n3" in nodes and {n3!r} == "hangs":
    time.sleep(60)
if "n3" in nodes and {n3!r} == "babbles":
    open(os.environ["BUSBW_FLEET_SAMPLES"], "w").write("fast\\n")
    sys.exit()
level = 9.0 if "n5" in nodes else 10.0
with open(os.environ["BUSBW_FLEET_SAMPLES"], "w") as out:
    for number in range(int(os.environ["BUSBW_FLEET_REPEATS"])):
        out.write(f"{{level * (1 + 0.002 * (number % 3 - 1))}}\\n")
"""


def stand_in(folder: Path, n3: str = "", pause: float = 0.0) -> list[str]:
    program = folder / "measures"
    program.write_text(STAND_IN.format(python=sys.executable, log=str(folder / "log"), n3=n3, pause=pause))
    program.chmod(0o755)
    return ["fleet", "run", str(folder / "f.jsonl"), "--hosts", "n[0-7]", "--rails", "1", "--inside", "none",
            "--launcher", "local", "--program", str(program), "--repeats", "3"]  # fmt: skip


def found(out: str) -> set[tuple[str, str]]:
    return {(each["kind"], each["place"]) for each in json.loads(out)["faults"]}


def test_a_slow_node_is_named_and_nothing_is_left_behind(tmp_path: Path, capsys) -> None:
    assert main([*stand_in(tmp_path), "--json"]) == 1
    assert found(capsys.readouterr().out) == {("link", "n5")}
    assert {path.name for path in tmp_path.iterdir()} == {"measures", "log", "f.jsonl", "runs"}
    assert main(["fleet", "judge", str(tmp_path / "f.jsonl"), "--json"]) == 1
    assert found(capsys.readouterr().out) == {("link", "n5")}


def test_levels_join_the_history_once(tmp_path: Path, capsys, runs_of_this_test: Path) -> None:
    words = [*stand_in(tmp_path), "--size", "90000000", "--env", "NCCL_ALGO=Ring", "--env", "API_TOKEN=geheim12345678"]
    assert main([*words, "--no-record"]) == 1
    assert not runs_of_this_test.exists()
    (tmp_path / "f.jsonl").unlink()
    assert main(words) == 1
    kept = sorted(runs_of_this_test.glob("*/record.jsonl"))
    assert main(words) == 1  # nothing is left to measure, so nothing is kept
    assert kept and sorted(runs_of_this_test.glob("*/record.jsonl")) == kept
    (record,) = [each for path in kept for each in read_records(path)]
    assert record.run.machine == "n[0-7], rail within racks" and record.run.environment["NCCL_ALGO"] == "Ring"
    assert "geheim" not in kept[0].read_text() and any("n5" in note for note in record.run.notes)
    # All of n0 to n4, n6 and n7 give 10 GB/s: 2 (n - 1) / n of 90 MB in 9 ms and more.
    of_ranks = {case.ranks: case for case in record.cases}
    assert set(of_ranks) <= {2, 4, 8} and of_ranks[2].busbw_GBps == pytest.approx(10, rel=0.01)
    assert of_ranks[2].time_us == pytest.approx(9000, rel=0.01)
    capsys.readouterr()
    assert main(["history"]) == 0
    assert "n[0-7], rail within racks, all_reduce, 2 ranks, large (85.8 MiB): 1 run" in capsys.readouterr().out


def test_the_time_is_that_of_an_all_reduce_over_so_many_ranks() -> None:
    fabric = Fabric(tuple(f"n{number}" for number in range(8)), {}, 1)
    outcomes = [Outcome(Trial(WITHIN, fabric.nodes[at : at + 4], "rail0", 3), (30.0,) * 3) for at in (0, 4)]
    how = Launching(Path("engine"), size=1_000_000_000)
    (record,) = records(fabric, Results([outcomes]), [], how, "r")
    (case,) = record.cases
    # Each rank sends and receives 2 * 3 / 4 of 1 GB at 30 GB/s.
    assert (case.ranks, case.algbw_GBps, case.busbw_GBps) == (4, 20.0, 30.0) and case.time_us == pytest.approx(5e4)


@pytest.mark.parametrize(
    ("fate", "reason"),
    [
        ("dies", "the NIC is gone"),
        ("babbles", "one bandwidth in GB/s a line"),
    ],
)
def test_a_node_that_dies_or_babbles_is_a_result(tmp_path: Path, capsys, fate: str, reason: str) -> None:
    assert main([*stand_in(tmp_path, fate), "--json", "--trial-limit", "3"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert {(each["kind"], each["place"], each["loss"] == 1) for each in said["faults"]} == {
        ("link", "n3", True), ("link", "n5", False),
    }  # fmt: skip
    assert reason in said["faults"][0]["reason"]


def test_where_every_group_fails_the_launch_is_accused_and_no_node(tmp_path: Path, capsys) -> None:
    words = stand_in(tmp_path)
    (tmp_path / "measures").write_text("#!/bin/sh\necho 'no route to the cluster' >&2\nexit 3\n")
    assert main(words) == 2
    said = capsys.readouterr()
    assert "nothing was measured: all 4 groups failed" in said.err and "no route to the cluster" in said.err
    assert "n3" not in said.out
    assert len((tmp_path / "f.jsonl").read_text().splitlines()) == 1, "its head alone: the next start measures all"
    assert main(stand_in(tmp_path)) == 1, "n5 is slow"
    assert "n5" in capsys.readouterr().out


def test_in_later_rounds_failed_groups_are_results_however_many(tmp_path: Path, monkeypatch) -> None:
    groups = [Trial(WITHIN, nodes, "rail0", 3) for nodes in (("n0", "n1"), ("n2", "n3"))]
    monkeypatch.setattr(run, "next_round", lambda _, known, __: groups if known.rounds < 2 else [])
    asked: list[int] = []

    def measured(wave, *_) -> list[Outcome]:
        asked.append(len(wave))
        return [Outcome(each, () if len(asked) > 1 else (1.0, 1.0, 1.0), "it died") for each in wave]

    monkeypatch.setattr(run, "_measure", measured)
    fabric = fabric_of(["n0", "n1", "n2", "n3"], {}, 1)
    wanted = run.Asked(fabric, Options(), Results())
    known = run.measure(wanted, Launching(tmp_path, "local"), tmp_path / "f", run.Limits(), lambda _: None)
    assert (known.rounds, asked) == (2, [2, 2])


def test_a_group_that_hangs_is_a_result_and_the_others_have_theirs(tmp_path: Path, capsys) -> None:
    # The budget ends it after the first round: each more would wait for the limit again.
    assert main([*stand_in(tmp_path, "hangs"), "--trial-limit", "2.5", "--budget", "1"]) == 124
    assert "the budget of 1 s has passed" in capsys.readouterr().err
    results = [json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines()[1:]]
    hung = [each["nodes"] for each in results if each.get("reason") == "it did not end within its time"]
    assert len(results) == 4 and len(hung) == 1 and "n3" in hung[0]
    assert all(each["samples"] for each in results if each["nodes"] not in hung)


def test_a_reason_is_that_of_the_node_itself() -> None:
    known = Knowledge()
    for pairs in (("ab", "cd"), ("ac", "bd"), ("ad", "bc")):
        for _ in range(2):
            known.learn([
                Outcome(Trial(WITHIN, tuple(pair), "rail0", 4), (), f"{pair[0]} hangs") if pair[0] in "ab"
                else Outcome(Trial(WITHIN, tuple(pair), "rail0", 4), (1.0, 1.01, 1.0, 0.99)) for pair in pairs
            ])  # fmt: skip
    found = judge(Fabric(tuple("abcd")), known, Options(inside=()))
    assert {verdict.place: verdict.reason for verdict in found} == {"a": "a hangs", "b": "b hangs"}


def test_a_killed_coordinator_goes_on_without_measuring_twice(tmp_path: Path, capsys) -> None:
    words = [*stand_in(tmp_path, pause=0.2), "--steps-at-once", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    first = subprocess.Popen([sys.executable, "-m", "busbw", *words], env=environment, stderr=subprocess.DEVNULL)
    file = tmp_path / "f.jsonl"
    deadline = time.monotonic() + 60
    while not (file.exists() and file.read_text().count("\n") >= 3):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    kept = file.read_text()
    assert main([*words, "--json"]) == 1
    assert found(capsys.readouterr().out) == {("link", "n5")}
    assert file.read_text().startswith(kept[: kept.rindex("\n") + 1])
    groups = (tmp_path / "log").read_text().splitlines()
    # Only what was under way when the kill came is measured a second time.
    assert len(groups) - (file.read_text().count("\n") - 1) <= 1


def test_where_the_disk_is_full_no_node_is_to_blame(tmp_path: Path, capsys, monkeypatch) -> None:
    full = os.statvfs_result((4096, 4096, 100, 3, 3, 100, 50, 50, 0, 255))
    monkeypatch.setattr(run.os, "statvfs", lambda _: full)
    assert main(stand_in(tmp_path, "dies")) == 2
    assert f"{tmp_path} is full" in capsys.readouterr().err
    assert len((tmp_path / "f.jsonl").read_text().splitlines()) == 1, "its head alone"


def test_the_budget_ends_it_with_what_is_there(tmp_path: Path, capsys) -> None:
    assert main([*stand_in(tmp_path, pause=0.3), "--steps-at-once", "1", "--budget", "0.5"]) == 124
    assert "goes on from" in capsys.readouterr().err
    assert len((tmp_path / "f.jsonl").read_text().splitlines()) >= 2


PAIRS = [Trial(WITHIN, (f"n{at}", f"m{at}"), "rail0", 2) for at in range(5)]


def test_no_more_nodes_and_steps_at_once_than_were_allowed() -> None:
    for limits, sizes in (({"nodes_at_once": 4}, [2, 2, 1]), ({"nodes_at_once": 5}, [2, 2, 1]),
                          ({"nodes_at_once": 1}, [1] * 5), ({"steps_at_once": 3}, [3, 2])):  # fmt: skip
        assert [len(wave) for wave in run.waves(PAIRS, run.Limits(**limits))] == sizes


def test_groups_that_would_pass_the_limit_of_traffic_are_not_begun(tmp_path: Path) -> None:
    how = Launching(tmp_path, "local", size=1000)
    each, fabric = traffic(PAIRS[0], how), Fabric(("n0", "m0", "n1", "m1"))
    begun: list[Trial] = []

    def measured(trials, *_) -> list[Outcome]:
        begun.extend(trials)
        return [Outcome(trial, (10.0,) * 16) for trial in trials]

    wanted = run.Asked(fabric, Options(inside=(), repeats=2), Results(), measured)
    with pytest.raises(run.StoppedError, match="limit of traffic") as stopped:
        run.measure(wanted, how, tmp_path / "f", run.Limits(traffic=1.5 * each, steps_at_once=1), lambda _: None)
    assert (len(begun), stopped.value.exit_code) == (1, 124)


def test_one_group_that_fails_accuses_no_launch(tmp_path: Path) -> None:
    def failed(trials, *_) -> list[Outcome]:
        return [Outcome(trial, (), "it died") for trial in trials]

    wanted = run.Asked(Fabric(("n0", "m0")), Options(inside=()), Results(), failed)
    known = run.measure(wanted, Launching(tmp_path, "local"), tmp_path / "f", run.Limits(), lambda _: None)
    assert [one.reason for one in known.found[WITHIN].values()] == ["it died"]


def test_a_program_or_launcher_that_is_not_there_is_one_sentence(tmp_path: Path, capsys) -> None:
    words = stand_in(tmp_path)
    assert main([*words[:-3], "nowhere"]) == 2
    assert "no program that can be run" in capsys.readouterr().err
    assert main([*words, "--launcher", "mpirun", "--launcher-program", "/no/mpirun"]) == 2
    assert "was not found" in capsys.readouterr().err
    assert not (tmp_path / "f.jsonl").exists()
