"""What links, kernel and GPUs say of a stall: by a made-up /sys, messages and nvidia-smi."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.watch.following import Watching, Wishes
from busbw.watch.hardware import MAX_LINES, RENEWED_NS, Hardware, Kernel, gpus, ports
from busbw.watch.live import Watcher
from busbw.watch.members import Verdict


def port(root: Path, name: str = "mlx5_0", state: str = "4: ACTIVE", **counters: int) -> None:
    folder = root / "sys/class/infiniband" / name / "ports/1"
    for place in ("counters", "hw_counters"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / "state").write_text(f"{state}\n")
    for counter, value in {"port_xmit_data": 100, "port_rcv_data": 200, "link_downed": 1, **counters}.items():
        (folder / "counters" / counter).write_text(f"{value}\n")


def said(hardware: Hardware, cause: str = "stuck") -> list[str]:
    return hardware.lines(cause, 5_000_000_000)


def test_a_link_that_went_down_is_said_with_its_counters(tmp_path: Path) -> None:
    port(tmp_path)
    port(tmp_path, "mlx5_1")
    hardware = Hardware(tmp_path, tmp_path / "none")
    assert said(hardware) == []
    port(tmp_path, port_xmit_data=150)
    hardware.still(1_000_000_000)
    port(tmp_path, state="1: DOWN", port_xmit_data=151, link_downed=3)
    assert said(hardware) == [
        "mlx5_0 port 1 since the job last moved: its state is 1: DOWN, and was 4: ACTIVE, link_downed grew by 2",
        "mlx5_0 port 1 sent 4 and received 0 bytes in 4.0 s",
        "mlx5_1 port 1 sent 0 and received 0 bytes in 4.0 s",
    ]
    assert len(said(hardware, "missing")) == 1, "how much a port moves tells only where all ranks are stuck"


def test_what_was_counted_while_the_job_moved_is_no_part_of_the_stall(tmp_path: Path) -> None:
    port(tmp_path)
    hardware = Hardware(tmp_path, tmp_path / "none")
    port(tmp_path, link_downed=9)
    hardware.moved(RENEWED_NS)
    assert said(hardware, "missing") == []
    port(tmp_path, link_downed=10)
    hardware.moved(RENEWED_NS + 1)
    assert said(hardware, "missing") == ["mlx5_0 port 1 since the job last moved: link_downed grew by 1"]


def test_a_device_that_is_gone_and_one_of_hostile_words(tmp_path: Path) -> None:
    port(tmp_path)
    port(tmp_path, "odd", state="\x1b[2J" + "x" * 5000)
    (tmp_path / "sys/class/infiniband/odd/ports/1/counters/link_downed").write_text("many")
    (tmp_path / "sys/class/infiniband/odd/ports/1/hw_counters/out_of_sequence").mkdir()
    assert len(ports(tmp_path)["odd port 1"].state) < 100
    hardware = Hardware(tmp_path, tmp_path / "none")
    (tmp_path / "sys/class/infiniband/mlx5_0").rename(tmp_path / "away")
    lines = said(hardware)
    assert "mlx5_0 port 1 is gone" in lines
    assert all("\x1b" not in line for line in lines)


def test_messages_of_the_kernel_are_those_since_the_start_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("3,1,5,-;NVRM: Xid (PCI:0000:01:00): 31, before the job\n")
    kernel = Kernel(path)
    with path.open("a") as file:
        file.write("6,2,6,-;usb 1-1: new device\n SUBSYSTEM=usb NVRM: Xid\n")
        file.write("3,3,7,-;NVRM: Xid (PCI:0000:41:00): 79, pid=7, GPU has fallen off the bus.\x1b[2J\n3,4,8,-;Out of")
    assert kernel.telling() == ["NVRM: Xid (PCI:0000:41:00): 79, pid=7, GPU has fallen off the bus.\\x1b[2J"]
    with path.open("a") as file:
        file.write(" memory: Killed process 8 (python)\n" + "3,5,9,-;mlx5_core 0000:1: Link down\n" * 100)
    assert len(kernel.telling()) == MAX_LINES
    kernel.close()
    assert Kernel(tmp_path / "none").telling() == []


def test_nvidia_smi_is_asked_for_the_accused_ranks_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f"#!{sys.executable} -S\nprint('0, 0000:01:00.0, 100, 1980, 1980, 40, 0')\n"
        "print('3, 0000:41:00.0, 0, 345, 1980, 91, 2')\nprint('no row')\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert gpus([3]) == [
        "GPU 3 (0000:41:00.0) is 0 % busy, its clock 345 of 1980 MHz, 91 degrees, 2 memory errors that were not "
        "corrected"
    ]
    program.write_text("#!/bin/sh\necho 'Unable to determine the device handle for GPU: GPU is lost' >&2; exit 15\n")
    assert gpus([3]) == ["nvidia-smi: Unable to determine the device handle for GPU: GPU is lost"]


def test_a_verdict_is_followed_by_what_the_hardware_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rec").mkdir()
    host = os.uname().nodename
    write(tmp_path / "rec", 0, [Row(0, 2)], [Made(0)], host=host, synchronous=False)
    port(tmp_path)
    hardware = Hardware(tmp_path, tmp_path / "none")
    port(tmp_path, state="1: DOWN")
    watcher = Watcher(tmp_path / "rec")
    watcher.look_once_more()
    assert watcher.devices_of([(host, 1000)]) == (0,)
    monkeypatch.setattr(Watcher, "poll", lambda *_: Verdict("stuck", (0,), "It stands still."))
    with Watching(Wishes(), watcher, hardware) as watching:
        watching.look()
    lines = capsys.readouterr().err.splitlines()
    assert "It stands still." in lines[0]
    assert any("mlx5_0 port 1" in line and "its state is 1: DOWN" in line for line in lines)
