"""What the form of an error's sentence tells, whichever program wrote it, and which lines belong to an error."""

from __future__ import annotations

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.lines.beside import Following, Frame, closed_by
from busbw.doctor.meanings.areas import thrown_in
from busbw.doctor.meanings.sentences import FORMS, meant
from busbw.doctor.reading.snapshot import Snapshot, TextFile


def loud(text: str) -> list[Finding]:
    found = examine(gather(Snapshot("x", logs=(TextFile("job.log", text),))))
    return [each for each in found if each.severity is not Severity.NOTE]


@pytest.mark.parametrize(
    ("text", "meaning", "cure"),
    [
        ("num_moons (6) must be divisible by moon_parallel (4).", "num_moons", "moon_parallel (4) so that it divides"),
        ("num_moons (6) must be divisible by moon_parallel (4).", "multiple", "such as 3, 2, 1"),
        ("moon_size=9 must be divisible by 256", "multiple of 256", "change moon_size=9 to a multiple of 256"),
        ("moon_shards should divide moon_len.", "moon_len must be a multiple of moon_shards", "choose moon_shards"),
        ("Moon fusion requires tide >= 2.", "needs tide >= 2", "switch Moon fusion off"),
        (
            "The moon cache is only supported with tide kernels.",
            "works only with tide kernels",
            "do without moon cache",
        ),
        ("TideCache only supports full moons, got 'half'.", "supports only full moons", "use full moons there"),
        ("Async moons are not yet supported by `TideTrainer`. Pass plain moons.", "by TideTrainer", "do without Async"),
        ("TideTrainer does not support async moons.", "does not work with async moons", "change async moons"),
        ("Unknown moon_backend half. Valid values: full, new.", "moon_backend half is refused", "one of: full, new"),
        ("Expected 3 moons, but got 2.", "3 moons is wanted, and 2 came", "pass 3 moons there"),
        ("If tide is set, moon_path must be provided, but got None.", "moon_path is not set", "set moon_path If tide"),
        ("moon_id must be non-negative, got -4.", "moon_id is not as", "non-negative (now: -4)"),
        ("Cannot use moons while tides run", "one may not use moons", "tides run"),
        ("--moon and --sun are mutually exclusive", "exclude each other", "set only one of the two"),
        ("moon size mismatch: 4 vs 5", "moon size does not match (4 vs 5)", "alike on all ranks"),
        ("MoonDB is not installed. Run it.", "MoonDB is not installed", "install MoonDB"),
        ("tide() got an unexpected keyword argument 'moon'", "does not know the argument moon", "leave moon out"),
        ("cannot import name 'Moon' from 'tide.core' (/v/tide/core.py)", "tide.core has no Moon", "pip show"),
        ("'NoneType' object has no attribute 'moon'", "(None)", "a path, config key"),
        (
            "tide/moon.cu:88 in function rise: Assertion failed: a == b. Moon rows must match the tide",
            "Moon rows",
            "set",
        ),
        ("tide_process() wasn't called yet to tell", "tide_process() is not there yet", "set or start tide_process()"),
        ("Failed to raise moon: the tide is low", "raise moon failed: tide is low", "what stands behind the colon"),
    ],
)
def test_a_sentence_is_told_by_its_form(text: str, meaning: str, cure: str) -> None:
    told = meant(text)
    assert told is not None
    assert meaning in told[0] and cure in told[1], told


@pytest.mark.parametrize(
    "text", ["", "the moon", "it rises and produces incorrect results there", "Please open an issue."]
)
def test_what_has_no_form_is_told_by_none(text: str) -> None:
    assert meant(text) is None


def test_every_form_fills_its_slots_and_meets_no_empty_line() -> None:
    slots = dict.fromkeys(("a", "b", "c", "k", "p", "x", "instead", "where", "when", "divisors"), "moon")
    for form in FORMS:
        assert form.words.search("") is None
        assert "{" not in form.meaning.format_map(slots) + form.cure.format_map(slots)


def test_a_sentence_of_a_hostile_file_costs_little() -> None:
    for text in ("a " * 400, "must be " * 100, "cannot " * 100 + "x", ", ".join(["not"] * 200), "got expected " * 60):
        meant(text)  # bounded by the test's own time


THROWN = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "/v/site-packages/tide/checkpoint.py", line 9, in rise
[rank3]:     raise it
"""
WAITS = (
    "[rank0]:[E1128 10:12:01.000 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 ms before "
    "timing out.\n"
)


@pytest.mark.parametrize("name", ["tide.MoonUnavailable", "tide.moon.NoTideFound", "ValueError", "tide.MoonError"])
def test_what_closes_a_traceback_stands_before_those_that_wait(name: str) -> None:
    first = loud(f"{THROWN}[rank3]: {name}: the moon is not there\n{WAITS}")[0]
    assert first.name == "python-exception" and "the moon is not there" in first.title


@pytest.mark.parametrize(
    "line", ["", "  x = 1", "RuntimeError: x", "subprocess.TimeoutExpired: x", "Killed", "lower: x"]
)
def test_what_signatures_know_is_told_by_them(line: str) -> None:
    assert closed_by(line) is None


def test_a_watchdog_behind_an_error_does_not_tell_its_cause() -> None:
    first = loud(f"{THROWN}[rank3]: ValueError: the moon is empty\n{WAITS}")[0]
    assert "moon is missing or empty" in first.title and "in time" not in first.title + first.fix
    assert "tide: reading or writing checkpoints" in first.title


def test_advice_to_debug_does_not_make_an_error_calm() -> None:
    text = (
        f"{THROWN}[rank3]: RuntimeError: One of the subprocesses has died.To debug the error, disable tides.\n{WAITS}"
    )
    assert loud(text)[0].name == "python-exception"


def test_an_error_that_names_a_hub_is_no_noise_of_it() -> None:
    text = f"{THROWN}[rank3]: ImportError: Saving moons requires `huggingface_hub` version 9 or higher.\n{WAITS}"
    assert loud(text)[0].name == "python-exception"


def test_lines_of_the_same_rank_go_on_with_an_error_and_others_do_not() -> None:
    following = Following()
    following.told("[rank3]: MoonError: two lines", 5)
    for line in (
        "[rank3]: the second",
        "[rank4]: of another",
        "[rank3]: x ChildFailedError: x",
        WAITS,
        "[rank3]: the last",
    ):
        following.go_on(line)
    assert following.kept[5].after == "\n[rank3]: the second\n[rank3]: the last"


def test_a_check_that_names_a_library_is_the_programs_own() -> None:
    checked = "[rank1]: RuntimeError: Bitsandbytes is only supported on CUDA GPUs.\n"
    called = "[rank1]: RuntimeError: cuda runtime failed to rise: moons are only supported on tides\n"
    assert loud(checked)[0].name == "python-exception"
    assert loud(called)[0].name == "cuda-call-failed"


@pytest.mark.parametrize(
    ("file", "area"),
    [
        (
            "/v/lib/python3.12/site-packages/transformers/models/llama/tokenization_llama.py",
            "transformers: its tokenizer",
        ),
        ("/w/Megatron-LM/megatron/core/pipeline_parallel/schedules.py", "megatron: pipeline parallelism"),
        ("/w/train.py", ""),
    ],
)
def test_the_part_of_a_program_is_told_by_its_file(file: str, area: str) -> None:
    assert thrown_in([Frame(file, "1", "f")]) == area
