"""Help, completion, the manual page, the reference and the schema of a launch say what the table of options says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
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


def words_of(text: str) -> list[str]:
    return text.split(" ")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("all_r", ["all_reduce"]),
        ("--ver", ["--version"]),
        ("all_reduce --launcher sl", ["slurm"]),
        ("all_reduce --launcher=sl", ["--launcher=slurm"]),
        ("all_reduce --row", ["--row-budget"]),
        ("all_reduce -d bf", ["bfloat16"]),
        ("all_reduce --library to", ["torch"]),
        ("all_reduce --library ./lib", None),
        ("all_gather -o avg -b", ["-b"]),
        ("runs del", ["delete"]),
        ("runs show --mach", []),
        ("runs list --mach", ["--machine"]),
        ("run --ranks 2 --bi", ["--bind"]),
        ("run --ranks 2 sendr", ["sendrecv"]),
        ("run --ranks 2 sendrecv --minb", ["--minbytes"]),
        ("experiment --vary A=1,2 -- all_reduce -d dou", ["double"]),
        ("experiment --vary A=1,2 -- sendr", ["sendrecv"]),
        ("experiment pl", None),
        ("import x.log --collective all_reduce --quie", ["--quiet"]),
        ("import x.log --collective reduce_", ["reduce_scatter"]),
        ("report --title run --form", ["--format"]),
        ("azureml tear", ["teardown"]),
        ("azureml submit all_reduce --minb", ["--minbytes"]),
        ("tune nc", ["nccl"]),
        ("baseline m", ["make"]),
        ("completion z", ["zsh"]),
        ("compare READ", None),
        ("compare A --margin ", []),
        ("doctor --log CHANGE", None),
        ("doctor --log=CHANGE", ["--log=CHANGELOG.md"]),
        ("doctor --log=schema/opt", ["--log=schema/options.json"]),
        ("doctor --log=/no/such/", []),
        ("with -- pyth", None),
        ("watch pyth", None),
        ("tune --rounds ", []),
        ("nosuch a", []),
    ],
)
def test_a_word_is_completed_by_where_it_stands(
    text: str, wanted: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    found = completion.offered(words_of(text))
    assert (None if found is None else [word for word, _ in found]) == wanted


def test_every_option_of_every_verb_is_offered() -> None:
    for verb in VERBS:
        found = completion.offered([verb.name, "-"])
        assert found is not None
        assert {f"--{each.name}" for each in completion.all_options(verb.name)} <= {word for word, _ in found}


def completed(program: Path, text: str) -> list[str]:
    """What bash offers for the last of these words, which it cuts at every = too."""
    words = [each for each in re.split(r" |(=)", f"{program} {text}") if each is not None]
    line = " ".join(map(shlex.quote, words))
    code = f"{completion.script('bash')}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}\n"
    code += '_busbw; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == ""
    return done.stdout.split()


def completed_by_fish(program: Path, text: str) -> list[str]:
    """What fish offers for the last of these words."""
    code = f"set PATH {program.parent} $PATH\n{completion.script('fish')}\ncomplete -C {shlex.quote(f'busbw {text}')}"
    done = subprocess.run(["fish", "--no-config"], input=code, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == ""
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_shells_offer_words_values_and_files(shell: str, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "busbw"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT}/python exec {sys.executable} -m busbw "$@"\n')
    program.chmod(0o755)
    ask = {"bash": completed, "fish": completed_by_fish}[shell]
    assert ask(program, "all_r") == ["all_reduce"]
    assert ask(program, "all_reduce --launcher=sl") == (["slurm"] if shell == "bash" else ["--launcher=slurm"])
    assert ask(program, "compare READ") == ["README.md"]
    assert ask(program, "tune --rounds ") == []


@pytest.mark.parametrize(("shell", "check"), [("bash", "bash -n"), ("zsh", "zsh -n"), ("fish", "fish --no-execute")])
def test_each_shell_can_parse_its_script(shell: str, check: str, tmp_path: Path) -> None:
    text = completion.script(shell)
    assert f"completion {shell} -- " in text
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(text)
    subprocess.run([*check.split(), str(tmp_path / "script")], check=True, capture_output=True)


def test_what_zsh_takes_apart_at_a_colon_is_marked() -> None:
    [line] = completion.lines("zsh", ["all_reduce", "--launcher=sl"])
    assert line == "--launcher=slurm:"
    assert completion.lines("zsh", ["compare", "x"]) == ["/"]
    assert completion.lines("bash", ["all_reduce", "--launcher", "=", "sl"]) == ["--launcher=slurm"]
    assert completion.lines("fish", ["all_r"]) == ["all_reduce\tmeasure all_reduce and check its results"]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_an_installation_has_the_completion_of_every_shell(shell: str) -> None:
    assert f'completion {shell} >"$prefix/share/' in (ROOT / "tools" / "install").read_text()
