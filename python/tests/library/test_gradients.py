"""The GPU library tells the gradients of PyTorch's DDP from other all-reduces, in a PyTorch that nobody here built."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("BUSBW_BUILD", Path(__file__).parents[3] / "build"))
TORCH = os.environ.get("BUSBW_TORCH_PYTHON", "")
ASKED = BUILD / "lib" / "libbusbw_test_gradients.so"

PROGRAM = """
import ctypes, sys
import torch
import torch.distributed as dist

asked = ctypes.CDLL(sys.argv[1]).busbw_test_called_for_gradients
said = {"before": asked()}
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))

def hook(_state, bucket):  # stands where NCCL is called
    said["gradients"] = asked()
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done

class Beside(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x
    @staticmethod
    def backward(context, grad):
        said["in a backward pass"] = asked()  # as tensor parallel calls it
        return grad

model.register_comm_hook(None, hook)
model(Beside.apply(torch.ones(4, 8, requires_grad=True))).sum().backward()
said["after"] = asked()
print(said)
"""


@pytest.mark.skipif(not TORCH, reason="BUSBW_TORCH_PYTHON names no Python with torch")
@pytest.mark.skipif(not ASKED.exists(), reason=f"{ASKED.name} is not built")
def test_calls_of_ddp_are_known_and_other_calls_are_not():
    done = subprocess.run([TORCH, "-c", PROGRAM, str(ASKED)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{'before': 0, 'gradients': 1, 'in a backward pass': 0, 'after': 0}"
