"""A title names the host of its lines where a log is of several, and of none whose lines may be others'."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import loud

WORKS = "node-b:77:77 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.2<0>\n"
WRONG = "NCCL WARN Bootstrap : no socket interface found\n"
FULL = "nf_conntrack: nf_conntrack: table full, dropping packet\n"


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (f"{WORKS}node-a:80:80 [0] {WRONG}", "(on node-a)"),
        (f"root@node-a:~# dmesg | tail -1\n[ 812.1] {FULL}root@node-b:~# dmesg | tail -1\n[ 13.5] usb 1-2: new\n",
         "(on node-a)"),
        (f"{WORKS}root@node-a:~# srun -N 2 dmesg\n[ 812.1] {FULL}", ""),
        (f"{WORKS}root@node-a:~# tail -2 /var/log/job.log\n[ 812.1] {FULL}", ""),
        (f"root@node-a:~# dmesg | tail -1\n[ 812.1] {FULL}", ""),
        (f"==> node7.out <==\n{WORKS}root@node7.out# dmesg\n[ 812.1] {FULL}", ""),
    ],
)  # fmt: skip
def test_the_host_of_what_one_of_several_lacks_is_named(text: str, end: str, tmp_path: Path) -> None:
    first = loud(text, tmp_path)[0]
    assert first.title.endswith(end) if end else "(on " not in first.title
