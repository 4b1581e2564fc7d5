"""What a user asked for is written whole or not at all, and what lay there stays until the new one is whole."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from closed_descriptors import prepare

from busbw.base.errors import UserError
from busbw.base.files import open_to_read, whole, write_whole

ROOT = Path(__file__).resolve().parents[3]
BEFORE = "what lay there\n"
COMMANDS = (
    "report good.jsonl --output OUT/x.html", "report good.jsonl --output OUT/x.svg",
    "report good.jsonl --output OUT/x.csv", "report good.jsonl --output OUT/x.md",
    "baseline make good.jsonl --output OUT/x.toml", "gate good.jsonl --thresholds limits.toml --junit OUT/x.xml",
    "topo matrix.txt --svg OUT/x.svg", "topo topo.xml --export-nccl OUT/x.xml",
    "doctor --log good.log --page OUT/x.html", "doctor --log good.log --collect OUT/x.tar.gz",
    "fleet judge fleet.jsonl --page OUT/x.html", "fleet judge fleet.jsonl --junit OUT/x.xml",
    "fleet judge fleet.jsonl --prometheus OUT/x.prom", "watch --read recordings --trace OUT/x.json",
    "watch --read recordings --timeline OUT/x.html", "import good.log --collective all_reduce --output OUT/x.jsonl",
)  # fmt: skip
THRESHOLDS = '[[threshold]]\ncollective = "all_reduce"\nbytes = "8"\nmin_busbw_GBps = 2.0\nranks = 2\nsource = "x"\n'
FLEET = (
    '{"busbw_fleet": 1, "nodes": ["a", "b"], "pods": {"a": "p", "b": "p"}, "rails": 1}\n'
    '{"round": 0, "kind": "within", "channel": "rail0", "nodes": ["a", "b"], "samples": [1.0, 1.1]}\n'
)

TOPOLOGY = (
    '<system version="1">'
    '<cpu numaid="0" affinity="00ff" arch="x86_64" vendor="AuthenticAMD" familyid="1" modelid="1">'
    '<pci busid="0000:01:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">'
    '<gpu dev="0" sm="80" rank="0" gdr="1">'
    '<nvlink target="0000:02:00.0" count="12" tclass="0x030200"/>'
    "</gpu>"
    "</pci>"
    '<pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">'
    '<gpu dev="1" sm="80" rank="1" gdr="1">'
    '<nvlink target="0000:01:00.0" count="12" tclass="0x030200"/>'
    "</gpu>"
    "</pci>"
    "</cpu>"
    "</system>"
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_cannot_be_written_leaves_what_lay_there(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    prepare(folder, ROOT / "schema" / "examples" / "all_reduce-v1.jsonl")
    for name, text in (("fleet.jsonl", FLEET), ("limits.toml", THRESHOLDS), ("topo.xml", TOPOLOGY)):
        (folder / name).write_text(text)
    (folder / "OUT").mkdir()
    target = folder / next(word for word in command.split() if word.startswith("OUT/"))
    target.write_text(BEFORE)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

    done = subprocess.run(
        [sys.executable, "-m", "busbw", *command.split()], cwd=folder, stdin=subprocess.DEVNULL, preexec_fn=limit,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_RUNS": str(folder / "runs")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "cannot be written: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert target.read_text() == BEFORE
    assert [each.name for each in (folder / "OUT").iterdir()] == [target.name]


def test_a_link_stays_one_and_a_mode_is_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "a", tmp_path / "b"
    target.write_text(BEFORE)
    target.chmod(0o640)
    link.symlink_to(target)
    write_whole(link, "new\n")
    assert link.is_symlink()
    assert target.read_text() == "new\n"
    assert target.stat().st_mode & 0o777 == 0o640
    write_whole(target, b"secret\n", mode=0o600)
    assert target.stat().st_mode & 0o777 == 0o600


def test_what_was_read_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(BEFORE)
    with open_to_read(path), pytest.raises(UserError, match="was read"):
        write_whole(path, "new\n")
    assert path.read_text() == BEFORE


def test_what_fails_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(BEFORE)
    with pytest.raises(ZeroDivisionError), whole(path) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == BEFORE
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_device_is_written_into() -> None:
    write_whole(os.devnull, "x")
    assert Path(os.devnull).is_char_device()
