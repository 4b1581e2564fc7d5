"""The closing line of a test run tells the truth about every runner's results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TALLY = Path(__file__).resolve().parents[3] / "tools" / "tally.py"
PASSED = '<testcase name="a" status="run"/>'
FAILED = '<testcase name="b" status="fail"><failure message=""/><system-out>why</system-out></testcase>'
ERROR = '<testcase name="c"><error message="setup"/></testcase>'
SKIPPED = '<testcase name="d" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>'
ABSENT = '<testcase name="e" status="notrun"><skipped/><system-out>Unable to find executable: x</system-out></testcase>'


def tally(folder: Path) -> tuple[int, str]:
    """Exit code and last line."""
    done = subprocess.run([sys.executable, TALLY, folder], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()[-1]


def write(folder: Path, name: str, *cases: str) -> None:
    """One runner's results."""
    (folder / name).write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")


def test_all_runners_are_summed(tmp_path: Path) -> None:
    write(tmp_path, "native.xml", PASSED, PASSED, SKIPPED)
    write(tmp_path, "python.xml", PASSED)
    (tmp_path / "gpu.skipped").write_text("4\n")
    assert tally(tmp_path) == (0, "3 passed, 0 failed, 5 skipped")


def test_a_failure_an_error_and_an_absent_program_all_fail(tmp_path: Path) -> None:
    write(tmp_path, "native.xml", PASSED, FAILED, ERROR, ABSENT)
    assert tally(tmp_path) == (1, "1 passed, 3 failed, 0 skipped")


def test_results_cut_off_in_the_middle_fail(tmp_path: Path) -> None:
    (tmp_path / "native.xml").write_text("<testsuite><testcase")
    write(tmp_path, "python.xml", PASSED)
    assert tally(tmp_path) == (1, "1 passed, 1 failed, 0 skipped")


def test_a_run_without_any_test_fails(tmp_path: Path) -> None:
    assert tally(tmp_path) == (1, "0 passed, 0 failed, 0 skipped")


def test_failures_are_named_with_what_they_wrote(tmp_path: Path) -> None:
    write(tmp_path, "native.xml", PASSED, FAILED)
    argv = [sys.executable, TALLY, "--failures", tmp_path / "native.xml", tmp_path / "absent.xml"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == "failed: native: b\nwhy\n"


def test_what_passed_at_the_second_try_has_passed_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    other = '<testcase name="f"><failure message=""/></testcase>'
    write(tmp_path, "python.xml", PASSED, FAILED, other)
    write(tmp_path / "again", "python.xml", '<testcase name="b"/>', other)
    done = subprocess.run([sys.executable, TALLY, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "2 passed, 1 failed, 0 skipped\n")
    assert done.stderr == "failed, then passed when tried again: None b\n"
