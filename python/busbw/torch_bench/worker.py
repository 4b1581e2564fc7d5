"""One rank of torch-bench: joins the others, measures every case, and as rank 0 keeps the record and speaks."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import torch
import torch.distributed as dist

from busbw import __version__
from busbw.base.errors import UserError
from busbw.base.secrets import shortened
from busbw.base.words import Args, parse
from busbw.records import Case, Device, End, Library, Rank, Run, Tool, new_run_id
from busbw.records.bandwidth import algbw_GBps, bus_factor, busbw_GBps
from busbw.torch_bench import page, table
from busbw.torch_bench.batches import mean, sample
from busbw.torch_bench.collectives import REDUCING, Spec, elements
from busbw.torch_bench.collectives import Case as Measured
from busbw.torch_bench.options import check, measuring, sizes
from busbw.torch_bench.output import Output, conf, environment, files, joined, system
from busbw.torch_bench.place import Place, find_place
from busbw.torch_bench.timing import Batch, all_texts, checked, per_rank, time_batch

RUN_ID = "BUSBW_RUN_ID"


def main(words: list[str]) -> int:
    """Exit code of this rank."""
    args = parse("torch-bench", words)
    check(args)
    place = find_place(os.environ)
    if place is None:
        raise UserError("no launcher started this rank; use `busbw torch-bench --ranks N`, or torchrun")
    with _joined(args, place) as device:
        return _Bench(args, place, device).run()


@contextmanager
def _joined(args: Args, place: Place) -> Iterator[Any]:
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    args.backend = args.backend or ("nccl" if gpus else "gloo")
    if not dist.is_backend_available(args.backend):
        raise UserError(f"this torch {torch.__version__} was built without {args.backend}; choose another --backend")
    if args.backend == "nccl" and not gpus:
        raise UserError("--backend nccl needs a GPU and torch sees none; --backend gloo measures between processors")
    device = torch.device("cpu")
    if args.backend == "nccl":
        device = torch.device("cuda", place.local_rank % gpus)
        torch.cuda.set_device(device)
    limit = timedelta(seconds=args.timeout)
    try:
        ours = {} if place.store == "env://" else {"rank": place.rank, "world_size": place.size}
        dist.init_process_group(args.backend, init_method=_init_method(place, ours), timeout=limit, **ours)
    except (dist.DistError, RuntimeError, ValueError) as problem:
        raise UserError(
            f"rank {place.rank} of {place.size} could not join the others: {_first_line(problem)}"
        ) from None
    try:
        yield device
    finally:
        dist.destroy_process_group()


def _init_method(place: Place, ours: dict[str, int]) -> str:
    if not ours:
        # Under another launcher than torchrun, env:// still reads torchrun's names.
        os.environ.update(RANK=str(place.rank), WORLD_SIZE=str(place.size))
    return place.store


class _Bench:
    """The sweep of one rank."""

    def __init__(self, args: Args, place: Place, device: Any) -> None:
        self._args = args
        self._place = place
        self._device = device
        self._run = os.environ.get(RUN_ID) or new_run_id("torch-bench")
        self._output = Output(args.record if place.rank == 0 else None)
        self._cases: list[Case] = []

    def run(self) -> int:
        ranks = [_rank(told) for told in all_texts(self._introduction(), self._place.size, self._device)]
        systems = all_texts(json.dumps(system()), self._place.size, self._device)
        self._output.line(self._run_line(tuple(ranks), joined(map(json.loads, systems))))
        self._say(table.head(self._library(), ranks, self._args.page))
        try:
            for collective in self._args.collective:
                for payload in sizes(self._args):
                    self._measure(collective, payload)
        except (dist.DistError, RuntimeError) as problem:
            return self._end("failed", f"rank {self._place.rank}: {_first_line(problem)}")
        except KeyboardInterrupt:
            return self._end("interrupted", "stopped by Ctrl-C")
        wrong = sum(int(case.wrong or 0) for case in self._cases)
        self._say(table.foot(self._cases))
        return self._end("completed" if not wrong else "failed", f"{wrong} wrong elements" if wrong else None)

    def _measure(self, collective: Any, payload: int) -> None:
        args, place = self._args, self._place
        count = elements(collective, payload, args.datatype, place.size)
        spec = Spec(
            collective, args.datatype, args.op, args.root % place.size, place.rank, place.size, count, self._device
        )
        reason = _why_not(spec, args.backend)
        if reason:
            self._keep(self._case(spec, requested_bytes=payload, outcome="skipped", reason=reason))
            return
        measured = Measured(spec)
        if args.page:
            self._page(measured, payload)
            return
        blocking = args.blocking or spec.device.type != "cuda"

        def timed(calls: int, warm: bool) -> list[float]:
            batch = Batch(args.warmup_iters if warm else 0, calls, blocking)
            return per_rank(time_batch(measured, batch), place.size, self._device)

        samples, time_us = sample(args.iters, args.batches, timed)
        figures = {"requested_bytes": payload, "iterations": args.iters, "wrong": self._wrong(measured), "cycle": 0}
        self._keep(self._timed(spec, samples, time_us, **figures))

    def _page(self, measured: Measured, payload: int) -> None:
        """Each trial is one blocking call, told by every rank and kept as a case of its own."""
        wrong = self._wrong(measured)
        measured.refresh()
        for trial in range(self._args.iters):
            own = page.trial(measured)
            page.tell(self._place, measured.spec, trial, own)
            times = per_rank(own, self._place.size, self._device)
            figures = {"requested_bytes": payload, "iterations": 1, "wrong": wrong, "cycle": trial}
            self._keep(self._timed(measured.spec, [times], mean([times]), **figures))

    def _wrong(self, measured: Measured) -> int | None:
        if not self._args.check:
            return None
        return round(sum(per_rank(checked(measured), self._place.size, self._device)))

    def _timed(self, spec: Spec, samples: Sequence[Sequence[float]], time_us: float, **figures: Any) -> Case:
        batches = tuple(tuple(batch[rank] for batch in samples) for rank in range(spec.size))
        return self._case(
            spec,
            outcome="measured",
            time_us=time_us,
            algbw_GBps=algbw_GBps(spec.collective, spec.bytes, time_us, spec.size),
            busbw_GBps=busbw_GBps(spec.collective, spec.bytes, time_us, spec.size),
            average="mean",
            checks=self._args.check,
            batches_us=batches,
            **figures,
        )

    def _case(self, spec: Spec, **figures: Any) -> Case:
        return Case(
            run=self._run,
            case=len(self._cases),
            collective=spec.collective,
            bytes=spec.bytes,
            placement=spec.placement,
            type=spec.type,
            op=spec.op if spec.collective in REDUCING else None,
            root=spec.root if spec.collective == "broadcast" else None,
            ranks=spec.size,
            count=spec.count,
            timestamp=_now(),
            **figures,
        )

    def _keep(self, case: Case) -> None:
        self._cases.append(case)
        self._output.line(case)
        if not self._args.page:
            self._say(table.row(case))

    def _end(self, outcome: Any, reason: str | None) -> int:
        rates = [case.busbw_GBps for case in self._cases if case.busbw_GBps is not None]
        code = 0 if outcome == "completed" else 130 if outcome == "interrupted" else 1
        self._output.line(
            End(
                run=self._run,
                outcome=outcome,
                cases=len(self._cases),
                finished=_now(),
                reason=reason,
                exit_code=code,
                out_of_bounds=sum(bool(case.wrong) for case in self._cases),
                average_busbw_GBps=sum(rates) / len(rates) if rates else None,
            )
        )
        if reason:
            print(f"busbw torch-bench: {reason}", file=sys.stderr)
        return code

    def _run_line(self, ranks: tuple[Rank, ...], hosts: Mapping[str, str]) -> Run:
        library = self._library()
        nccl = library.version_code
        return Run(
            run=self._run,
            started=_now(),
            tool=Tool("busbw torch-bench", __version__),
            library=library,
            ranks=ranks,
            environment=environment(os.environ),
            program="torch-bench",
            arguments=tuple(sys.argv[1:]),
            options={name: value for name, value in measuring(self._args).items() if name != "record"},
            launcher=self._place.launcher,
            processes=self._place.size,
            threads_per_process=1,
            devices_per_thread=1,
            system={**hosts, **files(os.environ, nccl)},
            conf=conf(os.environ, nccl),
        )

    def _library(self) -> Library:
        name = f"torch.distributed {self._args.backend}, torch {torch.__version__}"
        if self._args.backend != "nccl":
            return Library(name, version=str(torch.__version__))
        version = torch.cuda.nccl.version()
        code = version[0] * 10000 + version[1] * 100 + version[2]
        return Library(name, version=".".join(map(str, version)), version_code=code, cuda_version=torch.version.cuda)

    def _introduction(self) -> str:
        gpu = self._device.type == "cuda"
        name = torch.cuda.get_device_name(self._device) if gpu else "processors of this host"
        index = self._device.index if gpu else self._place.local_rank
        kind = "gpu" if gpu else "cpu"
        return json.dumps([self._place.rank, socket.gethostname()[:100], os.getpid(), kind, index or 0, name[:100]])

    def _say(self, text: str) -> None:
        if self._place.rank == 0 and text:
            print(text, flush=True)


def _rank(told: str) -> Rank:
    rank, host, pid, kind, index, name = json.loads(told)
    return Rank(rank=rank, host=host, process=rank, pid=pid, device=Device(kind, index, name))


def _why_not(spec: Spec, backend: str) -> str | None:
    if spec.count == 0:
        return f"{spec.type} elements for {spec.size} ranks need more bytes than this size has"
    if backend != "nccl" and spec.op == "avg" and spec.collective in REDUCING:
        return f"{backend} has no average; --op sum, or --backend nccl"
    if spec.size < 2 and spec.collective == "sendrecv":
        return "sendrecv needs two ranks"
    if bus_factor(spec.collective, spec.size) is None:
        return "it moves no payload"
    return None


def _first_line(problem: BaseException) -> str:
    return shortened((str(problem).strip().splitlines() or [type(problem).__name__])[0], 300)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
