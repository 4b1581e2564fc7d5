"""The tuner plugin under a stand-in for NCCL that loads it: what a table says is done, where it was measured."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.base.files import replace_text
from busbw.experiment.tune_nccl.rules import Place, Rule, Way, parse_facts, table_text

BUILD = Path(os.environ.get("BUSBW_BUILD", Path(__file__).parents[3] / "build"))
NCCL, PLUGIN = BUILD / "lib" / "libbusbw_test_tuned_nccl.so", BUILD / "lib" / "libnccl-tuner-busbw.so"
PYTHON = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not (NCCL.exists() and PLUGIN.exists()), reason="the tuner plugin and its stand-in are not built"
    ),
]


def measured(tmp_path: Path, **environment: str) -> tuple[list[str], str]:
    """What the stand-in chose, a line for each size, and what was printed."""
    said = tmp_path / "said"
    said.unlink(missing_ok=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("BUSBW_TUNER", "NCCL_"))}
    env |= {"PYTHONPATH": str(PYTHON), "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine"), "BUSBW_TEST_SAY": str(said),
            "XDG_CONFIG_HOME": str(tmp_path), **environment}  # fmt: skip
    words = ["run", "--ranks", "2", "all_reduce", "-b", "4K", "-e", "64K", "-f", "16", "-n", "2", "-w", "0", "-c", "0",
             "--library", str(NCCL), "--no-record"]  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "busbw", *words], env=env, capture_output=True, text=True, timeout=240,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return sorted(set(said.read_text().splitlines())), done.stdout + done.stderr


def test_a_table_of_this_place_is_applied_and_one_of_another_is_not(tmp_path: Path) -> None:
    with_plugin = {"NCCL_TUNER_PLUGIN": str(PLUGIN), "NCCL_DEBUG": "INFO"}
    plain, _ = measured(tmp_path)
    assert plain == ["4 4096 tree/ll 1", "4 65536 tree/ll 1"]
    same, _ = measured(tmp_path, **with_plugin, BUSBW_TUNER_FACTS=str(tmp_path / "facts"))
    assert same == plain
    facts = parse_facts((tmp_path / "facts").read_text())
    assert facts["nccl"] == "2.30.4" and facts["ranks"] == "2"
    rules = (
        Rule("all_reduce", 0, 10_000, Way("ring/ll128", 8)),
        Rule("all_reduce", 10_001, 1 << 20, Way("nvls/simple")),
    )
    path = tmp_path / "table"
    replace_text(path, table_text([Place(facts, rules)]))
    ruled, printed = measured(tmp_path, **with_plugin, BUSBW_TUNER_TABLE=str(path))
    # The stand-in cannot do NVLink SHARP: it decides by itself there.
    assert ruled == ["4 4096 ring/ll128 8", "4 65536 tree/ll 1"]
    assert "2 rules are applied to 2 ranks on 1 node" in printed
    replace_text(path, table_text([Place({**facts, "topology": "0" * 16}, rules)]))
    elsewhere, printed = measured(tmp_path, **with_plugin, BUSBW_TUNER_TABLE=str(path))
    assert elsewhere == plain
    assert "is not applied: it was measured with topology 0000000000000000" in printed
