"""A table for the tuner plugin is read as the plugin reads it: what the plugin refuses is no table here either."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.experiment.tune_nccl.rules import read_table

FACTS = "measured\nnccl 2.28.9\ngpu NVIDIA H200\ndriver 580.95.05\ntopology 1f0c5a7be39d2c44\nranks 4\nnodes 1\n"


def table(*rules: str, facts: str = FACTS) -> str:
    return "busbw-tuner 1\n" + facts + "".join(f"rule {rule}\n" for rule in rules) + f"end {len(rules)}\n"


@pytest.mark.parametrize("rule", [
    "all_reduce 0 18446744073709551615 tree/ll ", "broadcast 0 9 default channels=64 chunk=1073741824 gain=1.0..1.2",
])  # fmt: skip
def test_what_the_plugin_takes_is_a_table(tmp_path: Path, rule: str) -> None:
    (tmp_path / "t").write_text(table(rule))
    (place,) = read_table(tmp_path / "t")
    assert len(place.rules) == 1


@pytest.mark.parametrize("text", [
    table("all_reduce 0 9 tree/ll channels=65"), table("all_reduce 0 9 tree/ll channels=0"),
    table("all_reduce 0 9 tree/ll channels=-1"), table("all_reduce 0 9 tree/ll channels=1_0"),
    table("all_reduce 0 9 tree/ll chunk=1073741825"), table("all_reduce 0 9 tree/ll threads=5"),
    table("all_reduce 0 9 tree/ll channels=1 channels=2"), table("all_reduce 0 9 default"),
    table("all_reduce 0 9 collnet_chain/simple channels=2"), table("all_reduce 0 18446744073709551616 tree/ll"),
    table("all_reduce +0 9 tree/ll"), table("all_reduce 9 0 tree/ll"), table("alltoall 0 9 tree/ll"),
    table(facts=FACTS.replace("H200", "\x1b[31mH200")), table(facts=FACTS.replace("H200", "H" * 300)),
    table(facts=FACTS.replace("ranks 4", "ranks 0")), table(facts=FACTS.replace("nodes 1", "nodes one")),
    table(facts=FACTS.replace("gpu", "gpu A100\ngpu")),
])  # fmt: skip
def test_what_the_plugin_refuses_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(UserError, match=r"t:\d+: .* is no line of a table"):
        read_table(tmp_path / "t")
