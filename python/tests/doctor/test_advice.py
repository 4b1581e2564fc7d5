"""Causes and cures of errors that only their words tell apart: of programs, of machines, and where they were thrown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.lines.beside import Following
from busbw.doctor.lines.candidates import of_all
from busbw.doctor.meanings.advice import own_advice
from busbw.doctor.meanings.machine_errors import MACHINE, OF_MACHINES
from busbw.doctor.meanings.program_errors import FAMILIES
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.doctor.signatures import SIGNATURES

from .corpus.load import FOLDER, cases

CASES = {each.name: each for each in cases()}
CURES = [
    tuple(line.split(" | "))
    for line in (FOLDER / "cures.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


def loud(text: str) -> list[Finding]:
    found = examine(gather(Snapshot("x", logs=(TextFile("job.log", text),))))
    return [each for each in found if each.severity is not Severity.NOTE]


@pytest.mark.parametrize(("name", "title", "cure"), CURES, ids=[each[0] for each in CURES])
def test_the_first_finding_names_cause_and_cure(name: str, title: str, cure: str) -> None:
    first = loud(CASES[name].text)[0]
    assert re.search(title, f"{first.name}: {first.title}", re.IGNORECASE), first.title
    assert re.search(cure, first.fix, re.IGNORECASE), first.fix


@pytest.mark.parametrize("each", [*FAMILIES, *MACHINE], ids=lambda each: each.words.pattern[:30])
def test_every_family_has_a_meaning_and_a_cure(each: object) -> None:
    family = next(row for row in (*FAMILIES, *MACHINE) if row is each)
    assert len(family.meaning) > 15 and len(family.cure) > 20
    assert family.words.search("") is None, "a family of every line"


def test_findings_of_machines_are_signatures() -> None:
    assert OF_MACHINES - {"unknown-error"} <= SIGNATURES.keys()


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("ValueError: too long. Try increasing `a` or decreasing `b`.", "Try increasing `a` or decreasing `b`"),
        ("it broke\nPlease install foo first", "Please install foo first"),
        ("RuntimeError: For debugging consider passing CUDA_LAUNCH_BLOCKING=1", ""),
        ("KeyError: 'x'", ""),
    ],
)
def test_what_an_error_advises_itself(text: str, advice: str) -> None:
    assert own_advice(text) == advice


TRACEBACK = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "/app/train.py", line 17, in step
[rank3]:     out = model(x)
[rank3]:   File "/env/site-packages/lib/core.py", line 99, in forward
[rank3]:     raise ValueError("no")
[rank3]: ValueError: the moon must be full
"""


def test_a_finding_says_where_an_exception_was_thrown_and_called_from() -> None:
    shown = " ".join(seen.fact for seen in loud(TRACEBACK)[0].evidence)
    assert "site-packages/lib/core.py:99 (forward)" in shown and "app/train.py:17 (step)" in shown


def test_the_part_that_a_traceback_names_tells_more_than_a_code_of_cuda() -> None:
    plain = TRACEBACK.replace("ValueError: the moon must be full", "RuntimeError: CUDA driver error: invalid argument")
    within = plain.replace("lib/core.py", "torch/distributed/_symmetric_memory/__init__.py")
    assert "TORCH_SYMM_MEM" not in loud(plain)[0].fix
    assert "TORCH_SYMM_MEM" in loud(within)[0].fix


LOST = "[rank{}]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting\n"
LOST += "[rank{}]: Last error:\n[rank{}]: NET/Socket : the moon closed the connection\n"


@pytest.mark.parametrize(("rank", "first"), [(0, "python-exception"), (2, "nccl-last-error")])
def test_an_exception_of_another_rank_is_why_a_rank_lost_it(rank: int, first: str) -> None:
    text = "[rank2]: KeyError: 'input_ids_v2'\n" + LOST.format(rank, rank, rank)
    assert loud(text)[0].name == first


def test_frames_of_another_traceback_say_nothing() -> None:
    following = Following()
    following.frame('File "/a.py", line 1, in f', 1)
    following.told("KeyError: 1", 90)
    following.told("KeyError: 1", 2)
    assert following.kept[90].frames == () and following.kept[2].frames[0].name == "f"
    following.begin("Traceback (most recent call last):", 3)
    following.told("KeyError: 1", 3)
    assert following.kept[3].frames == ()


def test_a_kernels_object_like_head_is_a_log(tmp_path: Path) -> None:
    path = tmp_path / "dmesg.txt"
    path.write_text("{1}[Hardware Error]: event severity: fatal\n{1}[Hardware Error]:   section_type: memory error\n")
    assert main(["doctor", str(path)]) == 1


STATUS = """\
\u25cf nvidia-fabricmanager.service - NVIDIA fabric manager service
     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled)
     Active: {} since Mon 2026-11-02 10:00:00 UTC; 5min ago
"""


@pytest.mark.parametrize(
    ("state", "names"), [("failed (Result: exit-code)", ["fabric-manager"]), ("active (running)", [])]
)
def test_the_state_of_a_service_is_told_of_that_service(state: str, names: list[str]) -> None:
    assert [each.name for each in loud(STATUS.format(state))] == names


def test_the_index_loses_no_pattern_that_fits() -> None:
    known = tuple(SIGNATURES.values())
    index = of_all(known)
    lines = sorted({line for case in CASES.values() for line in case.text.splitlines() if len(line) < 400})
    patterns = [(each, number, re.compile(pattern, re.IGNORECASE)) for each in known
                for number, pattern in enumerate(each.patterns) if each.triggers[number]]  # fmt: skip
    for line in lines[::97]:
        found = {(each.name, number) for each, among in index.of(line.lower()).candidates for number in among}
        fits = {(each.name, number) for each, number, pattern in patterns if pattern.search(line)}
        assert fits <= found, line


def test_lines_that_all_differ_leave_few_patterns_to_look_for() -> None:
    index = of_all(tuple(SIGNATURES.values()))
    words = [
        "loader",
        "cannot",
        "warn",
        "node",
        "token",
        "cache",
        "missing",
        "error",
        "lost",
        "timeout",
        "peer",
        "rank",
    ]
    words += ["cuda", "socket", "memory", "fails"]
    lines = [
        f"WARNING {words[n % 16]}{n:x} {words[n * 7 % 16]} {words[n * 5 % 16]}x {words[n * 11 % 16]} kind{n}"
        for n in range(400)
    ]
    left = [sum(len(among) for _, among in index.of(line.lower()).candidates) for line in lines]
    assert sum(left) / len(left) < 8
