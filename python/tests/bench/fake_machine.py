"""Four GPUs that are not there: stands in for nvidia-smi and for the engine, and is slow where a fault makes it so."""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from pathlib import Path

GPUS = 4
FOLDER = Path(__file__).parent if "FAKE_MACHINE" not in os.environ else Path(os.environ["FAKE_MACHINE"])
HOG = FOLDER / "hog.pid"
SIZES = (1 << 16, 1 << 30)


def hog_runs() -> bool:
    """Whether the other process is there and not stopped."""
    try:
        state = Path(f"/proc/{int(HOG.read_text())}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return False
    return state not in {"T", "Z"}


def nvidia_smi(words: list[str]) -> None:
    if words == ["-L"]:
        print("\n".join(f"GPU {i}: NVIDIA H200 (UUID: GPU-{i})" for i in range(GPUS)))
    elif words[:1] == ["topo"]:
        print("\t" + "\t".join(f"GPU{i}" for i in range(GPUS)))
        for i in range(GPUS):
            print(f"GPU{i}\t" + "\t".join("X" if i == j else "NV18" for j in range(GPUS)))
    elif words[:1] == ["nvlink"]:
        for i in range(GPUS):
            print(f"GPU {i}: NVIDIA H200 (UUID: GPU-{i})")
            print("\n".join(f"\t Link {link}: 26.562 GB/s" for link in range(18)))
    else:
        print('<?xml version="1.0" ?>\n<nvidia_smi_log><driver_version>580.1</driver_version>')
        print("\n".join(gpu(i) for i in range(GPUS)) + "</nvidia_smi_log>")


def gpu(index: int) -> str:
    load = 99 if index == 0 and hog_runs() else 0
    return (
        f'<gpu id="00000000:0{6 + index}:00.0"><product_name>NVIDIA H200</product_name>'
        f"<minor_number>{index}</minor_number><utilization><gpu_util>{load} %</gpu_util></utilization>"
        f"<fb_memory_usage><total>143771 MiB</total><used>0 MiB</used></fb_memory_usage></gpu>"
    )


def setting(name: str) -> str:
    """A variable as NCCL sees it: the environment wins, then the conf file."""
    if name in os.environ:
        return os.environ[name]
    conf = os.environ.get("NCCL_CONF_FILE")
    lines = Path(conf).read_text().splitlines() if conf else []
    return next((line.partition("=")[2] for line in lines if line.startswith(f"{name}=")), "")


def speeds() -> tuple[float, float]:
    """Bus bandwidth in GB/s at 64 KiB and 1 GiB."""
    small, large = 9.0, 355.0
    graph = setting("NCCL_GRAPH_FILE")
    if graph and "<channel>" in Path(graph).read_text():
        large = 98.0
    if setting("NCCL_P2P_DISABLE") == "1":
        small, large = 4.0, 23.7
    if setting("NCCL_MAX_NCHANNELS"):
        large = min(large, 24.5 * float(setting("NCCL_MAX_NCHANNELS")))
    if setting("NCCL_PROTO") == "LL":
        large = min(large, 80.0)
    if setting("NCCL_BUFFSIZE"):
        large = large / 3
    if len(os.sched_getaffinity(0)) < os.cpu_count():
        small = small / 10
    if hog_runs():
        large = large / 2
    assert os.environ["NCCL_NVLS_ENABLE"] == "0"
    return small, large


def engine(words: list[str]) -> None:
    if "-N" in words:
        HOG.write_text(str(os.getpid()))
        print("  1073741824     268435456     float     sum      -1   500.00", flush=True)
        time.sleep(600)
    if os.environ.get("BUSBW_RANK", "0") != "0":
        return
    if setting("NCCL_SOCKET_IFNAME") == "nosuch":
        print("NCCL WARN Bootstrap : no socket interface found", file=sys.stderr)
        sys.exit(3)
    run = {"schema": 1, "kind": "run", "run": "r", "started": None, "tool": {"name": "busbw", "version": "0"},
           "library": None, "ranks": [], "environment": {}}  # fmt: skip
    time.sleep(float(os.environ.get("FAKE_STARTUP_S", "0")))
    cases = []
    for size, busbw, noise in zip(SIZES, speeds(), (0.15, 0.01), strict=True):
        for placement in ("out_of_place", "in_place"):
            rate = busbw * math.exp(random.gauss(0, noise))
            cases.append({
                "schema": 1, "kind": "case", "run": "r", "case": len(cases), "collective": "all_reduce",
                "type": "float", "op": "sum", "ranks": GPUS, "bytes": size, "placement": placement,
                "outcome": "measured", "time_us": size * 1.5 / rate / 1e3, "algbw_GBps": rate / 1.5, "busbw_GBps": rate,
            })  # fmt: skip
    end = {"schema": 1, "kind": "end", "run": "r", "outcome": "completed", "cases": len(cases)}
    record = Path(words[words.index("--record") + 1])
    record.write_text("".join(json.dumps(line) + "\n" for line in (run, *cases, end)))


def install(folder: Path) -> dict[str, str]:
    """Programs in a folder, and the environment in which they are this machine's."""
    for name in ("nvidia-smi", "engine"):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {__file__} {name} "$@"\n')
        program.chmod(0o755)
    return {
        "FAKE_MACHINE": str(folder), "PATH": f"{folder}:{os.environ['PATH']}", "BUSBW_ENGINE": str(folder / "engine"),
    }  # fmt: skip


if __name__ == "__main__":
    (nvidia_smi if sys.argv[1] == "nvidia-smi" else engine)(sys.argv[2:])
