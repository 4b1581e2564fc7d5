"""What is given as an nccl.conf and is none is refused: its lines would be findings, and its bytes evidence."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from busbw.base.errors import UsageError
from busbw.doctor.reading.inputs import Inputs, read_inputs

TABLE = "#  size  count  type  time  busbw\n" + "  1048576  262144  float  sum  -1  120.0  8.74\n" * 8
KINDS = {
    "a table": TABLE,
    "a record": '{"schema": 1, "kind": "run", "run": "a", "environment": {"NCCL_ALGO": "Ring"}}\n',
    "a topology file": '<system version="1">\n  <cpu numaid="0" affinity="f">\n  </cpu>\n</system>\n',
    "a log": "node1:17:29 [0] NCCL INFO NCCL_PROTO set by environment to LL\n" * 4,
    "random bytes": "".join(map(chr, random.Random(3).choices(range(256), k=4000))),
    "an assignment among other bytes": "NCCL_ALGO=Ring\n\0\0\0",
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_conf_is_refused_with_the_exit_code_of_a_mistake(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_text(KINDS[kind])
    with pytest.raises(UsageError, match=r"given is no nccl\.conf: most of its lines are no NAME=value") as refused:
        read_inputs(Inputs(confs=(str(path),)))
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    ["", "# nothing yet\n", "NCCL_ALGO = Ring\n  NCCL_PROTO=LL\nhello\n", "export NCCL_ALGO=Ring\n", "NCCL_ALGO Ring\n",
     "# f\u00fcr alle\nA=1\r\nB=2\r\n"],
)  # fmt: skip
def test_a_conf_with_mistakes_is_one(text: str, tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_text(text, newline="")
    snapshot, _ = read_inputs(Inputs(confs=(str(path),)))
    assert [each.text for each in snapshot.confs] == [text]
