"""What came back counts by the losses, and not by how many ranks tell of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_corpus import loud

STEP = "step 11 loss 3.1 2.7 s/it\n"
TOLD = "h3:9{rank}:20{rank} [{rank}] transport/net_ib.cc:96 NCCL WARN NET/IB : mlx5_5:1 Got async event : port {what}\n"
LISTED = "# ibstat mlx5_5\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 200\n"
KERNEL = "[Tue Feb 18 14:00:2{at} 2025] mlx5_core 0000:b1:00.0: mlx5_5: Port: 1 Link {state}\n"


@pytest.mark.parametrize(("times", "names"), [(1, []), (4, ["ib-port-down"])])
def test_a_link_that_flaps_is_told_though_it_is_up_at_last(times: int, names: list[str], tmp_path: Path) -> None:
    ranks = "".join(TOLD.format(rank=rank, what=what) for what in ("error", "active") for rank in range(4))
    kernel = "".join(KERNEL.format(at=at, state=state) for at, state in enumerate(("DOWN", "ACTIVE")))
    text = STEP + times * ranks + STEP + times * kernel + LISTED
    assert [each.name for each in loud(text, tmp_path)] == names
