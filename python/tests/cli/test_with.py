"""`busbw with` starts real programs, with our GPU library in front of a fake NCCL; no GPU is needed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.launch.elf import read_elf

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
OPENER = BUILD / "bin" / "busbw_test_opener"
FOLDER = BUILD / "lib" / "fake_nccl"
NCCL = FOLDER / "libnccl.so.2"
SEEN = "calls go to libbusbw_gpu.so"

pytestmark = pytest.mark.skipif(
    not OPENER.exists() or not (BUILD / "lib" / "libbusbw_with.so").exists(),
    reason="the native tests of `busbw with` are not built; BUSBW_BUILD names a build folder",
)
# Seen by ctypes: the version, and whether it is ours that was asked.
BY_CTYPES = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
version = ctypes.c_int()
print(library.ncclGetVersion(ctypes.byref(version)), version.value, hasattr(library, "busbwExplainCall"))
"""


def start(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine"), "BUSBW_GPU": "0", **variables}
    command = [sys.executable, "-m", "busbw", "with", *map(str, words)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)


def compiled(folder: Path, source: str, *options: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (folder / "program.c").write_text(source)
    done = subprocess.run(
        [compiler, "-o", folder / "program", folder / "program.c", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"the compiler cannot do this: {done.stderr[:200]}")
    return folder / "program"


def test_a_linked_program_calls_us() -> None:
    done = start("--", BUILD / "bin" / "busbw_test_nccl_user")
    assert (done.returncode, done.stdout) == (0, "version 22809, busbw in front: yes\n"), done.stderr
    assert done.stderr == f"busbw with: libbusbw_gpu.so stands in front of {NCCL.resolve()}\n"


def test_pythons_ctypes_reaches_us_by_path_and_by_name() -> None:
    for name, variables in ((str(NCCL), {}), ("libnccl.so.2", {"LD_LIBRARY_PATH": str(FOLDER)})):
        done = start("--", sys.executable, "-c", BY_CTYPES, name, **variables)
        assert done.stdout == "0 22809 True\n", done.stderr


def test_what_the_program_starts_is_treated_alike() -> None:
    done = start("--", "sh", "-c", f"{OPENER} local {NCCL}; true")
    assert SEEN in done.stdout, done.stderr


def test_a_preload_reaches_what_is_linked_and_says_what_it_does_not() -> None:
    done = start("--by", "preload", "--", BUILD / "bin" / "busbw_test_nccl_user")
    assert "busbw in front: yes" in done.stdout
    assert "programs that open NCCL by dlopen pass it by" in done.stderr
    assert "calls go to libnccl.so" in start("--by", "preload", "--", OPENER, "local", NCCL).stdout


def test_the_nccl_that_the_user_names_stands_behind(tmp_path: Path) -> None:
    other = tmp_path / "libnccl.so.2"
    shutil.copy(NCCL, other)
    done = start("--nccl", other, "--", OPENER, "local", NCCL)
    assert SEEN in done.stdout
    assert f"stands in front of {other.resolve()}" in done.stderr
    assert "that is no NCCL" in start("--nccl", "/dev/null", "--", OPENER, "local", NCCL).stderr


def test_another_library_can_stand_in_front() -> None:
    done = start("--library", BUILD / "lib" / "libbusbw_cpu.so", "--", OPENER, "local", NCCL)
    assert "calls go to libbusbw_cpu.so" in done.stdout, done.stderr


def test_exit_code_and_signals_are_the_programs_own() -> None:
    assert start("--", "sh", "-c", "exit 7").returncode == 7
    assert start("--", "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


def test_check_sets_the_librarys_check_mode() -> None:
    assert start("--check", "--", "printenv", "BUSBW_CHECK").stdout == "1\n"
    assert start("--", "printenv", "BUSBW_CHECK").returncode == 1


def test_quiet_says_nothing() -> None:
    assert start("--quiet", "--", OPENER, "local", NCCL).stderr == ""


def test_the_dry_run_is_a_line_that_does_it() -> None:
    line = start("--dry-run", "--", OPENER, "local", NCCL).stdout
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert SEEN in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ((), 2, "say which program to start"),
        (("--", "no-such-program"), 127, "'no-such-program' was not found"),
        (("--", "/etc/passwd"), 126, "is no program that can be run"),
        (("--library", "/nowhere/lib.so", "--", "true"), 1, "there is no such file"),
        (("--library", "nccl", "--", "true"), 2, "give busbw or recorder, or the path"),
        (("--library", "/etc/passwd", "--", "true"), 1, "is no library with the NCCL API"),
    ],
)
def test_what_cannot_be_started_is_refused_in_one_sentence(words: tuple[str, ...], code: int, sentence: str) -> None:
    done = start(*words)
    assert done.returncode == code
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_static_program_is_refused(tmp_path: Path) -> None:
    program = compiled(tmp_path, "int main(void) { return 0; }\n", "-static")
    assert "is linked statically" in start("--", program).stderr


@pytest.mark.parametrize("strip", [(), ("-s",)])
def test_a_program_with_nccl_inside_is_refused(tmp_path: Path, strip: tuple[str, ...]) -> None:
    source = (
        'const char text[] = "NCCL version 2.28.9+cuda12.9";\n'
        "__attribute__((noinline)) int ncclCommInitRank(void) { return text[0]; }\n"
        "int main(void) { return ncclCommInitRank() == 'N' ? 0 : 1; }\n"
    )
    done = start("--", compiled(tmp_path, source, *strip))
    assert "has NCCL 2.28.9 built in" in done.stderr
    assert done.returncode == 1


def test_a_set_user_id_program_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy(shutil.which("true") or "/bin/true", program)
    program.chmod(0o4755)
    assert "is set-user-ID" in start("--", program).stderr


def test_a_program_for_another_processor_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program"
    content = bytearray(Path(shutil.which("true") or "/bin/true").read_bytes())
    content[18:20] = (243).to_bytes(2, "little")
    program.write_bytes(content)
    program.chmod(0o755)
    assert "is a program for processor 243" in start("--", program).stderr


def test_a_damaged_program_is_no_traceback(tmp_path: Path) -> None:
    whole = Path(shutil.which("true") or "/bin/true").read_bytes()
    damaged = tmp_path / "damaged"
    for length in (*range(6, 80, 5), 200, 1000, len(whole) // 2):
        damaged.write_bytes(whole[:length])
        read_elf(damaged)
    for at in range(16, 64):
        damaged.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
        read_elf(damaged)


def test_a_script_for_a_missing_interpreter_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_ENGINE", str(BUILD / "bin" / "busbw-engine"))
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env no-such-python\n")
    script.chmod(0o755)
    assert main(["with", "--", str(script)]) == 1
    assert "is a script for 'no-such-python'" in capsys.readouterr().err


def test_a_check_is_refused_of_a_library_that_does_not_know_it(tmp_path: Path) -> None:
    other = tmp_path / "libother_nccl.so"
    shutil.copy(NCCL, other)
    done = start("--check", "--library", other, "--", "true")
    assert done.returncode == 2
    assert "libother_nccl.so compares nothing" in done.stderr
    assert start("--check", "--dry-run", "--", "true").stdout.count("BUSBW_CHECK=1") == 1
