"""The training steps of beside.py: what a person trains with, small enough to start in seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

Step = Callable[[], Any]


@dataclass(frozen=True)
class Place:
    """A rank, and the modules that only a GPU machine has."""

    torch: Any
    dist: Any
    device: Any
    rank: int
    ranks: int

    @property
    def gpu(self) -> bool:
        return bool(self.device.type == "cuda")

    @property
    def dtype(self) -> Any:
        return self.torch.bfloat16 if self.gpu else self.torch.float32


@dataclass(frozen=True)
class Shape:
    """Of the models: a transformer for ddp and fsdp; layers of matrices for the others."""

    width: int
    layers: int
    batch: int
    length: int
    tokens: int  # of a step of tensor parallel, experts and pipeline, on all ranks together
    matrix_layers: int
    microbatches: int


Build = Callable[[Place, Shape, bool], Step]


def _transformer(place: Place, shape: Shape) -> Any:
    nn = place.torch.nn
    functional = nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            width = shape.width
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            heads = max(1, shape.width // 128)
            parts = self.inner(self.first(x)).view(*x.shape[:2], 3, heads, shape.width // heads)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.outer(seen.transpose(1, 2).reshape(x.shape))
            return x + self.narrow(functional.gelu(self.wide(self.second(x))))

    # Made where it stays: 600 million numbers drawn on the host would be most of a start's time.
    with place.torch.device(place.device):
        return nn.Sequential(*[Block() for _ in range(shape.layers)]).to(place.dtype)


def _training_step(place: Place, shape: Shape, model: Any) -> Step:
    torch = place.torch
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=place.gpu)
    inputs = torch.randn(shape.batch, shape.length, shape.width, device=place.device, dtype=place.dtype)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).float().square().mean().backward()
        optimizer.step()

    return step


def ddp(place: Place, shape: Shape, communicates: bool) -> Step:
    """PyTorch's DistributedDataParallel with its buckets of 25 MB."""
    model = _transformer(place, shape)
    if communicates:
        parallel = place.torch.nn.parallel.DistributedDataParallel
        model = parallel(model, device_ids=[place.device.index] if place.gpu else None, gradient_as_bucket_view=True)
    return _training_step(place, shape, model)


def fsdp(place: Place, shape: Shape, communicates: bool) -> Step:
    """PyTorch's FSDP2: parameters are gathered layer by layer, gradients scattered."""
    model = _transformer(place, shape)
    if communicates:
        from torch.distributed.fsdp import fully_shard

        for block in model:
            fully_shard(block)
        fully_shard(model)
    return _training_step(place, shape, model)


def fsdp_large(place: Place, shape: Shape, communicates: bool) -> Step:
    """The same with three times the batch: the host puts a step's work in its streams sooner than the GPU does it."""
    return fsdp(place, replace(shape, batch=3 * shape.batch), communicates)


def ddp_short(place: Place, shape: Shape, communicates: bool) -> Step:
    """Little work beside the messages: 1024 tokens of a rank through 6 layers of 4096."""
    few = replace(shape, width=2 * shape.width, layers=max(1, shape.layers // 2), batch=1)
    return ddp(place, few, communicates)


def fsdp_short(place: Place, shape: Shape, communicates: bool) -> Step:
    """Still less: 1024 tokens of a rank through 3 layers of 6144."""
    few = replace(shape, width=3 * shape.width, layers=max(1, shape.layers // 4), batch=1)
    return fsdp(place, few, communicates)


def _sequence_functions(place: Place) -> tuple[Any, Any]:
    """Gather along the sequence, and reduce and scatter along it: each is the other's backward."""
    torch, dist, ranks = place.torch, place.dist, place.ranks

    def gather(x: Any) -> Any:
        out = x.new_empty(x.shape[0] * ranks, *x.shape[1:])
        dist.all_gather_into_tensor(out, x.contiguous())
        return out

    def scatter(x: Any) -> Any:
        out = x.new_empty(x.shape[0] // ranks, *x.shape[1:])
        dist.reduce_scatter_tensor(out, x.contiguous())
        return out

    class Gather(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(_context: Any, x: Any) -> Any:
            return gather(x)

        @staticmethod
        def backward(_context: Any, grad: Any) -> Any:
            return scatter(grad)

    class Scatter(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(_context: Any, x: Any) -> Any:
            return scatter(x)

        @staticmethod
        def backward(_context: Any, grad: Any) -> Any:
            return gather(grad)

    return Gather.apply, Scatter.apply


def tensor_parallel(place: Place, shape: Shape, communicates: bool) -> Step:
    """Layers cut by columns, then rows, with sequence parallelism: all-gather before, reduce-scatter behind."""
    torch = place.torch
    gather, scatter = _sequence_functions(place)
    width, part = 2 * shape.width, max(1, 8 * shape.width // place.ranks)
    mine = max(1, shape.tokens // place.ranks)
    layers = [
        tuple(
            torch.randn(*size, device=place.device, dtype=place.dtype).mul_(width**-0.5).requires_grad_()
            for size in ((width, part), (part, width))
        )
        for _ in range(shape.matrix_layers)
    ]
    inputs = torch.randn(mine, width, device=place.device, dtype=place.dtype, requires_grad=True)

    def step() -> None:
        x = inputs
        for first, second in layers:
            # Alone, as many rows are there without having come from anywhere.
            whole = gather(x) if communicates else x.repeat(place.ranks, 1)
            y = torch.relu(whole @ first) @ second
            x = x + (scatter(y) if communicates else y[:mine])
        x.float().square().mean().backward()
        for pair in layers:
            for each in pair:
                each.grad = None
        inputs.grad = None

    return step


def experts(place: Place, shape: Shape, communicates: bool) -> Step:
    """Mixture of experts: tokens go to their experts and back by all-to-all, half of them while the others work."""
    torch, dist = place.torch, place.dist
    width, inner = 2 * shape.width, 8 * shape.width
    rows = max(place.ranks, shape.tokens // 2 // place.ranks * place.ranks)
    first = torch.randn(width, inner, device=place.device, dtype=place.dtype) * width**-0.5
    second = torch.randn(inner, width, device=place.device, dtype=place.dtype) * inner**-0.5
    halves = [torch.randn(rows, width, device=place.device, dtype=place.dtype) for _ in range(2)]

    def exchange(x: Any) -> tuple[Any, Any]:
        out = torch.empty_like(x)
        work = dist.all_to_all_single(out, x, async_op=True) if communicates else None
        return (out if communicates else x), work

    def step() -> None:
        current = halves
        for _ in range(shape.matrix_layers):
            sent = [exchange(x) for x in current]
            back = []
            for there, work in sent:
                if work is not None:
                    work.wait()
                back.append(exchange(torch.relu(there @ first) @ second))
            for _, work in back:
                if work is not None:
                    work.wait()
            current = [out for out, _ in back]

    def without_gradients() -> None:
        with torch.no_grad():
            step()

    return without_gradients


def pipeline(place: Place, shape: Shape, communicates: bool) -> Step:
    """Microbatches from rank to rank by send and receive, which are NCCL's with and without our library."""
    torch, dist = place.torch, place.dist
    width, inner = 2 * shape.width, 8 * shape.width
    rows = max(1, shape.tokens // shape.microbatches)
    first = torch.randn(width, inner, device=place.device, dtype=place.dtype) * width**-0.5
    second = torch.randn(inner, width, device=place.device, dtype=place.dtype) * inner**-0.5
    batches = [torch.randn(rows, width, device=place.device, dtype=place.dtype) for _ in range(shape.microbatches)]

    def step() -> None:
        sent: list[Any] = []
        with torch.no_grad():
            for batch in batches:
                if communicates and place.rank > 0:
                    dist.recv(batch, place.rank - 1)
                out = torch.relu(batch @ first) @ second
                if communicates and place.rank + 1 < place.ranks:
                    sent.append((dist.isend(out, place.rank + 1), out))
            for work, _ in sent:
                work.wait()

    return step


STEPS: Mapping[str, Build] = {
    "ddp": ddp, "fsdp": fsdp, "fsdp_large": fsdp_large, "tensor_parallel": tensor_parallel, "experts": experts,
    "pipeline": pipeline, "ddp_short": ddp_short, "fsdp_short": fsdp_short,
}  # fmt: skip
