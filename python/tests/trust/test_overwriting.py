"""No command overwrites the file it reads, whatever the option and by whatever name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.base import files
from busbw.base.errors import UserError
from busbw.base.options import Option, actions_of, options_of, table, words_of
from busbw.cli.main import main
from busbw.cli.verbs import VERBS

TABLE = """#       size      count   type   redop  root   time   algbw   busbw #wrong   time   algbw   busbw #wrong
     1048576        262144     float     sum      -1    10.00  104.86  104.86      0    10.00  104.86  104.86      0
"""
FIRST = {"run": ["all_reduce"], "torch-bench": [], "baseline": ["make"], "tune": []}
"""What a verb needs before a file, where its own words are no files."""
NOT_FILES = {"COLLECTIVE", "make", "STEP", "JOB", "SHELL", "QUERY", "TAG"}


def said(option: Option) -> str:
    return f"--{option.name}"


def writing_commands() -> Iterator[tuple[str, list[str]]]:
    """Each way to name X for reading beside each option that writes X."""
    for verb in VERBS:
        for action in actions_of(verb.name) or ("",):
            known = options_of("collective" if verb.module.endswith("measure") else f"{verb.name} {action}".strip())
            words = words_of(f"{verb.name} {action}".strip())
            start = [verb.name, *([action] if action else []), *FIRST.get(verb.name, [])]
            if verb.name == "run":
                known = (*known, *(each for each in options_of("collective") if each.writes))
            for writer in [each for each in known if each.writes]:
                if any(each.name not in NOT_FILES and each.count != "rest" for each in words):
                    yield verb.name, [*start, "X", said(writer), "X"]
                for reader in known:
                    if not reader.writes and reader.value in {"FILE", "PATH"} and reader.unit in {"path", "text"}:
                        yield verb.name, [*start, f"{said(reader)}=X", f"{said(writer)}=X"]


COMMANDS = list(writing_commands())
READ, MADE = {"FILE", "PATH", "DIR", "FOLDER"}, {("import", "recordings"), ("bisect", "cache"), ("watch", "output")}
"""Values that name something on disk, and folders that a verb makes: it puts nothing over what lies there."""


def folders_that_are_read() -> Iterator[tuple[str, list[str]]]:
    """Each way to name the folder IN for reading beside each option that writes IN/x.log."""
    for verb in VERBS:
        for action in actions_of(verb.name) or ("",):
            known = "collective" if verb.module.endswith("measure") else f"{verb.name} {action}".strip()
            start = [verb.name, *([action] if action else []), *FIRST.get(verb.name, [])]
            for writer in [each for each in options_of(known) if each.writes]:
                if any(each.name not in NOT_FILES and each.count != "rest" for each in words_of(known)):
                    yield verb.name, [*start, "IN", f"{said(writer)}=IN/x.log"]
                for reader in options_of(known):
                    if not reader.writes and reader.value in {"DIR", "FOLDER"} and (verb.name, reader.name) not in MADE:
                        yield verb.name, [*start, f"{said(reader)}=IN", f"{said(writer)}=IN/x.log"]


OF_FOLDERS = list(folders_that_are_read())
VERBS_THAT_WRITE = {
    "all_reduce", "run", "torch-bench", "import", "report", "topo", "doctor", "gate", "baseline", "fleet",
}  # fmt: skip
"""`tune` and `watch` read no file that a word names; what they write is theirs."""


def test_the_table_says_of_every_verb_that_writes_what_it_writes() -> None:
    assert {verb for verb, _ in COMMANDS} >= VERBS_THAT_WRITE
    assert len(COMMANDS) > 60


def test_the_table_says_of_every_option_with_a_file_whether_it_writes_or_reads() -> None:
    """A new verb cannot be forgotten: what its options name on disk is written, read, or made by it."""
    unknown = []
    for verb in VERBS:
        for action in actions_of(verb.name) or ("",):
            known = "collective" if verb.module.endswith("measure") else f"{verb.name} {action}".strip()
            for option in options_of(known):
                speaks = any(word in option.help for word in ("write", "kept", "make ", "record"))
                if option.unit == "path" and not option.writes and speaks and option.name not in {
                    "recordings", "cache", "output", "read", "replay", "resume", "share", "times", "verify",
                }:  # fmt: skip
                    unknown.append(f"{known} --{option.name}")
                assert option.value in READ or not option.writes, option
    assert unknown == []


@pytest.mark.parametrize("through", ["IN", "LINK", "IN/../IN", "HARD"])
def test_no_verb_overwrites_a_file_of_a_folder_that_it_reads(
    through: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BUSBW_RUNS", str(tmp_path / "runs"))
    log = tmp_path / "IN" / "x.log"
    log.parent.mkdir()
    log.write_text(TABLE)
    (tmp_path / "LINK").symlink_to("IN")
    (tmp_path / "HARD").mkdir()
    os.link(log, tmp_path / "HARD" / "x.log")
    assert len(OF_FOLDERS) > 40
    for _, command in OF_FOLDERS:
        last = command[-1].replace("IN/", f"{through}/")
        code = main([*command[:-1], last])
        told = capsys.readouterr()
        assert log.read_text() == TABLE, (command, last)
        assert code != 0 and "Traceback" not in told.err, (command, last)
        if through != "HARD":
            assert code == 2 and ("a file of the folder" in told.err or "it is a folder" in told.err), (command, last)


def test_an_option_whose_help_says_that_it_writes_a_file_is_marked_so() -> None:
    said = [each for each in table()["options"] if each.get("value") in {"FILE", "PATH"} and "write" in each["help"]]
    assert len(said) > 6
    assert [each["name"] for each in said if not each.get("writes")] == []


@pytest.mark.parametrize("name", ["same", "hard", "symbolic", "through_folder"])
def test_no_verb_overwrites_what_it_reads(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_RUNS", str(tmp_path / "runs"))
    source, target = tmp_path / "read.svg", tmp_path / "written.svg"
    source.write_text(TABLE)
    if name == "same":
        target = source
    elif name == "hard":
        os.link(source, target)
    elif name == "symbolic":
        target.symlink_to(source)
    else:
        (tmp_path / "folder").symlink_to(tmp_path)
        target = tmp_path / "folder" / source.name
    for _, command in COMMANDS:
        read = [word.replace("X", str(source)) for word in command[:-1]]
        last = command[-1].replace("X", str(target))
        code = main([*read, last])
        told = capsys.readouterr()
        assert code == 2, command
        assert "would overwrite" in told.err and "Traceback" not in told.err, command
        assert source.read_text() == TABLE, command


@pytest.mark.parametrize(
    "command",
    [
        ["import", "IN", "-o", "IN/x.log"],
        ["report", "IN", "-o", "IN/x.log", "--format=md"],
        ["baseline", "make", "IN", "-o", "IN/x.log"],
    ],
)
def test_a_file_of_the_folder_that_is_read_stays(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "x.log"
    log.write_text(TABLE)
    assert main([word.replace("IN", str(tmp_path)) for word in command]) == 2
    assert "a file of the folder" in capsys.readouterr().err
    assert log.read_text() == TABLE


def test_standard_input_from_a_file_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "x.log"
    log.write_text(TABLE)
    saved = os.dup(0)
    try:
        with log.open("rb") as stream:
            os.dup2(stream.fileno(), 0)
            assert main(["import", "-", "-o", str(log)]) == 2
    finally:
        os.dup2(saved, 0)
        os.close(saved)
    assert log.read_text() == TABLE


def test_a_kept_run_that_is_reported_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_RUNS", str(tmp_path / "runs"))
    log = tmp_path / "x.log"
    log.write_text("# nThread 1 nGpus 1\n#   Rank  0 Group  0 Pid 1 on h device 0\n" + TABLE)
    assert main(["import", str(log), "--collective", "all_reduce"]) == 0
    (record,) = (tmp_path / "runs").glob("*/record.jsonl")
    before = record.read_bytes()
    for words in (["report", record.parent.name, "--format", "md"], ["baseline", "make", record.parent.name]):
        assert main([*words, "-o", str(record)]) == 1
        assert "is not overwritten" in capsys.readouterr().err
        assert record.read_bytes() == before


def test_two_files_of_one_name_are_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo", "--svg", str(tmp_path / "a"), "--export-nccl", str(tmp_path / "a")]) == 2
    assert "written twice" in capsys.readouterr().err
    assert main(["all_reduce", "-J", str(tmp_path / "a.json"), "--record", str(tmp_path / "a.json")]) == 2


def test_what_is_written_without_being_read_is_written(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(TABLE)
    old = tmp_path / "old.jsonl"
    old.write_text("old")
    assert main(["import", str(log), "--collective", "all_reduce", "-o", str(old)]) == 0
    assert old.read_text().startswith('{"schema"')
    assert sorted(each.name for each in tmp_path.iterdir()) == ["old.jsonl", "x.log"]


def test_the_second_guard_knows_what_was_read(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_text("x")
    os.link(path, other)
    files.read_start(path, 1)
    with pytest.raises(UserError, match="is not overwritten"), files.writing(other):
        other.write_text("y")
    with files.writing(other, update=True):
        pass
    assert path.read_text() == "x"
