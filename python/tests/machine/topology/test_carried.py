"""Matrices within something else: strings, tables, pages, logs; names of GPUs beside them; and what is none."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.machine.topology.load import from_bytes
from busbw.machine.topology.model import Machine

from .forms import FOUR, PAIR, WHOLE, H, S, Seen, before

TABLE = """\
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |
| N/A   33C    P0             72W /  700W |       1MiB /  81559MiB |      0%      Default |
"""
LIST = "".join(f"GPU {i}: NVIDIA A100-SXM4-80GB (UUID: GPU-0000000{i}-aaaa-bbbb-cccc-ddddeeeeffff)\n" for i in range(4))
LINES = FOUR.split("\n")


def rows(mark: str, quote: str = "") -> str:
    return "\n".join(
        mark.join(quote + c.strip() + quote for c in line.split("\t")) for line in FOUR.strip("\n").split("\n")
    )


FORMS: dict[str, tuple[str, Seen]] = {
    "string of JSON": (json.dumps({"topo": FOUR}), PAIR),
    "lines of JSON": (json.dumps({"stdout_lines": LINES}, indent=4), PAIR),
    "notebook": (json.dumps({"cells": [{"text": [line + "\n" for line in LINES]}]}, indent=1), PAIR),
    "list of Python": (repr(LINES), PAIR),
    "console of R": ("\n".join(f'[{i}] "{line}"' for i, line in enumerate(LINES, 1)), PAIR),
    "commas": (rows(","), PAIR),
    "semicolons": (rows(";"), PAIR),
    "quoted cells": (rows("\t", '"'), PAIR),
    "LaTeX": ("\n".join(f"{line} \\\\" for line in rows(" & ").split("\n")), PAIR),
    "RTF": ("{\\rtf1\\ansi " + FOUR.replace("\n", "\\par\n").replace("\t", "\\tab ") + "}", PAIR),
    "page": ("<pre>" + S.replace(" ", "&nbsp;").replace("\n", "<br>\n") + "</pre>", WHOLE),
    "difference": (before("+", S), WHOLE),
    "bold": ("\n".join(re.sub(r"^(\s*)(GPU\d)", r"\1**\2**", line) for line in S.split("\n")), WHOLE),
    "small letters": (FOUR.lower(), PAIR),
    "spaces without width": (S.replace("GPU1", "\u200bGPU1"), WHOLE),
    "wide letters": ("".join(chr(ord(c) + 0xFEE0) if c.isdigit() or "A" <= c <= "Z" else c for c in FOUR), PAIR),
    "logging of Python": (before("2026-01-01 10:00:00,123 INFO [bench.py:22] ", S), WHOLE),
    "journal": (before("Nov 28 10:00:00 node17 slurmd[99]: ", S), WHOLE),
    "docker compose": (before("worker-1  | ", S), WHOLE),
    "Ansible": ("node1 | CHANGED | rc=0 >>\n" + FOUR, PAIR),
    "typescript": ("Script started\r\n$ nvidia-smi topo -m\r\n" + H.replace("\n", "\r\n") + "$ exit\r\n", WHOLE),
    "quotation of a page": (before("&gt; ", S), WHOLE),
    "bars of tmux": ("\n".join(f"\u2502 {line} \u2502" for line in S.split("\n")), WHOLE),
    "cat -n": ("\n".join(f"{i:6}\t{line}" for i, line in enumerate(LINES, 1)), PAIR),
    "YAML": ("topo: |\n" + before("    ", S), WHOLE),
}
OTHERS = {
    "dcgmi": ("| GPU ID: 0         | Topology Information   |\n| To GPU 1 | Connected via NVLINK |\n", "`dcgmi topo`"),
    "Ascend": ("      NPU0   NPU1\nNPU0  X      HCCS\nNPU1  HCCS   X\n", "Ascend"),
    "lstopo": ("Machine (2015GB total)\n  Package L#0\n    NUMANode L#0 (P#0 1007GB)\n", "`lstopo`"),
    "lshw": ("  *-display\n       product: GH100 [H100 SXM5 80GB]\n", "`lshw`"),
    "ibstat": ("CA 'mlx5_0'\n\tCA type: MT4129\n", "`ibstat`"),
    "ibdev2netdev": ("mlx5_0 port 1 ==> ib0 (Up)\n", "`ibdev2netdev`"),
    "two machines": ("node1:\n" + FOUR + "\nnode2:\n" + H, "one of 4 GPUs (line 2) and one of 8 GPUs"),
    "compressed": (gzip.compress(FOUR.encode()), "is compressed"),
}  # fmt: skip


def read(data: str | bytes) -> Machine:
    return from_bytes(data if isinstance(data, bytes) else data.encode(), "f").machine


@pytest.mark.parametrize("name", FORMS)
def test_a_matrix_is_read_out_of_what_carries_it(name: str) -> None:
    data, seen = FORMS[name]
    machine = read(data)
    assert (len(machine.gpus), len(machine.nics)) == (seen.gpus, seen.nics) and seen.cell
    pair = machine.between(*seen.cell[:2])
    assert pair is not None and pair.text == seen.cell[2]


def test_commas_keep_processors_and_numa_nodes_apart() -> None:
    for text in (rows(","), rows(",", '"')):
        assert [gpu.numa for gpu in read(text).gpus] == [0, 0, 1, 1]
        assert len(read(text).gpus[0].cpus) == 112


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_matrix_is_named(name: str) -> None:
    data, said = OTHERS[name]
    with pytest.raises(UserError) as refused:
        read(data)
    assert said in str(refused.value)


def test_names_beside_a_matrix_are_those_of_its_gpus() -> None:
    assert {gpu.name for gpu in read(LIST + FOUR).gpus} == {"NVIDIA A100-SXM4-80GB"}
    assert {gpu.sm for gpu in read(FOUR + LIST).gpus} == {80}
    assert [gpu.name for gpu in read(TABLE + H).gpus][:2] == ["NVIDIA H100 80GB HBM3", None]
    assert {gpu.name for gpu in read(FOUR).gpus} == {None}


def test_a_prediction_asks_for_the_gpu_only_where_nothing_beside_the_matrix_says_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["predict", "all_reduce", "--topology", str(tmp_path / "m"), "--sizes", "1G"]
    (tmp_path / "m").write_text(TABLE + H)
    assert main(words) == 0
    assert "1 GiB" in capsys.readouterr().out
    (tmp_path / "m").write_text(H)
    assert main(words) == 2
    assert "--gpu" in capsys.readouterr().err


def test_hostile_carriers_are_sentences() -> None:
    for text in (
        '"GPU0","GPU1"\0' * 1000,
        "<pre>" + "<" * 100_000 + "GPU0",
        "{\\rtf" + "\\tab GPU0" * 1000,
        "['\\tGPU0\\tGPU1" * 5000,
    ):
        with pytest.raises(UserError):
            read(text)
