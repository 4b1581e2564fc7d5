"""`busbw bisect` as a user types it: wrong words, settings and profiles with an engine whose times are known."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.experiment.bisect.library_file import MEMBER
from busbw.records import read_record

FAKE = Path(__file__).parents[1] / "experiment" / "fake_engine.py"
BUILD = Path(os.environ.get("BUSBW_BUILD") or Path(__file__).resolve().parents[3] / "build")
STAND_IN = BUILD / "lib" / "libbusbw_test_tuned_nccl.so"


@pytest.fixture(autouse=True)
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {FAKE} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("BUSBW_ENGINE", str(program))


def test_a_setting_is_bisected(capsys: pytest.CaptureFixture[str], runs_of_this_test: Path) -> None:
    assert main(["bisect", "--setting", "FAKE_US=100,101,100,130,130", "--", "all_reduce"]) == 2
    assert "names '100' twice" in capsys.readouterr().err
    words = ["bisect", "--setting", "FAKE_US=100,130", "--ranks", "1", "--json", "--", "all_reduce"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    (change,) = found["changes"]
    assert (change["before"], change["at"], change["sure"]) == ("100", "130", True)
    (folder,) = runs_of_this_test.iterdir()
    assert main(["bisect", "--setting", "FAKE_US=1,2", "--resume", str(folder), "--", "all_reduce"]) == 2
    assert "holds another bisection" in capsys.readouterr().err


def made_up(folder: Path, version: str, us: float) -> None:
    """A wheel as NVIDIA's, whose library the stand-in for the engine takes its times from."""
    folder.mkdir(exist_ok=True)
    path = folder / f"nvidia_nccl_cu12-{version}-py3-none-manylinux_2_18_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, f"fake-us {us}")


def test_the_release_of_a_folder_of_wheels_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, cache = tmp_path / "nccl", tmp_path / "cache"
    for version, us in (("2.27.3", 100), ("2.27.7", 100.2), ("2.28.3", 130), ("2.29.2", 50)):
        made_up(folder, version, us)
    words = ["bisect", "--libraries", "2.27.3..2.28.3", "--from-folder", str(folder), "--cache", str(cache), "--ranks",
             "1", "--", "all_reduce"]  # fmt: skip
    assert main(words) == 0
    said = capsys.readouterr()
    assert "slower from release 2.28.3 on: 2.28.3 is 0.77 times as fast as 2.27.7" in said.out
    assert "SHA-256" in said.err and "2.29.2" not in said.out
    assert len(list(cache.rglob("libnccl.so.2"))) == 3


def test_with_launch_options_ranks_may_run_on_other_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "nccl"
    for version, us in (("2.27.3", 100), ("2.27.7", 130), ("2.28.3", 130)):
        made_up(folder, version, us)
    for wheel in folder.iterdir():
        wheel.rename(folder / wheel.name.replace("x86_64", "s390x"))
    words = ["bisect", "--libraries", "2.27.3..2.28.3", "--from-folder", str(folder), "--cache", str(tmp_path / "c"),
             "--ranks", "1", "--", "all_reduce"]  # fmt: skip
    assert main(words) == 1
    assert "is for linux s390x, and this machine is linux" in capsys.readouterr().err
    assert main([*words[:-2], "--launch", "--env FAKE_NOTHING=1", *words[-2:]]) == 0
    assert "slower from release 2.27.7 on" in capsys.readouterr().out


def test_the_launch_profile_that_is_slower_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    profiles = [f"--profile={name}=--env FAKE_US={us}" for name, us in (("a", 100), ("c", 140))]
    assert main(["bisect", *profiles, "--ranks", "1", "--json", "--", "all_reduce"]) == 0
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert (change["before"], change["at"], change["sure"]) == ("a", "c", True)


def test_nothing_slower_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", "--setting", "FAKE_US=100,100.1", "--", "all_reduce"]) == 1
    assert "no difference above" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--", "all_reduce"], "say what to bisect"),
        (["--setting", "A=1,2", "--libraries", "2.27.3..2.28.9", "--", "all_reduce"], "one of --libraries"),
        (
            ["--setting", "A=1,2", "--from-folder", "x", "--", "all_reduce"],
            "--from-folder means nothing without --libraries",
        ),
        (["--setting", "A=1,2", "--", "all_redux"], "'all_redux' is none"),
        (["--libraries", "2.27.3", "--", "all_reduce"], "write it as 2.27.3..2.32.3"),
        (["--libraries", "2.28.9..2.27.3", "--", "all_reduce"], "the first release is the older one"),
        (["--profile", "one=--nodes 2", "--", "all_reduce"], "between 2 and"),
        (["--setting", "A=1,2", "--launch", "'", "--", "all_reduce"], "cannot be split"),
    ],
)
def test_words_that_mean_nothing_are_refused(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bisect", *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.skipif(not STAND_IN.exists(), reason="the stand-in for NCCL is not built; `make build` builds it")
def test_releases_of_a_stand_in_are_measured_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_of_this_test: Path
) -> None:
    monkeypatch.setenv("BUSBW_ENGINE", str(BUILD / "bin" / "busbw-engine"))
    folder = tmp_path / "nccl"
    folder.mkdir()
    for version, code in (("2.27.3", 22703), ("2.30.7", 23007)):
        library = folder / f"libnccl.so.{version}"
        shutil.copy(STAND_IN, library)
        with library.open("a") as stream:
            stream.write(f"\nbusbw-test-release {code} 100 4096 4096\n")
    words = ["bisect", "--libraries", "2.27.3..2.30.7", "--from-folder", str(folder), "--ranks", "2", "--rounds", "3",
             "--", "all_reduce", "-b", "4K", "-e", "4K", "-n", "2", "-w", "1", "-c", "0"]  # fmt: skip
    # Which of them is faster depends on what else the machine does; bench/settings measures that.
    assert main(words) in {0, 1, 3}
    records = [read_record(path) for path in runs_of_this_test.glob("bisect-*/000-001/trials/*/record.jsonl")]
    libraries = [record.run.library for record in records]
    assert {each.version for each in libraries if each} == {"2.27.3", "2.30.7"} and len(libraries) == 6
