"""Frameworks above PyTorch: Lightning, Accelerate and Transformers; each is left out where it is not installed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from job import DEVICE, GPU, Result, batch, case, device, model
from torch import nn
from torch.distributed.fsdp import fully_shard


def as_only_gpu_of_a_host() -> None:
    """Frameworks take the GPU of this number; the ranks of a test may share the only one."""
    os.environ["LOCAL_RANK"] = str(device().index) if GPU else os.environ["RANK"]
    os.environ |= {"ACCELERATE_USE_CPU": str(not GPU).lower(), "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


class Rows(torch.utils.data.Dataset[torch.Tensor]):
    """So many rows; each is the same in all runs."""

    def __init__(self, count: int, width: int = 64) -> None:
        torch.manual_seed(3)
        self.rows = torch.randn(count, width)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> torch.Tensor:
        return self.rows[number]


def own_cluster():  # type: ignore[no-untyped-def]
    """Lightning's view of this job: each rank is a host."""
    from lightning.fabric.plugins.environments import LightningEnvironment

    class Cluster(LightningEnvironment):
        creates_processes_externally = True

        def world_size(self) -> int:
            return dist.get_world_size()

        def global_rank(self) -> int:
            return dist.get_rank()

        def local_rank(self) -> int:
            return 0

        def node_rank(self) -> int:
            return dist.get_rank()

    return Cluster()


def lightning_trained(strategy: object, shards: bool = False, **options: object) -> Result:
    import lightning
    from torchmetrics import MeanMetric

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.seen: Result = []
            self.network: nn.Module = nn.Identity()
            self.mean = MeanMetric()

        def configure_model(self) -> None:
            if isinstance(self.network, nn.Identity):
                self.network = model(64)
                self.network.insert(1, nn.BatchNorm1d(64))  # type: ignore[operator]
                if shards:
                    fully_shard(self.network, mesh=self.device_mesh["data_parallel"])

        def training_step(self, given: torch.Tensor) -> torch.Tensor:
            loss = self.network(given).square().mean()
            self.log("loss", loss, sync_dist=True, on_step=True)
            self.seen.append(loss.detach())
            return loss

        def validation_step(self, given: torch.Tensor) -> None:
            self.mean.update(self.network(given).mean())
            self.log("mean", self.mean, sync_dist=True)

        def on_validation_epoch_end(self) -> None:
            self.seen.append(self.all_gather(self.mean.compute()).sum())

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), 1e-3)

    as_only_gpu_of_a_host()
    lightning.seed_everything(4, verbose=False)
    module = Module()
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            accelerator="gpu" if GPU else "cpu", devices=1, num_nodes=dist.get_world_size(), strategy=strategy,
            max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, default_root_dir=folder, **options,
        )  # fmt: skip
        loaders = [torch.utils.data.DataLoader(Rows(count), batch_size=8) for count in (64, 40)]
        trainer.fit(module, *loaders)
    return [*module.seen, trainer.callback_metrics["mean"], trainer.callback_metrics["loss"]]


@case(needs="lightning")
def lightning_ddp() -> Result:
    from lightning.pytorch.strategies import DDPStrategy

    return lightning_trained(
        DDPStrategy(cluster_environment=own_cluster()), sync_batchnorm=GPU, accumulate_grad_batches=2,
        gradient_clip_val=1.0,
    )  # fmt: skip


@case(ranks=4, tolerance=1e-5, needs="lightning")
def lightning_fsdp2() -> Result:
    from lightning.pytorch.strategies import ModelParallelStrategy

    strategy = ModelParallelStrategy(data_parallel_size=4, tensor_parallel_size=1)
    strategy.cluster_environment = own_cluster()
    return lightning_trained(strategy, shards=True)


@case(ranks=4, tolerance=1e-5, needs="lightning")
def lightning_fabric() -> Result:
    from lightning.fabric import Fabric
    from lightning.fabric.strategies import DDPStrategy

    as_only_gpu_of_a_host()
    fabric = Fabric(
        accelerator="gpu" if GPU else "cpu", devices=1, num_nodes=4,
        strategy=DDPStrategy(cluster_environment=own_cluster()),
    )  # fmt: skip
    fabric.launch()
    plain = model()
    network, optimizer = fabric.setup(plain, torch.optim.SGD(plain.parameters(), 1e-2))
    results = []
    for step in range(4):
        with fabric.no_backward_sync(network, enabled=step % 2 == 0):
            loss = network(batch(step)).square().mean()
            fabric.backward(loss)
        if step % 2:
            fabric.clip_gradients(network, optimizer, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
        results += [loss, fabric.all_reduce(loss, reduce_op="mean"), fabric.all_gather(loss)]
    told = fabric.broadcast({"rank": fabric.global_rank}, src=1)
    fabric.barrier()
    return [*results, torch.tensor(told["rank"])]


def accelerate_trained(**options: object) -> Result:
    from accelerate import Accelerator

    as_only_gpu_of_a_host()
    accelerator = Accelerator(gradient_accumulation_steps=2, **options)
    plain = model(64)
    optimizer = torch.optim.AdamW(plain.parameters(), 1e-3)
    loader = torch.utils.data.DataLoader(Rows(44), batch_size=4)
    network, optimizer, loader = accelerator.prepare(plain, optimizer, loader)
    results = []
    for given in loader:
        with accelerator.accumulate(network):
            loss = network(given).float().square().mean()
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        results += [accelerator.gather_for_metrics(given).sum(), accelerator.reduce(loss.detach(), "mean")]
    own = torch.ones(accelerator.process_index + 1, 3, device=accelerator.device)
    padded = accelerator.pad_across_processes(own, dim=0)
    accelerator.wait_for_everyone()
    return [*results, accelerator.gather(padded)]


@case(needs="accelerate")
def accelerate_ddp() -> Result:
    return accelerate_trained(mixed_precision="bf16")


@case(ranks=4, tolerance=1e-4, needs="accelerate")
def accelerate_fsdp2() -> Result:
    from accelerate import FullyShardedDataParallelPlugin

    if not GPU:
        return []
    return accelerate_trained(fsdp_plugin=FullyShardedDataParallelPlugin(fsdp_version=2, reshard_after_forward=True))


@case(tolerance=1e-5, needs="transformers")
def transformers_trainer() -> Result:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    as_only_gpu_of_a_host()
    torch.manual_seed(6)
    network = GPT2LMHeadModel(
        GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=128, n_positions=32, resid_pdrop=0, embd_pdrop=0,
                   attn_pdrop=0)
    )  # fmt: skip
    tokens = torch.randint(0, 128, (48, 16))
    data = [{"input_ids": row, "labels": row} for row in tokens]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=4, per_device_eval_batch_size=4, max_steps=6, report_to=[],
            gradient_accumulation_steps=2, save_strategy="no", use_cpu=not GPU, seed=3, disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(network, arguments, train_dataset=data, eval_dataset=data[:18])
        trained = trainer.train()
        judged = trainer.evaluate()
        said = trainer.predict(data[:10]).predictions
    return [torch.tensor(trained.training_loss), torch.tensor(judged["eval_loss"]), torch.tensor(said).float()]


@case(ranks=2, tolerance=1e-5, needs="transformers")
def transformers_tensor_parallel() -> Result:
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    as_only_gpu_of_a_host()
    folder = Path(tempfile.gettempdir()) / f"busbw-llama-{os.environ['MASTER_PORT']}"
    if dist.get_rank() == 0:
        torch.manual_seed(8)
        LlamaForCausalLM(
            LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                        num_key_value_heads=4, vocab_size=128)
        ).save_pretrained(folder)  # fmt: skip
    dist.barrier()
    try:
        network = AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto", dtype=torch.float32)
        torch.manual_seed(9)
        given = torch.randint(0, 128, (2, 12)).to(DEVICE)
        with torch.no_grad():
            said = network(given).logits
            spoken = network.generate(given, max_new_tokens=8, do_sample=False, pad_token_id=0)
    finally:
        dist.barrier()
        if dist.get_rank() == 0:
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
    return [said.full_tensor() if hasattr(said, "full_tensor") else said, spoken]
