"""PyTorch's NCCL calls over all GPUs in one process (torch.cuda.nccl), compared with sums on the processor."""

from __future__ import annotations

import sys

try:
    import torch
    from torch.cuda import nccl
except ImportError as error:
    print(f"no PyTorch: {error}")
    sys.exit(77)


def main() -> int:
    gpus = torch.cuda.device_count()
    if gpus < 2:
        print(f"PyTorch sees {gpus} GPUs; two or more are needed")
        return 77
    torch.manual_seed(1)
    for count in (8, 4096, 262144):
        given = torch.randint(-8, 8, (gpus, gpus * count)).float()
        inputs = [given[gpu].to(f"cuda:{gpu}") for gpu in range(gpus)]
        whole = given.sum(0)

        reduced = [torch.zeros_like(each) for each in inputs]
        nccl.all_reduce(inputs, reduced)
        gathered = [torch.zeros(gpus * each.numel(), device=each.device) for each in inputs]
        nccl.all_gather(inputs, gathered)
        scattered = [torch.zeros(count, device=each.device) for each in inputs]
        nccl.reduce_scatter(inputs, scattered)
        copies = [each.clone() for each in inputs]
        nccl.broadcast(copies, 0)
        for gpu in range(gpus):
            pairs = {
                "all_reduce": (reduced[gpu], whole),
                "all_gather": (gathered[gpu], given.flatten()),
                "reduce_scatter": (scattered[gpu], whole[gpu * count : (gpu + 1) * count]),
                "broadcast": (copies[gpu], given[0]),
            }
            for name, (got, wanted) in pairs.items():
                if not torch.equal(got.cpu(), wanted):
                    print(f"WRONG: {name} of {count} float32 on GPU {gpu} of {gpus}")
                    return 1
    print(f"right: PyTorch {torch.__version__}, NCCL {nccl.version()}, {gpus} GPUs in one process")
    return 0


if __name__ == "__main__":
    sys.exit(main())
