"""Programs and the whole command, run for real on the processors."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from gpu_library.contest import Player, last_words, play
from gpu_library.program import STOPPED, Command, Log, run, run_all
from gpu_library.programs import symm_mem
from gpu_library.stages import faults

BENCH = Path(__file__).resolve().parents[4] / "bench" / "gpu_library"
BUILD = Path(os.environ.get("BUSBW_BUILD", BENCH.parents[1] / "build"))
needs_build = pytest.mark.skipif(
    not (BUILD / "bin" / "busbw_stress").exists(), reason="busbw_stress is not built; BUSBW_BUILD names a build folder"
)


def python(script, **environment):
    return Command((sys.executable, "-c", script), {**os.environ, **environment})


def test_a_program_that_outlasts_its_limit_is_ended_with_all_it_started(tmp_path):
    child = "import subprocess,sys,time; subprocess.Popen(['sleep','60']); print('here', flush=True); time.sleep(60)"
    began = time.monotonic()
    ended = run(python(child), 0.5)
    assert (ended.code, time.monotonic() - began < 5) == (STOPPED, True)
    assert "here" in ended.text


def test_once_one_rank_failed_the_others_get_a_little_time_and_no_more():
    began = time.monotonic()
    ended = run_all([python("raise SystemExit(3)"), python("import time; time.sleep(60)")], 30, grace_s=0.3)
    assert [each.code for each in ended] == [3, STOPPED]
    assert time.monotonic() - began < 10


def test_what_a_running_program_prints_is_read_without_moving_where_it_writes():
    from gpu_library.program import Started

    started = Started(python("import time; print('one', flush=True); time.sleep(0.6); print('two', flush=True)"))
    while "one" not in started.printed():
        assert started.runs()
        time.sleep(0.02)
    assert started.end().text == "one\ntwo\n"


def test_a_program_that_is_not_there_is_a_sentence():
    ended = run(Command(("/no/such/program",), {}), 1)
    assert (ended.code, ended.text) == (127, "/no/such/program: No such file or directory\n")


def test_the_last_words_are_those_that_say_why():
    assert last_words("busbw: it hung\nsome footer\n") == "busbw: it hung"
    assert last_words("Traceback\nKeyError: x\n") == "KeyError: x"
    assert last_words("") == "it said nothing"


PLAYER = """
import json, os, sys
sys.path.insert(0, {bench!r})
from gpu_library.programs.symm_mem import Turn, case_line
turn = Turn(os.environ["BUSBW_TURNS"])
for cycle in range(3):
    turn.take(cycle_begins=False)
    with open({order!r}, "a") as order:
        order.write({name!r})
    with open({record!r}, "a") as record:
        record.write(case_line(1024, 2.5 + cycle, 0, "one_shot", cycle) + "\\n")
    {then}
"""


def player(tmp_path, name, then="pass"):
    record = tmp_path / f"{name}.jsonl"
    script = PLAYER.format(
        bench=str(BENCH.parent), order=str(tmp_path / "order"), name=name, record=str(record), then=then
    )
    return Player(name, python(script), record)


def test_players_take_turns_and_each_ones_figures_are_read(tmp_path):
    outcomes = play([player(tmp_path, "A"), player(tmp_path, "B")], 30, Log(tmp_path / "log.txt"), "test")
    assert [(o.name, o.code, [s.us for s in o.samples]) for o in outcomes] == [
        ("A", 0, [2.5, 3.5, 4.5]), ("B", 0, [2.5, 3.5, 4.5])
    ]  # fmt: skip
    order = (tmp_path / "order").read_text()
    assert order in {"ABABAB", "BABABA"}
    assert "==== test, A: exit 0" in (tmp_path / "log.txt").read_text()


def test_a_player_that_dies_leaves_its_turns_to_the_others_and_its_figures_stand(tmp_path):
    dies, lives = player(tmp_path, "A", then="raise SystemExit('busbw: A is broken')"), player(tmp_path, "B")
    outcomes = play([dies, lives], 30, Log(tmp_path / "log.txt"), "test")
    assert [(len(o.samples), o.code, o.reason) for o in outcomes] == [(1, 1, "busbw: A is broken"), (3, 0, "")]


def test_a_player_that_hangs_on_its_turn_costs_the_time_that_was_allowed_and_no_more(tmp_path):
    hangs = player(tmp_path, "A", then="import time; time.sleep(60)")
    began = time.monotonic()
    outcomes = play([hangs, player(tmp_path, "B")], 2.0, Log(tmp_path / "log.txt"), "test")
    assert time.monotonic() - began < 15
    assert outcomes[0].code == STOPPED
    assert len(outcomes[0].samples) == 1


def test_symm_mems_turns_speak_the_engines_protocol(tmp_path):
    path = str(tmp_path / "turns")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(1)
    asked = []

    def hand_out():
        connection, _ = listener.accept()
        asked.append(connection.recv(1))
        connection.sendall(b"g")
        asked.append(connection.recv(1))
        connection.close()

    thread = threading.Thread(target=hand_out)
    thread.start()
    turn = symm_mem.Turn(f"2 {path}")
    turn.take(cycle_begins=False)
    with pytest.raises(ConnectionError, match="has ended"):
        turn.take(cycle_begins=False)
    thread.join()
    listener.close()
    turn.close()
    assert asked == [b"r", b"r"]
    symm_mem.Turn(None).take(cycle_begins=True)
    assert list(symm_mem.sizes(1024, 70_000, 8)) == [1024, 8192, 65536]


def test_the_rank_that_is_killed_and_how_long_the_others_lived_on():
    base = "import sys,time\nprint('under way', flush=True)\ntime.sleep({s})\nprint('rank 1 is lost'); sys.exit(3)"
    commands = [python(base.format(s=0.6)), python(base.format(s=60))]
    began, ended, after = faults.kill_one(commands, 1, "under way", 30, settle_s=0.1)
    assert began
    assert [each.code for each in ended] == [3, 137]
    assert after[0] < faults.PATIENCE_S
    assert "rank 1 is lost" in ended[0].text


def bench(tmp_path, *words, limit=90):
    argv = [sys.executable, str(BENCH), *words, "--host", "--gpus", "2", "--build", str(BUILD), "--out", str(tmp_path)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=limit, check=False)


@needs_build
def test_speed_and_stress_run_on_the_processors_from_start_to_page(tmp_path):
    words = (
        "speed",
        "stress",
        "--sizes",
        "1K:4K",
        "--rounds",
        "1",
        "--cycles",
        "2",
        "--calls",
        "200",
        "--budget",
        "60",
    )
    done = bench(tmp_path, *words, "--collectives", "all_reduce")
    assert done.returncode == 0, done.stdout + done.stderr
    call = json.loads((tmp_path / "results.json").read_text())
    assert {r["peer"] for r in call["stages"]["speed"]} == {"ours", "NCCL"}
    assert all(len(r["samples"]) == 2 * 2 * 2 for r in call["stages"]["speed"])  # sizes, cycles, placements
    assert sum(r["calls"] for r in call["stages"]["stress"]) >= 200
    assert {file.name for file in tmp_path.iterdir() if file.is_file()} == {"results.json", "report.md", "log.txt"}
    page = (tmp_path / "report.md").read_text()
    assert "### all_reduce, 2 GPUs, eager" in page
    assert page.count("0 wrong") == len(call["stages"]["stress"])


@needs_build
@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_library_that_spoils_results_is_found_with_call_rank_and_element(tmp_path, rank):
    library = BUILD / "lib" / "libbusbw_test_corrupting.so"
    inner = {"BUSBW_TEST_INNER": str(BUILD / "lib" / "libbusbw_cpu.so"), "BUSBW_TEST_RANK": rank,
             "BUSBW_TEST_ELEMENT": "100"}  # fmt: skip
    argv = [str(BUILD / "bin" / "busbw_stress"), "--library", str(library), "--memory", "host", "--threads", "2",
            "--calls", "500", "--largest", "16K", "--timeout", "10"]  # fmt: skip
    done = subprocess.run(argv, env={**os.environ, **inner}, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 7
    assert f"on rank {rank} of 2" in done.stderr
    assert "1 of " in done.stderr
    assert "the first is number 100:" in done.stderr


@needs_build
def test_the_stress_run_refuses_what_it_cannot_do_in_a_sentence():
    program = str(BUILD / "bin" / "busbw_stress")
    for words, sentence in (
        ([], "--library is missing"),
        (["--library", "/no.so"], "cannot load the library /no.so"),
        (["--library", "x", "--threads", "0"], "--threads takes 1 to 64"),
        (["--library", "x", "--colour"], "there is no option --colour"),
    ):
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 255
        assert sentence in done.stderr


def test_the_command_refuses_unknown_stages_sizes_and_collectives_in_a_sentence(tmp_path):
    for words, sentence in (
        (("fly",), "no stage is called fly"),
        (("speed", "--sizes", "1X"), "'1X' is no size"),
        (("speed", "--collectives", "gather"), "gather: none of the collectives"),
        (("report",), "report needs --results"),
    ):
        done = bench(tmp_path, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr


TORCH = os.environ.get("BUSBW_TORCH_PYTHON", "")


@pytest.mark.skipif(not TORCH, reason="BUSBW_TORCH_PYTHON names no Python with torch")
@pytest.mark.parametrize("workload", ["ddp", "tensor_parallel"])
def test_training_gives_the_same_bits_on_all_ranks_over_gloo(workload):
    from gpu_library.program import as_ranks, free_port
    from gpu_library.stages import training

    argv = (TORCH, str(training.PROGRAM), workload, "--backend", "gloo", "--size", "tiny")
    ended = run_all(as_ranks(argv, os.environ, 2, free_port()), 90)
    assert [each.code for each in ended] == [0, 0], ended[0].text
    ranks = training.parse(each.text for each in ended)
    assert training.equal_on_all_ranks(ranks)
    assert len(ranks[0]["shared_losses"]) == 5
    assert len(ranks[0]["step_ms"]) == 4


def turns(*words):
    program = BENCH / "programs" / "beside_turns.py"
    argv = (TORCH, str(program), "--ranks", "2", "--backend", "gloo", "--amount", "tiny", *words)
    (ended,) = run_all([Command(argv, os.environ)], 120)
    return ended


@pytest.mark.skipif(not TORCH, reason="BUSBW_TORCH_PYTHON names no Python with torch")
def test_each_start_of_turns_has_its_own_ranks_and_each_side_its_own_steps():
    ended = turns("--starts", "2", "--side", "other:A=1", "--only", "other:experts", "tensor_parallel", "experts")
    assert ended.code == 0, ended.text
    found = [json.loads(line) for line in ended.text.splitlines() if line.startswith("{")]
    assert [(each["start"], each["side"], each["what"]) for each in found] == [
        (0, "NCCL", "tensor_parallel"), (0, "NCCL", "experts"), (0, "ours", "tensor_parallel"), (0, "ours", "experts"),
        (0, "other", "experts"), (1, "other", "experts"), (1, "ours", "tensor_parallel"), (1, "ours", "experts"),
        (1, "NCCL", "tensor_parallel"), (1, "NCCL", "experts")]  # fmt: skip
    assert all(each["step_ms"] > 0 for each in found)
    assert sum(line.startswith(("| tensor_parallel | 2 |", "| experts | 2 |")) for line in ended.text.splitlines()) == 5


@pytest.mark.skipif(not TORCH, reason="BUSBW_TORCH_PYTHON names no Python with torch")
def test_a_start_whose_rank_fails_is_told_and_ends_its_peers():
    ended = turns("--starts", "1", "no_such_step")
    assert ended.code == 1
    assert "NCCL, start 0: rank 0 ended with 1" in ended.text or "NCCL, start 0: rank 1 ended with 1" in ended.text
