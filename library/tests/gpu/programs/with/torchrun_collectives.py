"""One rank of torch.distributed with the NCCL backend, as torchrun starts it; compared with sums on the processor."""

from __future__ import annotations

import os
import sys

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    print(f"no PyTorch: {error}")
    sys.exit(77)


def main() -> int:
    rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    ranks = dist.get_world_size()
    try:
        for count in (8, 4096, 262144):
            torch.manual_seed(count)
            given = torch.randint(-8, 8, (ranks, ranks * count)).float()
            mine = given[rank].to(device)
            whole = given.sum(0)
            reduced = mine.clone()
            dist.all_reduce(reduced)
            gathered = torch.zeros(given.numel(), device=device)
            dist.all_gather_into_tensor(gathered, mine)
            scattered = torch.zeros(count, device=device)
            dist.reduce_scatter_tensor(scattered, mine)
            exchanged = torch.zeros_like(mine)
            dist.all_to_all_single(exchanged, mine)
            pairs = {
                "all_reduce": (reduced, whole),
                "all_gather": (gathered, given.flatten()),
                "reduce_scatter": (scattered, whole[rank * count : (rank + 1) * count]),
                "all_to_all": (exchanged, given.reshape(ranks, ranks, count)[:, rank].flatten()),
            }
            for name, (got, wanted) in pairs.items():
                if not torch.equal(got.cpu(), wanted):
                    print(f"WRONG: {name} of {count} float32 on rank {rank} of {ranks}")
                    return 1
        print(f"right: torch.distributed {torch.__version__}, rank {rank} of {ranks}")
        return 0
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
