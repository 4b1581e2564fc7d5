"""The command line finds verbs, names the nearest one, and never shows a traceback for a user's mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.cli.verbs import VERBS, Verb

REPOSITORY = Path(__file__).resolve().parents[3]
SLOW = ("threading", "difflib", "json")
"""What `busbw --help` has no use for; the rule of secrets, which all that is printed goes through, takes pathlib."""
by_name = pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)


@by_name
def test_every_verb_has_a_page_in_the_reference_that_names_it(verb: Verb) -> None:
    page = REPOSITORY / "docs" / "reference" / verb.reference_page
    assert page.is_file(), f"docs/reference/{verb.reference_page} is missing"
    assert f"busbw {verb.name}" in page.read_text(), f"{page.name} shows no `busbw {verb.name}`"
    assert verb.reference_page in (page.parent / "README.md").read_text(), f"the index does not list {page.name}"


@by_name
def test_every_verb_shows_an_example_in_its_help(verb: Verb, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb.name, "--help"]) == 0
    text = capsys.readouterr().out
    assert "xample" in text, f"`busbw {verb.name} --help` has no examples"
    assert text.count(f"busbw {verb.name}") > 1, "the example does not use the verb"


@by_name
def test_help_fits_into_80_columns(verb: Verb, capsys: pytest.CaptureFixture[str]) -> None:
    main([verb.name, "--help"])
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@by_name
def test_the_readme_names_every_verb(verb: Verb) -> None:
    assert f"`{verb.name}`" in (REPOSITORY / "README.md").read_text()


def test_no_verb_is_listed_twice() -> None:
    assert len({verb.name for verb in VERBS}) == len(VERBS)


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {verb.name} " in text for verb in VERBS)


def test_help_imports_no_verb_and_not_even_argparse() -> None:
    program = "import sys; from busbw.cli.main import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    source = {"PYTHONPATH": str(REPOSITORY / "python")}
    done = subprocess.run([sys.executable, "-S", "-c", program], env=source, capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not loaded & ({verb.module for verb in VERBS} | {"argparse", "numpy", "subprocess", "asyncio", *SLOW})


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("all_reduse", "all_reduce"),
        ("all-reduce", "all_reduce"),
        ("all_gather_perf", "all_gather"),
        ("rn", "run"),
        ("COMPARE", "compare"),
    ],
)
def test_an_unknown_verb_is_answered_with_the_nearest_one(
    word: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"busbw: there is no verb '{word}'; did you mean `busbw {near}`?\n"
    assert captured.out == ""


def test_an_option_before_the_verb_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--frobnicate"]) == 2
    assert "came before a verb" in capsys.readouterr().err


def test_an_unknown_option_is_answered_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--ranks", "2", "--time-limt", "3", "all_reduce"]) == 2
    err = capsys.readouterr().err
    assert "did you mean '--time-limit'?" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        "compare NOSUCH", "report NOSUCH", "report catalogue:NOSUCH", "runs show NOSUCH", "runs delete NOSUCH",
        "runs sql NOSUCH", "experiment NOSUCH.toml", "experiment --resume NOSUCH", "baseline make NOSUCH",
        "gate NOSUCH", "azureml price --config NOSUCH", "predict step NOSUCH --machine ndv4", "topo NOSUCH",
        "predict all_reduce --machine ndv4 --from NOSUCH", "doctor --log NOSUCH", "fleet judge NOSUCH",
        "fleet plan --hostfile NOSUCH", "watch --read NOSUCH", "replay NOSUCH", "overlap", "completion NOSUCH",
        "bisect --from-folder NOSUCH --libraries 2.1.1..2.2.2 -- all_reduce", "import NOSUCH",
    ],
)  # fmt: skip
def test_a_word_that_names_nothing_ends_every_verb_with_2_and_a_line(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_RUNS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    err = capsys.readouterr().err
    assert err.startswith("busbw: ") and err.count("\n") == 1, err


@pytest.mark.parametrize(("words", "said"), [("azureml", "one of example, price"), ("runs sql", "a SELECT over")])
def test_a_missing_word_is_explained_without_the_help_around_it(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    err = capsys.readouterr().err
    assert said in err and "below" not in err, err


def test_version_is_the_one_of_the_native_build() -> None:
    from busbw import __version__

    assert f"project(busbw VERSION {__version__} " in (REPOSITORY / "CMakeLists.txt").read_text()
