"""`busbw fleet` as an operator types it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from busbw.cli.main import main
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.plan import next_round
from busbw.fleet.results import head_line, result_line
from busbw.fleet.simulate import Fault, World, make_fabric, run

FAULTS = (Fault("cable1@node0003", 0.2), Fault("leaf0@pod01", 0.1), Fault("nvlink@node0012", 0.5))


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """The results of a small fleet with three faults."""
    world, options, known = World(make_fabric(16, 8, 2), FAULTS), Options(), Knowledge()
    lines = [head_line(world.fabric, options)]
    while trials := next_round(world.fabric, known, options):
        outcomes = run(world, trials, known.rounds)
        lines += [result_line(known.rounds, outcome) for outcome in outcomes]
        known.learn(outcomes)
    file = tmp_path / "results.jsonl"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_judge_names_faults_worst_first_and_shows_what_leaves_the_nodes_out(measured: Path, capsys) -> None:
    assert main(["fleet", "judge", str(measured)]) == 1
    said = capsys.readouterr().out
    assert said.index("nvlink") < said.index("link") < said.index("leaf")
    assert "State=DRAIN" in said
    assert "NodeName=node0012" in said and "NodeName=node0003" in said
    assert "NodeName=node0008" not in said, "a slow leaf condemns no node"
    assert all(len(line) <= 80 for line in said.splitlines() if "scontrol" not in line)


def test_judge_writes_json_junit_and_three_kinds_of_lists(measured: Path, capsys, tmp_path: Path) -> None:
    junit = tmp_path / "fleet.xml"
    metrics = tmp_path / "fleet.prom"
    words = ["fleet", "judge", str(measured), "--json", "--junit", str(junit), "--prometheus", str(metrics)]
    assert main(words) == 1
    assert "busbw_fleet_fault_loss_ratio{" in metrics.read_text()
    found = json.loads(capsys.readouterr().out)
    assert [(each["kind"], each["place"]) for each in found["faults"]] == [
        ("nvlink", "node0012"), ("link", "node0003"), ("leaf", "pod01"),
    ]  # fmt: skip
    assert set(found["exclude"]) == {"node0012", "node0003"}
    suite = ET.parse(junit).getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("17", "3")
    for words, lines in (("slurm", 2), ("kubernetes", 2), ("hostfile", 14)):
        assert main(["fleet", "judge", str(measured), "--exclude", words]) == 1
        assert len(capsys.readouterr().out.splitlines()) == lines
    assert main(["fleet", "judge", str(measured), "--exclude", "srun"]) == 1
    assert capsys.readouterr().out == "--exclude=node[0003,0012]\n"


def test_plan_prints_launch_lines_and_goes_on_from_results(measured: Path, capsys, tmp_path: Path) -> None:
    topology = tmp_path / "topology.conf"
    topology.write_text("SwitchName=a Nodes=gpu[1-8]\nSwitchName=b Nodes=gpu[9-16]\n")
    assert main(["fleet", "plan", "--topology", str(topology), "--rails", "2", "--inside", "none"]) == 0
    said = capsys.readouterr().out
    assert said.count("srun ") == 4
    assert "--nodelist=gpu[1-8]" in said.replace("'", "")
    assert main(["fleet", "plan", str(measured)]) == 0
    assert "nothing is left" in capsys.readouterr().out


def test_simulate_says_what_was_drawn_and_named(capsys) -> None:
    words = ["fleet", "simulate", "--nodes", "32", "--pod-nodes", "8", "--rails", "2", "--faults", "2", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["drawn"]) == found["faults"] == 2


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["plan"], "say which nodes", 2),
        (["plan", "--hosts", ""], "--hosts needs a value", 2),
        (["plan", "--hosts", "a,b,a"], "a is named twice", 1),
        (["plan", "--hosts", "a,b", "--hostfile", "f"], "give one of them", 2),
        (["plan", "--hosts", "a,b", "--inside", "nic"], "needs --program", 2),
        (["plan", "--hosts", "a,b", "--inside", "cpu"], "is none of them", 2),
        (["judge"], "FILE is missing", 2),
        (["judge", "nowhere"], "cannot be read", 2),
        (["judge", "RESULTS", "--hosts", "a,b"], "is of other nodes", 2),
        (["judge", "EMPTY"], "say which nodes", 2),
        (["judge", "EMPTY", "--hosts", "a,b"], "holds no results", 2),
        (["plan", "--hosts", "a,b", "--topology", "EMPTY"], "names no node", 1),
        (["plan", "--hosts", "a,b", "--drain"], "means nothing to `busbw fleet plan`", 2),
    ],
)
def test_a_mistake_is_one_sentence(measured: Path, capsys, words: list[str], said: str, code: int) -> None:
    empty = measured.with_name("empty")
    empty.touch()
    words = [{"RESULTS": str(measured), "EMPTY": str(empty)}.get(word, word) for word in words]
    assert main(["fleet", *words]) == code
    heard = capsys.readouterr()
    assert said in heard.err
    assert len(heard.err.splitlines()) == 1
    assert heard.out == ""


def test_results_without_a_head_need_the_nodes_and_strangers_are_refused(measured: Path, capsys) -> None:
    bare = measured.with_name("bare")
    bare.write_text("".join(measured.read_text().splitlines(keepends=True)[1:]))
    assert main(["fleet", "judge", str(bare), "--hosts", "node[0000-0015]", "--rails", "2"]) == 1
    assert "node0003" in capsys.readouterr().out
    assert main(["fleet", "judge", str(bare), "--hosts", "node[0000-0014]", "--rails", "2"]) == 2
    assert "node0015 is not among the 15 nodes" in capsys.readouterr().err


def test_verdicts_over_noise_are_called_so(capsys, tmp_path: Path) -> None:
    lines = [{"round": 0, "kind": "within", "channel": "rail0", "nodes": pair, "samples": [6.0, 10.0, 9.0, 14.0]}
             for pair in (["a", "b"], ["c", "d"])]  # fmt: skip
    file = tmp_path / "noisy"
    file.write_text("\n".join(map(json.dumps, lines)))
    main(["fleet", "judge", str(file), "--hosts", "a,b,c,d", "--rails", "1"])
    assert "may be noise" in capsys.readouterr().err


def test_the_library_that_is_named_is_the_one_that_measures(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fleet", "plan", "--hosts", "n[0-3]", "--rails", "1", "--inside", "none"]
    assert main([*words, "--library", "/opt/libnccl.so.2"]) == 0
    assert "--library /opt/libnccl.so.2" in capsys.readouterr().out
    assert main(words) == 0
    assert "--library" not in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--expected", "nvlink"], ["--earlier", "nowhere.jsonl"], ["--page", "/"]])
def test_what_judges_in_the_end_is_looked_at_before_anything_is_measured(
    words: list[str], tmp_path: Path, capsys
) -> None:
    file = tmp_path / "new.jsonl"
    hosts = ["--hosts", "a[1-2]", "--launcher", "local", "--rails", "1", "--gpus-per-node", "1", "--size", "1K"]
    assert main(["fleet", "run", str(file), *hosts, *words]) == 2
    assert "round 1" not in capsys.readouterr().err and not file.exists()


def test_why_a_node_is_broken_is_told_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    why = "rank 0 ended with 3: busbw: 8 ranks were asked for and this node has 4 GPUs"
    file = tmp_path / "results.jsonl"
    lines = ['{"busbw_fleet": 1, "nodes": ["n1", "n2", "n3", "n4"], "inside": ["nvlink"], "repeats": 4}']
    for number in range(2):
        lines += [json.dumps({"round": number, "kind": "inside", "channel": "nvlink", "nodes": [f"n{at}"],
                              **({"samples": [], "reason": why} if at == 3 else {"samples": [40, 41, 40, 41]})})
                  for at in (range(1, 5) if number == 0 else [3])]  # fmt: skip
    file.write_text("\n".join(lines) + "\n")
    assert main(["fleet", "judge", str(file)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert f"broken of n3: {why}" in said
    assert f"Reason=busbw fleet: broken: {why}" in said
