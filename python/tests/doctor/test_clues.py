"""What stands beside an error decides what it means; what only looks like it decides nothing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from busbw.doctor.clues import finders as clue_finders
from busbw.doctor.clues.sharpen import CLUES
from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.reading.inputs import Inputs, read_inputs

from .corpus.load import cases

LOGS = {each.name.removeprefix("f120-"): each.text for each in cases() if each.name.startswith("f120-")}
WATCHDOG = (
    "[E ProcessGroupNCCL.cpp:828] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, "
    "OpType=ALLGATHER, Timeout(ms)=1800000) ran for 1800177 milliseconds before timing out.\n"
)
ACS = """\
$ sudo lspci -vvv | grep -e bridge -e ACSCtl
00:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
"""


def first(text: str, folder: Path) -> Finding:
    path = folder / "job.log"
    path.write_text(text)
    found = examine(gather(*read_inputs(Inputs(files=(str(path),)))))
    return next(each for each in found if each.severity is not Severity.NOTE)


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("nc-to-another-port", "a firewall on 10.77.3.4 lets only some ports", "open all TCP ports"),
        ("link-of-one-nic", "the link of mlx5_4, ibp94s0 (0000:5e:00.0) goes up and down", "replace or reseat"),
        ("local-ranks-alike", "all of them have local rank 0, since srun sets SLURM_LOCALID", "SLURM_LOCALID"),
        ("quota-not-disk", "the user's quota is used up (200G of 200G)", "have the quota raised"),
        ("one-address-for-all", "give one address, 10.6.0.20", "to that node's own address"),
        ("libfabric-of-the-distribution", "(/lib/x86_64-linux-gnu/libfabric.so.1)", "/opt/amazon/efa/lib"),
        ("gid-of-the-test", "(index 0): ib_send_bw reaches the peer by GID index 5", "NCCL_IB_GID_INDEX=5"),
        ("index-of-the-pod", "only index 5 belongs to its own, net2", "NCCL_IB_GID_INDEX=5"),
        ("multicast-refused", "the fabric manager runs, but cannot set up multicast groups", "NCCL_NVLS_ENABLE=0"),
        ("packages-of-two-cudas", "nvidia-nccl-cu12 2.18.1 and -cu13 2.27.7", "uninstall -y nvidia-nccl-cu12"),
        ("privileged-works", "with --privileged it works", "start the container with --privileged"),
        ("nic-that-ibgda-lacks", "and bnxt_re0 is none", "ConnectX"),
        ("ranks-in-two-branches", "rank 0, 2 in Allreduce_disc_loss_0, rank 1, 3 in", "take the same branch"),
        ("launcher-for-each-task", "srun starts 4 launchers (torchrun) on each node", "one launcher per node"),
        ("port-of-the-shell", "port 22 is one of the system's own", "MASTER_PORT=29500"),
        ("saved-by-one-of-sharded", "the script calls trainer.model.state_dict behind a condition", "on all ranks"),
        ("tokenizer-behind-barrier", "one rank still prepares the data", "ddp_timeout"),
        ("callback-goes-on", "works through something of its own", "spread that work over all ranks"),
        ("p2p-and-acs", "transfers from GPU to GPU hang by it", "switch ACS off"),
        ("segments-that-grow", "memory of expandable segments cannot be shared", "unset PYTORCH_CUDA_ALLOC_CONF"),
        ("mtu-of-two-hosts", "4096 at yew1, 1024 at yew2", "the same active_mtu everywhere"),
        ("clique-without-others", "not all processes ran this computation", "the same program on all processes"),
        ("watchdog-in-capture", "asked the GPU for an event while a CUDA graph was captured", "--enforce-eager"),
        ("nohup-and-closed", "the terminal or ssh session was closed", "nohup does not protect torchrun"),
        ("board-without-power", "Power Unit #0x7a | Power off/down", "supplies and feeds of power"),
        ("each-task-its-gpu", "its own GPU alone (--gpus-per-task=1)", "--gpu-bind=none"),
        ("name-that-no-listing-has", "NCCL_SOCKET_IFNAME=ens9 names no network interface", "ip -br addr"),
    ],
)
def test_what_stands_beside_an_error_tells_cause_and_cure(name: str, title: str, fix: str, tmp_path: Path) -> None:
    found = first(LOGS[name], tmp_path)
    assert title in found.title and fix in found.fix


@pytest.mark.parametrize(
    ("text", "title"),
    [
        # It was tried, and changed nothing.
        (f"{WATCHDOG}NCCL_P2P_DISABLE=1 still hangs, it never works.\n", "hang"),
        (f"{WATCHDOG}With NCCL_P2P_DISABLE=1 it does not work either.\n{ACS}", "hang"),
        (LOGS["privileged-works"].replace("it runs through", "the same error comes, nothing runs"), "--privileged"),
        (f"{WATCHDOG}export NCCL_ALGO=Ring  # works on the other cluster\n", "NCCL_ALGO"),
        (f"{WATCHDOG}NCCL_DEBUG=INFO works, see below.\n", "NCCL_DEBUG"),
        (f"{WATCHDOG}$ NCCL_P2P_DISABLE=1 ./run.sh --fine-tune /app/ran.py\n", "hang"),
        # Another host answers, and the same port from elsewhere.
        (LOGS["nc-to-another-port"].replace("to 10.77.3.4 29400", "to 10.77.3.5 29400"), "lets only some ports"),
        (LOGS["nc-to-another-port"].replace("29400", "44871"), "lets only some ports"),
        (LOGS["local-ranks-alike"].replace("rank 1 local_rank 0", "rank 1 local_rank 1"), "have local rank"),
        (LOGS["quota-not-disk"].replace("200G*", "20G "), "quota"),
        # The test took the GID that NCCL takes, or gave no result.
        (LOGS["gid-of-the-test"].replace("--gid-index 5", "--gid-index 0"), "GID that"),
        (LOGS["gid-of-the-test"].replace(" 65536      1000  ", " Failed to modify QP "), "GID that"),
        (LOGS["packages-of-two-cudas"].replace("nvidia-nccl-cu13", "nvidia-cudnn-cu13"), "one folder"),
        # All ranks lag in one tensor; a task's launcher is alone on its node.
        (LOGS["ranks-in-two-branches"].replace("[ready ranks: 1, 3]", "[ready ranks: 0, 3]"), "different ways"),
        (LOGS["launcher-for-each-task"].replace("--ntasks-per-node 4", "--ntasks-per-node 1"), "srun"),
        # One rank has the whole model, or only prints there.
        (LOGS["saved-by-one-of-sharded"].replace(", FSDP FULL_SHARD", ""), "the script calls"),
        (LOGS["saved-by-one-of-sharded"].replace("trainer.model.state_dict()", "report(model)"), "the script calls"),
        (LOGS["board-without-power"].replace("Power off/down", "Fully Redundant"), "board"),
        (f"if rank == 0:\n    x = torch.gather(x, 0, i)\n{WATCHDOG}", "the script calls"),
        (f"    if rank == 0:\n        print(loss)\n    dist.barrier()\n{WATCHDOG}", "the script calls"),
        (LOGS["mtu-of-two-hosts"].replace("mtu 3", "mtu 5"), "MTU"),
        (LOGS["name-that-no-listing-has"].replace("ens3 ", "ens9 "), "names no network"),
        # A bar that stood still with the others may be of any rank.
        (LOGS["callback-goes-on"].rpartition("\nRendering")[0] + "\n", "of its own"),
        (LOGS["link-of-one-nic"].replace("Link up", "Link is up"), "goes up and down"),
    ],
)
def test_what_only_looks_like_a_clue_decides_nothing(text: str, title: str, tmp_path: Path) -> None:
    assert title not in first(text, tmp_path).title.replace("(P2P) hang or", "")


SOCKET = (
    "k2:9:19 [0] misc/socket.cc:477 NCCL WARN socketStartConnect: Connect to 172.18.0.1<40122> failed : "
    "Connection timed out\n"
)
STALLED = (
    "[1,0]<stderr>:[2026-01-30 16:35:15.1: W /b/horovod/common/stall_inspector.cc:105] One or more tensors were "
    "submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks\n"
)
SYMBOL = "ImportError: /venv/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommSplit\n$ ldd libtorch_cuda.so\n"


@pytest.mark.parametrize(
    ("text", "title", "fix"),
    [
        (f"{STALLED}Missing ranks:\n0: [allreduce.head.bias, allreduce.head.weight ...]\n2: [allreduce.aux.weight]\n",
         "rank 0 lacks allreduce.head.bias, and rank 2 allreduce.aux.weight", "take the same branch"),
        (f"{STALLED}grad_a_0 [missing ranks: 0, 1]\ngrad_b_0 [missing ranks: 2]\n",
         "rank 2 lacks grad_b_0, rank 0, 1 lacks grad_a_0", "take the same branch"),
        (f"    @rank_zero_only\n    def on_end(self):\n        total = self.all_gather(loss)\n{WATCHDOG}",
         "the script calls self.all_gather behind a condition", "on all ranks"),
        (f"if dist.get_rank() == 0:\n    out = metric()\n    dist.reduce(out, 0)\n{WATCHDOG}",
         "the script calls dist.reduce behind a condition", "on all ranks"),
        (f"{WATCHDOG}With NCCL_PROTO=Simple it runs.\n", "with NCCL_PROTO=Simple it passes", "keep NCCL_PROTO=Simple"),
        (f"{WATCHDOG}NCCL_IB_DISABLE=1: passes, but slow\n", "the RDMA network is what fails", "ib_write_bw"),
        (f"{SOCKET}When I set NCCL_SOCKET_IFNAME=ens4 it works.\n",
         "with NCCL_SOCKET_IFNAME=ens4 it passes", "nccl.conf"),
        (f"{SYMBOL}\tlibnccl.so.2 => /usr/lib/x86_64-linux-gnu/libnccl.so.2 (0x7f)\n",
         "/usr/lib/x86_64-linux-gnu/libnccl.so.2 has no ncclCommSplit", "LD_LIBRARY_PATH"),
        (f"{SYMBOL}\tlibnccl.so.2 => /venv/torch/lib/../../nvidia/nccl/lib/libnccl.so.2 (0x7f)\n"
         "NCCL version 2.14.3+cuda11.7\n",
         "the NCCL that is loaded (2.14.3) is too old", "--force-reinstall"),
    ],
)  # fmt: skip
def test_what_was_tried_and_what_is_loaded_tell_where_the_fault_lies(
    text: str, title: str, fix: str, tmp_path: Path
) -> None:
    found = first(text, tmp_path)
    assert title in found.title and fix in found.fix


def test_no_text_of_a_clue_is_too_long() -> None:
    path = Path(__file__).parents[1] / "tools" / "test_plain_english.py"
    spec = importlib.util.spec_from_file_location("plain_english", path)
    assert spec is not None and spec.loader is not None
    english = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(english)
    texts = [text for rows in CLUES.values() for each in rows for text in (each.title, each.cure)]
    for path in Path(str(clue_finders.__file__)).parent.rglob("*.py"):
        texts += english.texts_of(path)
    assert len(texts) > 40
    assert [each for text in texts for each in english.too_long(text)] == []
