"""Help, completion, the manual page, the reference and the schema of a launch say what the table of options says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from busbw.base.options import LAUNCH, MEASURING, options_of, table
from busbw.cli.arguments import completion, man, reference
from busbw.cli.main import main
from busbw.cli.verbs import VERBS

ROOT = Path(__file__).parents[4]
by_name = pytest.mark.parametrize("verb", [verb.name for verb in VERBS])


@by_name
def test_help_shows_every_option_of_the_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    text = capsys.readouterr().out
    for each in completion.all_options(verb):
        assert re.search(rf"(^|\s)--{each.name}\b", text), each.name
        if each.letter:
            assert f"-{each.letter}, --{each.name}" in text


def test_the_help_of_a_collective_shows_launchers_and_several_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    main(["all_reduce", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "--launcher NAME" in text and "slurm" in text
    assert "--library system --library torch" in text and "Two or more: measured in turn" in text


def test_the_reference_is_what_the_table_says() -> None:
    page = ROOT / "docs" / "reference" / "options.md"
    assert reference.with_tables(page.read_text()) == page.read_text(), "run python -m busbw.cli.arguments.reference"


def test_the_schema_of_a_launch_is_what_the_table_says() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    kept = json.loads((ROOT / "schema" / "launch.schema.json").read_text())
    assert kept == reference.launch_schema(), "run python -m busbw.cli.arguments.reference"
    check = jsonschema.Draft202012Validator(kept)
    assert check.is_valid({"launcher": "slurm", "nodes": 2, "gpus-per-node": 8, "env": ["NCCL_DEBUG=INFO"]})
    for wrong in ({"launcher": "gossip"}, {"ranks": 0}, {"ranks": "2"}, {"rank": 2}, {"env": "A=B"}):
        assert not check.is_valid(wrong), wrong
    assert set(kept["properties"]) == {each.name for each in options_of(MEASURING) if each.half == LAUNCH}


def test_the_manual_page_names_every_option_and_roff_takes_it() -> None:
    page = man.page()
    for entry in table()["options"]:
        assert f"\\-\\-{entry['name']}".replace("_", "_").replace("-", "\\-").replace("\\\\-", "\\-") in page
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    done = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=page, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "--row-budget TIME" in re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout).replace("\u2010", "-")


def completed(*words: str) -> list[str]:
    """What bash offers for the last of these words."""
    program = f"{completion.script('bash')}\nCOMP_WORDS=({' '.join(map(repr, words))})\nCOMP_CWORD={len(words) - 1}\n"
    program += '_busbw; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == ""
    return done.stdout.split()


def completed_by_fish(*words: str) -> list[str]:
    """What fish offers for the last of these words."""
    program = f"{completion.script('fish')}\ncomplete -C {shlex.quote(' '.join(words))}"
    done = subprocess.run(["fish", "--no-config"], input=program, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == ""
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("busbw", "all_r"), ["all_reduce"]),
        (("busbw", "all_reduce", "--launcher", "sl"), ["slurm"]),
        (("busbw", "all_reduce", "--row"), ["--row-budget"]),
        (("busbw", "runs", "del"), ["delete"]),
        (("busbw", "run", "--ranks", "2", "--bi"), ["--bind"]),
        (("busbw", "run", "--ranks", "2", "sendr"), ["sendrecv"]),
        (("busbw", "completion", "z"), ["zsh"]),
        (("busbw", "compare", "READ"), ["README.md"]),
        (("busbw", "doctor", "--log", "CHANGE"), ["CHANGELOG.md"]),
        (("busbw", "tune", "--rounds", ""), []),
    ],
)
def test_shells_complete_verbs_options_values_and_files(shell: str, words: tuple[str, ...], offered: list[str]) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    assert {"bash": completed, "fish": completed_by_fish}[shell](*words) == offered


@pytest.mark.parametrize(("shell", "check"), [("bash", "bash -n"), ("zsh", "zsh -n"), ("fish", "fish --no-execute")])
def test_each_shell_can_parse_its_script(shell: str, check: str, tmp_path: Path) -> None:
    text = completion.script(shell)
    for verb in VERBS:
        for each in completion.all_options(verb.name):
            assert f"--{each.name}" in text or f"-l {each.name}" in text
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(text)
    subprocess.run([*check.split(), str(tmp_path / "script")], check=True, capture_output=True)
