"""What a job came through is no finding; the same words in a job that failed are."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.lines.course import Course

from .test_corpus import loud

STEPS = "step 10 loss 3.1 time 0.4\nstep 20 loss 3.0 time 0.4\n"
TIMEOUT = (
    "[rank3]:[E1120 09:22:10.112 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600031 milliseconds "
    "before timing out.\n"
    "W1120 09:22:12.001000 44 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 4432 closing "
    "signal SIGTERM\n"
)
AGAIN = "I1120 09:22:12.225000 44 torch/distributed/elastic/agent/server/api.py:677] [default] Rendezvous'ing workers\n"
SUCCESS = "I1120 11:22:13.225000 44 torch/distributed/elastic/agent/server/api.py:891] [default] worker group \
successfully finished.\n"
PEER = "n0:4411:4502 [0] misc/socket.cc:502 NCCL WARN socketProgress: Connection closed by remote peer n0<41733>\n"
PROXY = "n0:4411:4502 [0] proxy.cc:1597 NCCL WARN [Service thread] Accept failed Resource temporarily unavailable\n"
ENDED_BADLY = "['/usr/bin/python', 'train.py'] exits with return code = 1\n"
OF_RANK = "".join(f"[rank1]: {line}\n" for line in (
    "Traceback (most recent call last):", '  File "/app/a.py", line 4, in build', "ImportError: no flash"))  # fmt: skip
TRACEBACK = 'Traceback (most recent call last):\n  File "/app/a.py", line 4, in build\n    f()\nImportError: no flash\n'
FALLS_BACK = "WARNING:builder: fused kernel not usable, falling back to eager. Caught exception:\n"
LOGGED = "ERROR:root:could not read the sensor\n"
NVLINK = "Nov 20 10:00:01 n0 nv-fabricmanager[2011]: NVLink 4 on GPU 2 went down, retraining\n"
NVLINK_BACK = "Nov 20 10:00:02 n0 nv-fabricmanager[2011]: NVLink 4 on GPU 2 is active again\n"
XID = "NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.\n"
MEMORY = "external/xla/cuda_driver.cc:1001] failed to allocate 12GiB from device: CUDA_ERROR_OUT_OF_MEMORY\n"
TRIED = "upload of shard failed: Connection timed out, retrying in 2 s\n"
ALONE = (
    "[{}] bond0: Warning: No 802.3ad response from the link partner for any adapters in the bond\n"
    "[{}] bond0: (slave eno1np0): link status definitely up, 25000 Mbps full duplex\n"
)
DCGM = "Nov 20 10:00:01 n0 systemd[1]: nvidia-dcgm.service: Main process exited, code=exited, status=1/FAILURE\n"
DCGM_BACK = "Nov 20 10:00:06 n0 systemd[1]: Started nvidia-dcgm.service - NVIDIA DCGM service.\n"
LUSTRE = (
    "[811234.000433] Lustre: s-OST0004-osc-ff: Connection to s-OST0004 (at 10.2.0.4@o2ib) was lost; in progress "
    "operations using this service will wait for recovery to complete\n"
    "[811261.412233] Lustre: s-OST0004-osc-ff: Connection restored to 10.2.0.4@o2ib (at 10.2.0.4@o2ib)\n"
)


def names(text: str, folder: Path) -> list[str]:
    return [each.name for each in loud(text, folder)]


@pytest.mark.parametrize(
    "text",
    [
        TIMEOUT + AGAIN + STEPS + SUCCESS,
        STEPS + "training finished\n" + PROXY + PEER,
        "rank 0: done\n" + PEER + "rank 1: done\n",
        FALLS_BACK + TRACEBACK + STEPS,
        LOGGED + TRACEBACK + STEPS + "training finished\n",
        TRACEBACK + STEPS + "training finished\n",
        "handled exception while reading metrics (KeyError: 'temp'), continuing\n" + STEPS,
        NVLINK + NVLINK_BACK + STEPS,
        "2026-11-20 10:00:01.112: I " + MEMORY,
        TRIED + "uploaded shard\n",
        "test_a ... " + TIMEOUT + "ok\n----\nRan 3 tests in 14.112s\n\nOK (expected failures=1)\n",
        "training finished\nRuntimeError: cannot schedule new futures after interpreter shutdown\n",
        DCGM + DCGM_BACK,
        LUSTRE + STEPS,
        "run finished\nException in thread Thread-7:\nTraceback (most recent call last):\n"
        '  File "/lib/threading.py", line 1, in run\nConnectionResetError: [Errno 104] Connection reset by peer\n',
        "| Error | Meaning |\n|---|---|\n| CUDA out of memory | the batch does not fit |\n",
        "efa: rx_drops=0 retrans_timeout_events=0 unresponsive_remote_events=0 port_errors=0\n",
        "Nov 19 06:01:39 n3 kernel: mlx5_core 0000:5e:00.0 ibp94s0: Link down\nNov 19 06:05:00 n3 test: RESULT PASS\n",
        ALONE.format("   17.121002", "   19.420114"),
    ],
)
def test_what_a_job_came_through_is_quiet(text: str, tmp_path: Path) -> None:
    assert names(text, tmp_path) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (TIMEOUT + AGAIN + STEPS, "watchdog-timeout"),
        (TIMEOUT + AGAIN + STEPS + TIMEOUT, "watchdog-timeout"),
        (TIMEOUT + STEPS + "training finished\n", "watchdog-timeout"),
        (STEPS + PROXY + PEER, "proxy-failure"),
        (STEPS + "training finished\n" + STEPS + PEER + ENDED_BADLY, "remote-error"),
        (STEPS + "training finished\n" + PEER + ENDED_BADLY, "remote-error"),
        (STEPS + "training finished\nRuntimeError: CUDA out of memory\n", "gpu-memory-full"),
        (STEPS + FALLS_BACK + TRACEBACK, "python-exception"),
        (FALLS_BACK + TRACEBACK + ENDED_BADLY, "python-exception"),
        (LOGGED + TRACEBACK + STEPS, "python-exception"),
        (
            "[rank0]: done\n" + PEER + "torch.distributed.DistBackendError: NCCL error, remote process exited\n",
            "remote-error",
        ),
        (DCGM, "rank-ended"),
        (DCGM_BACK + DCGM, "rank-ended"),
        (DCGM + DCGM_BACK.replace("dcgm", "persistenced"), "rank-ended"),
        (LUSTRE, "file-system-stall"),
        # Output that was held back is printed after a traceback that nobody logged.
        (OF_RANK + STEPS + "training finished\n", "python-exception"),
        ("exception in the loop (KeyError: 'temp'), continuing\n", "python-exception"),
        ("exception not ignored: KeyError: 'temp'\nERROR: KeyError: 'temp'\n" + STEPS, "python-exception"),
        (NVLINK + STEPS, "nvlink-error"),
        (NVLINK + NVLINK_BACK, "nvlink-error"),
        (XID + NVLINK_BACK + STEPS + "job 8812 succeeded\n", "gpu-off-bus"),
        ("2026-11-20 10:00:01.112: E " + MEMORY, "gpu-memory-full"),
        ("E1120 10:00:01.112233  44 " + MEMORY, "gpu-memory-full"),
        ("waiting for the store: connection refused, retrying in 2 s\n", "connection-refused"),
        ("test_a ... " + TIMEOUT + "ok\nRan 3 tests in 14.112s\n\nFAILED (failures=1)\n", "watchdog-timeout"),
        ("RuntimeError: cannot schedule new futures after interpreter shutdown\n", "python-exception"),
        ("| GPU | State |\n|---|---|\n| 3 | CUDA out of memory |\n", "gpu-memory-full"),
        ("efa: rx_drops=0 unresponsive_remote_events=3\n", "nic-hang"),
        ("job.exception type=exec severity=0 rank 3 lost: node gpu-3 is unhealthy\n", "node-lost"),
        ("[ 9931.001] nvidia-nvswitch0: SXid (PCI:0000:07:00.0): 12028, Non-fatal, PRIV\n" + STEPS, "nvswitch-error"),
        (ALONE.format("88117.121002", "88119.420114"), "bond-no-partner"),
    ],
)  # fmt: skip
def test_the_same_words_in_a_job_that_failed_are_found(text: str, name: str, tmp_path: Path) -> None:
    assert name in names(text, tmp_path)


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("rank 0: done", {"done"}),
        ("[23:26:52] rank 1: done", {"done"}),
        ("2026-11-20 10:00:48 INFO all done, exiting with code 0", {"done", "succeeded"}),
        ("Finished Training", {"done"}),
        ("INFO:train:finished training in 1200 s", {"done"}),
        ("benchmark done, 2 sizes, 0 failures", {"done"}),
        ("`Trainer.fit` stopped: `max_epochs=10` reached.", {"done", "ended"}),
        ("JobState=COMPLETED Reason=None Dependency=(null)", {"done", "ended", "succeeded"}),
        ("8812              train  COMPLETED      0:0", {"done", "ended", "succeeded"}),
        ("Job 'raysubmit_8812' succeeded", {"done", "ended", "succeeded"}),
        ("===== 212 passed, 1 skipped, 1 xfailed in 88.12s =====", {"done", "ended", "checked"}),
        ("[  PASSED  ] 2 tests.", {"done", "ended", "checked"}),
        ("test result: ok. 12 passed; 0 failed; 0 ignored", {"done", "ended", "checked"}),
        ("PyTorchJob train is successfully completed.", {"done", "succeeded"}),
        ("Exit_status = 0", {"done", "succeeded"}),
        ("Reached max steps (5000), exiting", {"done"}),
        ("all ranks completed the rendezvous", set()),
        ("job done: failed", set()),
        ("done (with errors)", set()),
        ("rank 3 exited with code 0", set()),
        ("loading dataset: done", set()),
        ("===== 1 failed, 3 passed in 2.10s =====", set()),
        ("JobState=RUNNING Reason=None ExitCode=0:0", set()),
        ("8812.extern     extern  COMPLETED      0:0", set()),
        ("waiting until all workers finished", set()),
        ("training was not completed", set()),
        ("training completed with errors", set()),
        ("job 8812 completed with exit code 1", set()),
        ("training completed 12 of 40 epochs", set()),
        ("run finished due to an error", set()),
        ("when training is done the model is saved", set()),
    ],
)
def test_an_end_is_told_by_words_about_the_job(line: str, kinds: set[str]) -> None:
    course = Course()
    course.look_for_end(line, 1)
    told = {kind for kind in ("done", "ended", "succeeded", "checked") if getattr(course, kind)}
    assert told - {"ended"} == kinds - {"ended"} and kinds <= told | {"ended"}


@pytest.mark.parametrize(
    ("line", "is_back"),
    [
        ("mlx5_core 0000:9a:00.0 enp154s0np0: Link up", True),
        ("bond0: (slave ens2f0np0): link status definitely up, 200000 Mbps", True),
        ("Connection restored to the server", True),
        ("the link is not up", False),
        ("waiting for the link to come up", False),
        ("link changed from up to down", False),
    ],
)
def test_what_is_back_is_told_by_words_of_a_link_or_a_host(line: str, is_back: bool) -> None:
    assert Course().look_for_return(line, 1) is is_back
