"""Ways to train: data parallel with its hooks, sharded, tensor parallel, pipelines."""

from __future__ import annotations

import torch
import torch.distributed as dist
from job import DEVICE, GPU, Result, batch, case, device, model, train
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel


def ddp(network: nn.Module, **options: object) -> DistributedDataParallel:
    return DistributedDataParallel(network, device_ids=[device().index] if GPU else None, **options)


@case()
def ddp_views_and_static_graph() -> Result:
    network = ddp(model(), gradient_as_bucket_view=True, static_graph=True, bucket_cap_mb=1)
    return train(network, torch.optim.AdamW(network.parameters(), 1e-3))


@case(ranks=4, tolerance=1e-5)
def ddp_unused_parameters() -> Result:
    network = ddp(Skips(), find_unused_parameters=True)
    return train(network, torch.optim.SGD(network.parameters(), 1e-2))


class Skips(nn.Module):
    """Leaves a branch out in every second call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.branches = nn.ModuleList([model(), model()])

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        out: torch.Tensor = self.branches[self.calls % 2](given)
        return out


@case()
def ddp_half_precision_hook() -> Result:
    network = ddp(model())
    network.register_comm_hook(None, default_hooks.bf16_compress_hook if GPU else default_hooks.fp16_compress_hook)
    return train(network, torch.optim.SGD(network.parameters(), 1e-2))


@case(tolerance=1e-3)
def ddp_power_sgd() -> Result:
    network = ddp(model())
    state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=2, start_powerSGD_iter=3)
    network.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return train(network, torch.optim.SGD(network.parameters(), 1e-2), steps=8)


@case()
def ddp_uneven_inputs() -> Result:
    network = ddp(model())
    optimizer = ZeroRedundancyOptimizer(network.parameters(), torch.optim.Adam, lr=1e-3)
    with Join([network, optimizer]):
        train(network, optimizer, steps=4 + 3 * dist.get_rank())
    return [parameter.detach() for parameter in network.parameters()]


@case()
def ddp_accumulation() -> Result:
    network = ddp(model())
    optimizer = torch.optim.SGD(network.parameters(), 1e-2, momentum=0.9)
    losses = []
    for step in range(3):
        with network.no_sync():
            network(batch(10 + step)).square().mean().backward()
        losses += train(network, optimizer, steps=1, data=20 + step)
    return losses


@case()
def sync_batch_norm() -> Result:
    if not GPU:
        return []
    torch.manual_seed(3)
    network = nn.Sequential(nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 8)).to(device())
    wrapped = ddp(nn.SyncBatchNorm.convert_sync_batchnorm(network))
    return train(wrapped, torch.optim.SGD(wrapped.parameters(), 1e-2))


@case(ranks=4, tolerance=2e-2)
def fsdp_mixed_precision() -> Result:
    network = model(512)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in network:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mp_policy=policy, reshard_after_forward=True)
    fully_shard(network, mp_policy=policy)
    return train(network, torch.optim.AdamW(network.parameters(), 1e-3), width=512)


@case(ranks=4, tolerance=1e-4)
def fsdp_on_a_mesh() -> Result:
    mesh = init_device_mesh(DEVICE, (2, 2), mesh_dim_names=("replicate", "shard"))
    network = model()
    fully_shard(network, mesh=mesh)
    optimizer = torch.optim.AdamW(network.parameters(), 1e-3)
    losses = train(network, optimizer)
    norm = nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    full = [parameter.full_tensor() for parameter in network.parameters() if isinstance(parameter, DTensor)]
    return [*losses, norm.full_tensor() if isinstance(norm, DTensor) else norm, *full]


class Block(nn.Module):
    """What tensor parallel splits, with a norm over the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(256)
        self.up = nn.Linear(256, 1024)
        self.down = nn.Linear(1024, 256)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down(torch.relu(self.up(self.norm(given))))
        return out


def tensor_parallel(sequence: bool) -> Result:
    mesh = init_device_mesh(DEVICE, (2,))
    torch.manual_seed(4)
    network = nn.Sequential(Block(), Block()).to(device())
    for block in network:
        plan: dict[str, ParallelStyle] = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        if sequence:
            plan = {
                "norm": SequenceParallel(),
                "up": ColwiseParallel(input_layouts=Shard(1)),
                "down": RowwiseParallel(),
            }
        parallelize_module(block, mesh, plan)
    optimizer = torch.optim.SGD(network.parameters(), 1e-2, foreach=False)
    losses = []
    for step in range(4):
        torch.manual_seed(step)
        loss = network(torch.randn(4, 64, 256, device=device())).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [each.full_tensor() if isinstance(each, DTensor) else each for each in losses]


@case()
def tensor_parallel_plain() -> Result:
    return tensor_parallel(sequence=False)


@case()
def tensor_parallel_over_the_sequence() -> Result:
    return tensor_parallel(sequence=True)


def pipeline(schedule: type) -> Result:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(6 + rank)
    part = nn.Sequential(nn.Linear(128, 128), nn.Tanh()).to(device())
    stage = PipelineStage(part, rank, ranks, device())
    runner = schedule(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    torch.manual_seed(60)
    given, wanted = torch.randn(32, 128, device=device()), torch.randn(32, 128, device=device())
    losses: Result = []
    for _ in range(3):
        if rank == 0:
            runner.step(given)
        elif rank == ranks - 1:
            runner.step(target=wanted, losses=losses)
        else:
            runner.step()
    grads = [parameter.grad for parameter in part.parameters() if parameter.grad is not None]
    return [*losses, *grads]


@case()
def pipeline_gpipe() -> Result:
    return pipeline(ScheduleGPipe)


@case(ranks=4)
def pipeline_1f1b() -> Result:
    return pipeline(Schedule1F1B)
