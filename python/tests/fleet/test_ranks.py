"""`busbw fleet run` started once on each node: rank 0 leads, the others measure and end with it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from busbw.cli.main import main

SOURCE = Path(__file__).resolve().parents[2]
# A neighbour of n2 is slow; what dies or hangs does so on n1 once the first round is over.
PROGRAM = """\
#!{python} -SE
import os, pathlib, sys, time
nodes = os.environ["BUSBW_FLEET_NODES"].split(",")
me = nodes[int(os.environ["BUSBW_RANK"])]
here = pathlib.Path({folder!r})
(here / ("started." + me + "." + str(os.getpid()))).touch()
if any(name.startswith(("OMPI_COMM", "PMIX_", "PMI_", "BUSBW_ADDRESS=:")) for name in os.environ):
    sys.exit("it is taken for a rank")
if {fate!r} == "hangs":
    time.sleep(60)
if {fate!r} == me:
    sys.exit("the NIC is gone")
if {fate!r} in nodes:
    time.sleep(300)  # it waits for that one
if me == nodes[0]:
    level = 8.0 if "n2" in nodes else 10.0
    lines = [str(level * (1 + 0.002 * (number % 3 - 1))) for number in range(int(os.environ["BUSBW_FLEET_REPEATS"]))]
    pathlib.Path(os.environ["BUSBW_FLEET_SAMPLES"]).write_text("\\n".join(lines))
"""


def words_of(folder: Path, fate: str = "") -> list[str]:
    program = folder / "measures"
    program.write_text(PROGRAM.format(python=sys.executable, folder=str(folder), fate=fate))
    program.chmod(0o755)
    return ["fleet", "run", str(folder / "f.jsonl"), "--rails", "1", "--inside", "none", "--program", str(program),
            "--repeats", "3", "--smallest-loss", "10"]  # fmt: skip


@contextmanager
def started(count: int, words: Sequence[str], names: str = "n{}", **more: str) -> Iterator[list[subprocess.Popen[str]]]:
    """So many ranks, as launchers start them: rank 0 is on this machine, the nodes have names of their own."""
    ranks = []
    try:
        for rank in range(count):
            place = {"BUSBW_RANK": str(rank), "BUSBW_WORLD_SIZE": str(count), "BUSBW_ADDRESS": "127.0.0.1",
                     "BUSBW_SECRET": f"of {os.getpid()} {words[2]}", "BUSBW_NODE": names.format(rank),
                     "PMIX_RANK": str(rank)}  # fmt: skip
            environment = {**os.environ, "PYTHONPATH": str(SOURCE), **place, **more}
            ranks.append(subprocess.Popen([sys.executable, "-m", "busbw", *words], env=environment, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE))  # fmt: skip
        yield ranks
    finally:
        for each in ranks:
            each.kill()
            each.communicate()


def ended(ranks: Sequence[subprocess.Popen[str]], seconds: float = 60.0) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of each."""
    end = time.monotonic() + seconds
    return [(each.returncode, *said) for each in ranks
            if (said := each.communicate(timeout=max(0.1, end - time.monotonic())))]  # fmt: skip


def programs_of(folder: Path) -> list[int]:
    """Processes of the program that still run."""
    alive = []
    for pid in (int(path.name.rpartition(".")[2]) for path in folder.glob("started.*")):
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                alive.append(pid)
    return alive


def test_a_slow_node_is_named_and_only_rank_0_speaks(tmp_path: Path) -> None:
    with started(5, [*words_of(tmp_path), "--json"]) as ranks:
        (code, out, err), *others = ended(ranks)
    assert code == 1, err
    assert {(each["kind"], each["place"]) for each in json.loads(out)["faults"]} == {("link", "n2")}
    assert others == [(0, "", "")] * 4
    head = json.loads((tmp_path / "f.jsonl").read_text().splitlines()[0])
    assert head["nodes"] == ["n0", "n1", "n2", "n3", "n4"]


def test_a_node_whose_program_dies_and_one_whose_busbw_is_killed_are_results(tmp_path: Path) -> None:
    with started(6, [*words_of(tmp_path, "n1"), "--json"]) as ranks:
        end = time.monotonic() + 60
        while not any(tmp_path.glob("started.*")):
            assert time.monotonic() < end and ranks[0].poll() is None
            time.sleep(0.01)
        ranks[3].kill()
        code, out, err = ended(ranks[:1])[0]
    assert code == 1, err
    losses = {each["place"]: each["loss"] for each in json.loads(out)["faults"]}
    assert losses["n1"] == losses["n3"] == 1 and set(losses) <= {"n1", "n2", "n3"}
    reasons = (tmp_path / "f.jsonl").read_text()
    assert "n1: ended with 1: the NIC is gone" in reasons and "n3: its busbw was lost" in reasons


def test_nobody_is_left_when_rank_0_is_killed(tmp_path: Path) -> None:
    with started(4, words_of(tmp_path, "hangs")) as ranks:
        end = time.monotonic() + 60
        while len(programs_of(tmp_path)) < 4:
            assert time.monotonic() < end and ranks[0].poll() is None
            time.sleep(0.02)
        ranks[0].send_signal(signal.SIGKILL)
        assert ended(ranks[1:], 10.0) == [(0, "", "")] * 3
        while programs_of(tmp_path):
            assert time.monotonic() < end
            time.sleep(0.02)


def test_a_stranger_at_the_door_is_no_rank(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with started(3, words_of(tmp_path), BUSBW_PORT=str(port)) as ranks:
        end = time.monotonic() + 60
        strangers = []
        while len(strangers) < 3 and time.monotonic() < end and ranks[0].poll() is None:
            with suppress(OSError):
                strangers.append(socket.create_connection(("127.0.0.1", port), 1.0))
                strangers[-1].sendall(b'{"rank": 1}\nGET / HTTP/1.0\n\n')
        ends = ended(ranks)
        for each in strangers:
            each.close()
    assert [code for code, _, _ in ends] == [1, 0, 0] and len(strangers) == 3
    assert "3 connections that were not of this job were refused (3 not busbw)" in ends[0][2]
    assert ends[1][2] == ends[2][2] == ""


@pytest.mark.parametrize(
    ("names", "more", "said"),
    [
        ("same", [], "are both on same: start busbw once on each node"),
        ("n{}", ["--hosts", "other[1-2]"], "other1, on which this job has no rank; it has one on n0, n1"),
        ("n{}", ["--idle"], "--idle asks Slurm"),
        ("n{}", ["--inside", "wires"], "--inside takes nvlink"),
        ("n{}", ["--rail", "1"], "there is no option '--rail'"),
    ],
)
def test_what_cannot_be_is_one_sentence_of_rank_0(tmp_path: Path, names: str, more: list[str], said: str) -> None:
    with started(2, [*words_of(tmp_path), *more], names) as ranks:
        (code, out, err), other = ended(ranks, 10.0)
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1
    assert other == (2 if "--rail" in more else 0, "", "")
    assert not (tmp_path / "f.jsonl").exists()


def test_alone_there_are_no_ranks(tmp_path: Path, capsys, monkeypatch) -> None:
    assert main([*words_of(tmp_path), "--launcher", "ranks"]) == 2
    assert "busbw runs alone here" in capsys.readouterr().err
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    assert main([*words_of(tmp_path), "--launcher", "mpirun", "--hosts", "a,b"]) == 0, "rank 0 alone uses it"
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([*words_of(tmp_path), "--launcher", "mpirun", "--hosts", "a,b"]) == 2
    assert "through ssh, which is not installed here" in capsys.readouterr().err


def test_a_plan_shows_what_each_node_starts(tmp_path: Path, capsys) -> None:
    assert (
        main(["fleet", "plan", "--hosts", "a,b,c,d,e,f,g,h", "--rails", "1", "--inside", "none", "--launcher", "ranks"])
        == 0
    )
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    assert len(lines) == 8 and all("BUSBW_WORLD_SIZE=2" in line and "<made at start>" in line for line in lines)
