"""Words are read as getopt_long reads them, old names go on with a line, and mistakes are one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from busbw.base.errors import UsageError
from busbw.base.options import ENGINE, MEASURING, options_of, table, title, words_of
from busbw.base.quantities import parse_bytes, parse_percent, parse_ranges, parse_seconds, within
from busbw.base.words import Read, Reader, parse, value_of
from busbw.cli.arguments.measuring import understand
from busbw.cli.verbs import VERBS

PAGES = Path(__file__).parents[3] / "docs" / "reference"


def read(*words: str) -> Read:
    return Reader(options_of(MEASURING), "busbw reduce").read(words)


def given(*words: str) -> list[tuple[str, str | None]]:
    return [(each.option.name if each.option else "", each.text) for each in read(*words).given]


@pytest.mark.parametrize("words", [("-b", "8"), ("-b8",), ("--minbytes", "8"), ("--minbytes=8",), ("--min", "8")])
def test_a_value_may_be_written_in_every_way(words: tuple[str, ...]) -> None:
    assert given(*words) == [("minbytes", "8")]


@pytest.mark.parametrize("word", ["--max-seconds=3", "--max_seconds=3", "--row_budget=3", "--row-b=3"])
def test_dashes_and_underscores_are_the_same_and_old_names_go_on(word: str) -> None:
    assert given(word) == [("row-budget", "3")]


def test_a_name_of_ours_never_makes_a_beginning_of_nccl_tests_ambiguous() -> None:
    assert given("--l=1") == [("local_register", "1")]  # not --library
    assert given("--run_=5") == [("run_cycles", "5")]
    assert given("--runs=5") == [("runs", "5")]
    with pytest.raises(UsageError, match="--report_cputime and --report_timestamps"):
        read("--rep=1")  # not --record, which is ours


def test_a_beginning_of_a_launch_option_is_no_name() -> None:
    with pytest.raises(UsageError, match="did you mean '--launcher'"):
        read("--launche", "slurm")


@pytest.mark.parametrize("word", ["--nosuch", "--foo", "--xyz", "--frobnicate", "--whatever", "--invalid", "--fake"])
def test_what_is_near_no_option_gets_no_proposal(word: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse("fleet plan", [word])
    assert "did you mean" not in str(refused.value)
    with pytest.raises(UsageError, match="did you mean '--smallest-loss'"):
        parse("fleet plan", ["--smallest"])


def test_an_option_that_takes_no_value_refuses_one_and_one_that_does_misses_it() -> None:
    with pytest.raises(UsageError, match="--no-record takes no value"):
        read("--no-record=yes")
    with pytest.raises(UsageError, match="--runs needs a value: DIR"):
        read("--runs")
    with pytest.raises(UsageError, match=r"-n \(--iters\) needs a value: N"):
        read("-n")


def test_the_record_and_the_libraries_are_found_wherever_they_stand() -> None:
    asked = understand("reduce", ["-b", "8", "--runs=D", "--library", "a", "--record=F", "--library=b", "-e", "16"])
    assert (asked.record.runs, asked.record.keep, asked.record.named) == ("D", True, "F")
    assert asked.texts("library") == ("a", "b")
    assert asked.engine_words == ("-b", "8", "--library", "a", "--record=F", "--library=b", "-e", "16")
    assert understand("reduce", ["--no-record", "-b", "8"]).engine_words == ("-b", "8")


def test_stray_words_are_refused_unless_another_engine_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BUSBW_ENGINE", raising=False)
    for words in (["8"], ["--", "8"], ["--frobnicate"]):
        with pytest.raises(UsageError):
            understand("reduce", words)
    monkeypatch.setenv("BUSBW_ENGINE", "/another")
    assert understand("reduce", ["--frobnicate", "8", "-b", "8"]).engine_words == ("--frobnicate", "8", "-b", "8")


@pytest.mark.parametrize(
    ("verb", "words", "key", "value"),
    [
        ("experiment", ["--time", "3m"], "budget", 180.0),
        ("experiment", ["--trial-timeout=9"], "trial_limit", 9.0),
        ("experiment", ["--summary"], "no_table", True),
        ("experiment", ["-n", "4"], "ranks", 4),
        ("tune", ["-n4"], "ranks", 4),
        ("doctor", ["--prove", "--prove-time", "1m", "-n", "2"], "budget", 60.0),
        ("baseline", ["make", "r", "-o", "f"], "output", Path("f")),
        ("predict", ["--gpus", "4"], "gpus_per_node", 4),
        ("azureml", ["submit", "--collect"], "wait", True),
        ("topo", ["--with", "t.xml"], "topology", "t.xml"),
    ],
)
def test_an_old_name_goes_on_with_a_line_that_says_the_new_one(
    verb: str, words: list[str], key: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert getattr(parse(verb, words), key) == value
    lines = capsys.readouterr().err.splitlines()
    assert any(f" is now --{key.replace('_', '-')}; the old name goes with the next release" in line for line in lines)


def test_every_old_name_is_none_of_the_new_ones() -> None:
    for verb in {name for entry in table()["options"] for name in entry["verbs"]} - {"every"}:
        options = options_of(verb)
        now = {f"--{each.name}" for each in options} | {f"-{each.letter}" for each in options if each.letter}
        then = [name for each in options for name in each.old]
        assert not now.intersection(then), verb
        assert len(set(then)) == len(then), verb


def test_an_action_of_a_verb_takes_its_own_options_only() -> None:
    assert parse("runs", ["tag", "r", "good", "--note", "n"]).tag == ["good"]
    assert parse("runs", ["--tag", "good"]).tag == ["good"]
    with pytest.raises(UsageError, match="--rebuild means nothing to `busbw runs list`"):
        parse("runs", ["--rebuild"])
    with pytest.raises(UsageError, match="takes one of list, show, tag"):
        parse("runs", ["bake"])
    with pytest.raises(UsageError, match="RUN is missing"):
        parse("runs", ["show"])
    with pytest.raises(UsageError, match="'b' was not expected"):
        parse("runs", ["show", "a", "b"])


@pytest.mark.parametrize(
    ("verb", "words", "why"),
    [
        ("tune", ["--rounds", "0"], "at least 1 and at most 100, not 0"),
        ("tune", ["--rounds", "many"], "takes a whole number"),
        ("tune", ["--budget", "soon"], "write it as 90s"),
        ("compare", ["a", "b", "--margin", "200"], "between 0 and 100 percent"),
        ("compare", ["a", "b", "--sizes", "2M-1M"], "ends before it begins"),
        ("report", ["a", "--format", "pdf"], "takes one of text, md"),
        ("predict", ["--nodes", "0,1"], "from 1 on"),
        ("predict", ["--nic-gbps", "fast"], "takes a number"),
        ("torch-bench", ["-b", "0"], "at least 1"),
        ("report", ["a", "--output", ""], "names a file or folder, but its value is empty"),
        ("runs", ["list", "--runs="], "names a file or folder, but its value is empty"),
        ("compare", ["a", "b", "--ranks", "\u0661"], "takes a whole number"),
        ("compare", ["a", "b", "--ranks", "1_0"], "takes a whole number"),
        ("compare", ["a", "b", "--ranks", "9" * 20], "too many digits"),
        ("compare", ["a", "b", "--ranks", "9" * 5000], "takes a whole number"),
        ("compare", ["a", "b", "--sizes", "\u0661K"], "is no size"),
        ("compare", ["a", "b", "--margin", "nan"], "takes a number"),
        ("compare", ["a", "b", "--margin", "x", "--margin", "3"], "takes a number"),
        ("import", ["a", "--tag", ""], "--tag needs a value: TAG"),
        ("runs", ["--outcome", "good"], "takes one of completed, failed"),
        ("doctor", ["--ranks", "2"], "--ranks means nothing without --prove"),
        ("topo", ["--audit", "--svg", "/"], "/ cannot be written: it is a folder"),
        ("topo", ["--svg", "/dev/null/x.svg"], "/dev/null is no folder"),
        ("experiment", ["--launch", "--nonsense"], "no option '--nonsense'"),
        ("experiment", ["--launch", "--ranks two"], "takes a whole number"),
        ("tune", ["--datatype", "float99"], "takes one of int8"),
        ("tune", ["--launch", "'"], "cannot be split into words"),
        ("gate", [], "RUN is missing"),
        ("report", [""], "a word is empty"),
        ("runs", ["delete", "a", " "], "a word is empty"),
        ("gate", ["a", "--stric"], "did you mean '--strict'"),
        ("gate", ["a", "-q"], "there is no option '-q'"),
    ],
)
def test_what_cannot_be_understood_is_one_sentence(verb: str, words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        parse(verb, words)
    assert "\n" not in str(caught.value) and caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [("90s", 90), ("20m", 1200), ("2h", 7200), ("00:20:00", 1200), ("1-00:00:01", 86401), ("45", 45), ("1.5h", 5400)],
)
def test_a_time_is_written_in_one_way_everywhere(text: str, found: float) -> None:
    assert parse_seconds(text) == found


@pytest.mark.parametrize("text", ["", "0", "0s", "-1", "5d", "1:2:3:4", "1e9", "9" * 5000])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_seconds(text)


def test_sizes_are_a_list_of_sizes_and_ranges() -> None:
    found = parse_ranges("8,1K-1M,1G-")
    assert found == ((8, 8), (1024, 1 << 20), (1 << 30, 2**63))
    assert [within(size, found) for size in (8, 9, 1024, 2 << 20, 1 << 40)] == [True, False, True, False, True]
    assert within(5, None)
    for text in ("", "8,", "x-1"):
        with pytest.raises(ValueError):
            parse_ranges(text)
    assert parse_ranges("-") == ((0, 2**63),)
    assert parse_percent("3%") == parse_percent("3") == 0.03
    assert parse_bytes("1.5 MiB") == 3 << 19


def test_a_text_may_be_empty_where_that_means_something() -> None:
    assert parse("runs", ["tag", "RUN", "--note", ""]).note == ""
    assert parse("experiment", ["--launch", ""]).launch == ()


def test_every_default_and_choice_can_be_read() -> None:
    for entry in table()["options"]:
        for verb in entry["verbs"]:
            for option in options_of(verb):
                if option.default is not None and option.half != ENGINE:
                    value_of(option, option.default)
                for choice in option.choices:
                    assert value_of(option, choice) == choice
                assert title(option.group) and option.help


def test_the_table_names_verbs_that_there_are() -> None:
    names = {verb.name for verb in VERBS} | {MEASURING, "every"}
    for entry in table()["options"]:
        assert {verb.split()[0] for verb in entry["verbs"]} <= names, entry["name"]
        assert set(entry.get("at", {})) <= set(entry["verbs"]) | {verb.split()[0] for verb in entry["verbs"]}
        known = {"name", "letter", "value", "unit", "default", "said", "range", "choices", "offers", "group", "half",
                 "theirs", "repeats", "launchers", "writes", "makes", "needs", "empty", "old", "help", "verbs",
                 "at"}  # fmt: skip
        assert set(entry) <= known, entry["name"]
        assert (entry["unit"] == "flag") == ("value" not in entry), entry["name"]
    for verb in table()["words"]:
        assert verb.split()[0] in names
        assert [each.count for each in words_of(verb) if each.count not in ("1", "?", "*", "+", "rest")] == []


def test_no_other_file_reads_words_of_a_command_line() -> None:
    """What six readers did by hand is done once: no other module compares words with the spelling of an option."""
    package = Path(__file__).parents[2] / "busbw"
    spellings = {f'"--{each.name}"' for each in options_of(MEASURING)}
    suspicious = ('partition("=")', 'startswith("--')
    for path in package.rglob("*.py"):
        text = path.read_text()
        if path.name == "words.py" or not any(mark in text for mark in suspicious):
            continue
        lines = [line for line in text.splitlines() if any(spelling in line for spelling in spellings)]
        assert not [line for line in lines if "==" in line or " in {" in line or "startswith" in line], path


def test_reading_the_table_loads_no_parser_and_no_other_room() -> None:
    program = "import sys; from busbw.base.words import parse; parse('tune', []); print(*sys.modules)"
    source = {"PYTHONPATH": str(PAGES.parents[1] / "python")}
    done = subprocess.run([sys.executable, "-S", "-c", program], env=source, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"argparse", "tomllib", "subprocess", "busbw.launch", "busbw.cli"}


def test_the_table_is_plain_json_of_one_option_a_line() -> None:
    lines = (PAGES.parents[1] / "schema" / "options.json").read_text().splitlines()
    entries: list[Any] = [json.loads(line.strip().rstrip(",")) for line in lines if line.startswith('  {"name"')]
    assert entries == table()["options"]
