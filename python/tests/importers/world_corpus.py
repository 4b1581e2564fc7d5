"""Logs as the world writes them, each with the facts that must come out of it: nccl-tests below every launcher's prefix."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from world_writers import (
    HEADER,
    SIZES,
    Job,
    as_json,
    busbw,
    footer,
    info_lines,
    nccl_2_4,
    nccl_tests,
    parameters,
    preamble,
    row,
    rows,
)  # fmt: skip

LARGEST = SIZES[-1]


@dataclass(frozen=True)
class Fact:
    """One run that must come out: its collective, ranks, sizes, and the bus bandwidth of the largest."""

    collective: str
    ranks: int | None
    sizes: int = 3
    busbw: float | None = None
    largest: int | None = None
    """Bytes of the largest size, where that is looked at."""
    time: float | None = None
    """Its first time in microseconds, within 0.2 %."""
    in_place: float | None = None
    """Its bus bandwidth in place."""


@dataclass(frozen=True)
class Shape:
    """A log and its facts; `says` is what the report must say in its notes and problems, for all or for none."""

    name: str
    text: str
    facts: tuple[Fact, ...]
    file: str = "job.log"
    says: str = ""
    collective: str | None = None
    data: bytes | None = None
    """The file's bytes, where they are not the text in UTF-8."""
    wrong: int = 0
    """Wrong elements that must come out, summed over all cases."""

    @property
    def bytes(self) -> bytes:
        """What lies in the file."""
        return self.text.encode() if self.data is None else self.data


def fact(job: Job, ranks: int | None = -1) -> Fact:
    """What must come out of the whole output of `job`."""
    shown = round(busbw(job.collective, job.ranks, LARGEST), 2)
    return Fact(job.collective, job.ranks if ranks == -1 else ranks, len(job.sizes), shown)


def prefixed(text: str, prefix: Callable[[int], str]) -> str:
    """Every line with what `prefix` gives for its number."""
    return "".join(f"{prefix(number)}{line}\n" for number, line in enumerate(text.splitlines()))


def noisy(text: str, prefix: Callable[[int, int], str], ranks: int) -> str:
    """The lines of rank 0 among messages of all others; `prefix` takes a rank and a line's number."""
    lines = []
    for number, line in enumerate(text.splitlines()):
        lines.append(f"{prefix(0, 3 * number)}{line}")
        other = 1 + number % (ranks - 1)
        lines.append(f"{prefix(other, 3 * number + 1)}libfabric warning {number} of 3")
    return "\n".join(lines) + "\n"


JOB = Job()
GATHER = Job("all_gather", 16, ("node-1", "node-2"))
TWO = Job("all_reduce", 2)

PREFIXES: dict[str, Callable[[int, int], str]] = {
    "mpirun-tag-output": lambda rank, _: f"[1,{rank}]<stdout>:",
    "mpirun-tag-output-indented": lambda rank, _: f"        [1,{rank}]<stdout>:",
    "prterun-tag-output": lambda rank, _: f"[prterun-node-1-4711@1,{rank}]<stdout>: ",
    "hydra-prepend-rank": lambda rank, _: f"[{rank}] ",
    "srun-label": lambda rank, _: f"{rank}: ",
    "srun-label-wide": lambda rank, _: f"{rank:>4}: ",
    "torchrun-default": lambda rank, _: f"[default{rank}]:",
    "torchrun-rank": lambda rank, _: f"[rank{rank}]:",
    "ray": lambda rank, _: f"(RayWorker pid={4000 + rank}, ip=10.0.0.{rank + 4}) ",
    "ray-coloured": lambda rank, _: f"\x1b[36m(RayTrainWorker pid={4000 + rank})\x1b[0m ",
    "kubectl-prefix": lambda rank, _: f"[pod/nccl-launcher-{rank}x9kq/launcher] ",
    "kubectl-timestamps": lambda _, line: f"2026-01-02T03:04:{line % 60:02d}.123456789Z ",
    "kubectl-prefix-timestamps": lambda rank, line: (
        f"[pod/nccl-{rank}/main] 2026-01-02T03:04:{line % 60:02d}.123456789Z "
    ),
    "stern": lambda rank, _: f"nccl-launcher-{rank} launcher ",
    "journald": lambda _, line: f"Jan 02 03:04:{line % 60:02d} gpu-a1 launcher[8123]: ",
    "journald-iso": lambda _, line: f"2026-01-02T03:04:{line % 60:02d}+0000 gpu-a1 run.sh[8123]: ",
    "docker-compose": lambda rank, _: f"rank{rank}-1  | ",
    "pdsh": lambda rank, _: f"gpu-a{rank}: ",
    "pdsh-word-host": lambda rank, _: f"{('alpha', 'beta', 'gamma', 'delta')[rank % 4]}: ",
    "clush": lambda rank, _: f"node[{rank}]: ",
    "azureml-user-log": lambda _, line: f"[2026-01-02T03:04:{line % 60:02d}Z] ",
    "python-logging": lambda _, line: f"2026-01-02 03:04:{line % 60:02d},{line % 1000:03d} - runner - INFO - ",
    "loguru": lambda _, line: f"2026-01-02 03:04:{line % 60:02d}.{line % 1000:03d} | INFO     | __main__:run:42 - ",
    "github-actions": lambda _, line: f"nccl\tRun tests\t2026-01-02T03:04:{line % 60:02d}.1234567Z ",
    "gitlab-ci": lambda _, line: f"2026-01-02T03:04:{line % 60:02d}.123456Z 01O ",
    "ts-elapsed": lambda _, line: f"00:00:{line % 60:02d} ",
    "dmesg-like": lambda _, line: f"[{line / 7:12.6f}] ",
    "jsrun": lambda rank, _: f"rank {rank}> ",
    "flux": lambda rank, _: f"{rank}: ",
    "grep-file-name": lambda _, __: "logs/job-12.out:",
    "grep-line-number": lambda _, line: f"{line + 1}:",
    "cat-n": lambda _, line: f"{line + 1:6d}\t",
    "superbench-runner": lambda _, line: f"[2026-01-02 03:04:{line % 60:02d},123 gpu-a1:4711][ansible.py:80][INFO] ",
    "parallel-tag": lambda rank, _: f"gpu-a{rank}\t",
    "markdown-quote": lambda _, __: "> ",
    "markdown-quote-nested": lambda _, __: "> > ",
    "indented-code": lambda _, __: "    ",
    "tabs": lambda _, __: "\t",
    "diff-plus": lambda _, __: "+",
    "log4j": lambda _, line: f"26/01/02 03:04:{line % 60:02d} INFO executor.Executor: ",
    "cri-o": lambda _, line: f"2026-01-02T03:04:{line % 60:02d}.5+00:00 stdout F ",
    "host-and-rank": lambda rank, _: f"node-7:{rank}: ",
    "skypilot": lambda rank, _: f"(worker1, rank={rank}, pid={3345 + rank}, ip=10.0.0.5) ",
    "epoch-seconds": lambda _, line: f"1756000{line:03d}.123 ",
    "epoch-in-brackets": lambda _, line: f"[1756000{line:03d}] ",
    "syslog-without-host": lambda _, line: f"Jan 02 03:04:{line % 60:02d} ",
    "parallel-ssh": lambda _, line: f"[1] 03:04:{line % 60:02d} [SUCCESS] ",
    "angle-brackets": lambda rank, _: f"<<< host{rank} >>> ",
}
"""What stands before every line of nccl-tests; a prefix that names ranks comes with lines of the other ranks."""

LINE_COUNTERS = ("grep-line-number", "cat-n")


def prefix_shapes() -> Iterator[Shape]:
    for name, prefix in PREFIXES.items():
        named = prefix(0, 0) != prefix(1, 0)
        text = (
            noisy(nccl_tests(JOB), prefix, 8) if named else prefixed(nccl_tests(JOB), lambda line, p=prefix: p(0, line))
        )  # type: ignore[misc]
        file = "page.md" if "markdown" in name else "job.log"
        yield Shape(f"prefix-{name}", text, (fact(JOB),), file)
    twice = prefixed(nccl_tests(GATHER), lambda line: f"[1,0]<stdout>:2026-01-02T03:04:{line % 60:02d}.5Z ")
    yield Shape("prefix-two-kinds", twice, (fact(GATHER),))
    both = "".join(f"{rank}: {line}\n" for line in nccl_tests(TWO).splitlines() for rank in range(4))
    yield Shape("prefix-copies-without-mpi", both, (fact(TWO),) * 4, says="without MPI")
    excerpt = prefixed(rows(JOB), lambda _: "[1,0]<stdout>:")
    yield Shape("prefix-rows-only", excerpt, (fact(JOB),), says="no header")


def decorated_shapes() -> Iterator[Shape]:
    text = nccl_tests(JOB)
    coloured = "".join(f"\x1b[1;32m{line}\x1b[0m\x1b[K\n" for line in text.splitlines())
    yield Shape("ansi-colours", coloured, (fact(JOB),))
    bar = "".join(f"\r{done:3d}%|{'#' * (done // 10):<10}| {done}/100 [00:01<00:00]" for done in (0, 50, 100))
    yield Shape("progress-bar", f"{bar}\n{text}{bar}\n", (fact(JOB),))
    yield Shape("progress-bar-same-line", bar + "\r" + text, (fact(JOB),))
    yield Shape("windows-line-ends", text.replace("\n", "\r\n"), (fact(JOB),))
    escaped = f"<!DOCTYPE html>\n<html><body><h2>Run</h2>\n<pre>\n{html.escape(text)}</pre></body></html>\n"
    yield Shape("html-pre", escaped, (fact(JOB),), "page.html")
    tagged = html.escape(prefixed(text, lambda _: "[1,0]<stdout>:"))
    yield Shape(
        "html-pre-code-prefix", f"<html><pre class='log'><code>{tagged}</code></pre></html>", (fact(JOB),), "page.html"
    )
    yield Shape(
        "markdown-fence", f"# Run\n\n```\n$ mpirun -np 8 ./all_reduce_perf -b 1M\n{text}```\n", (fact(JOB),), "page.md"
    )
    fenced = prefixed(f"```\n{text}```", lambda _: "   ")
    yield Shape("markdown-fence-in-list", f"1. We ran this:\n{fenced}2. Next\n", (fact(JOB),), "page.md")
    stripped = "".join(f"{line.removeprefix('#')}\n" for line in text.splitlines())
    yield Shape("without-hashes", stripped, (fact(JOB),), "all_reduce.txt")
    table = "| size | count | type | redop | root | time (us) | algbw (GB/s) | busbw (GB/s) | #wrong |\n|--|--|--|--|--|--|--|--|--|\n"
    for size in SIZES:
        table += "| " + " | ".join(row(JOB, size).split()[:9]) + " |\n"
    yield Shape("pipe-table-of-columns", f"## all_reduce on 8 GPUs\n\n{table}", (fact(JOB),), "page.md")
    both = "".join("| " + " | ".join(row(JOB, size).split()) + " |\n" for size in SIZES)
    names = "size|count|type|redop|root|time|algbw|busbw|#wrong|time|algbw|busbw|#wrong"
    yield Shape(
        "pipe-table-both-placements",
        f"all_reduce_perf -g 8\n\n|{names}|\n|{'---|' * 13}\n{both}",
        (fact(JOB),),
        "page.md",
    )
    wide = "| Size | AllReduce (GB/s) | AllGather (GB/s) |\n|---|---|---|\n| 1M | 10.5 | 9.5 |\n| 16M | 80.5 | 70.5 |\n"
    yield Shape("table-columns-are-collectives", f"**BusBW (GB/s)**, 8 GPUs\n\n{wide}",
                (Fact("all_reduce", 8, 2, 80.5), Fact("all_gather", 8, 2, 70.5)), "page.md")  # fmt: skip
    quoted = "".join(f'    "{line}",\n' for line in text.splitlines())
    yield Shape("ansible-stdout-lines", quoted, (fact(JOB),))
    half = "".join(" ".join(row(JOB, size).split()[:9]) + "\n" for size in SIZES)
    yield Shape("rows-of-one-placement", half, (fact(JOB),), "all_reduce.log", "no header")
    cells = "".join(
        "<tr>" + "".join(f"<td>{word}</td>" for word in line.split()[:9]) + "</tr>\n" for line in half.splitlines()
    )
    titles = "".join(f"<th>{word}</th>" for word in names.split("|")[:9])
    yield Shape(
        "html-table", f"<html><table><tr>{titles}</tr>\n{cells}</table></html>", (fact(JOB),), "all_reduce.html"
    )
    numbered = "".join(
        f'<tr><td id="L{at}"></td><td>{html.escape(line)}</td></tr>\n' for at, line in enumerate(text.splitlines())
    )
    yield Shape("html-of-numbered-lines", f"<!DOCTYPE html><table>{numbered}</table>", (fact(JOB),), "log.html")
    few = "| Size | Time (us) | AlgBW (GB/s) | BusBW (GB/s) |\n|--|--|--|--|\n| 1M | 30 | 34.95 | 32.77 |\n| 1G | 3000 | 357.91 | 335.54 |\n"
    yield Shape(
        "pipe-table-of-few-columns", f"# Results\n\n{few}", (Fact("all_gather", 16, 2, 335.54),), "all_gather.md"
    )
    yield Shape(
        "tsv-of-few-columns",
        "size\talgbw\tbusbw\n1048576\t30.1\t52.67\n",
        (Fact("all_reduce", 8, 1, 52.67),),
        "allreduce.tsv",
    )
    csv = "size,count,type,redop,root,time,algbw,busbw,wrong\n"
    csv += "".join(",".join(row(JOB, size).split()[:9]) + "\n" for size in SIZES)
    yield Shape("csv-of-columns", csv, (fact(JOB, 8),), "all_reduce.csv")


def rank_shapes() -> Iterator[Shape]:
    big = Job("all_reduce", 64, ("gpu-a1",), per_process=64)
    yield Shape("ranks-list-cut-at-2048", nccl_tests(big), (fact(big),), says="list of ranks is cut")
    wide = Job("all_gather", 64, tuple(f"n{each}" for each in range(4)), per_process=16)
    yield Shape(
        "ranks-list-cut-of-4-processes", nccl_tests(wide, cut_at=1024), (fact(wide),), says="list of ranks is cut"
    )
    excerpt = "#  Rank 1439 Group  0 Pid 812345 on  gpu-a180 device  7 [0000:cb:00] NVIDIA H100 80GB HBM3\n"
    broadcast = Job("broadcast", 1440)
    yield Shape(
        "ranks-excerpt-of-the-list", excerpt + HEADER + rows(broadcast) + footer(broadcast), (fact(broadcast, None),)
    )
    middle = "".join(
        f"{line}\n" for line in preamble(GATHER).splitlines() if "Rank  0" not in line and "Rank  1 " not in line
    )
    yield Shape("ranks-list-without-its-start", middle + HEADER + rows(GATHER) + footer(GATHER), (fact(GATHER),))
    commands = {
        "srun-N2-ntasks-per-node": ("srun -N2 --ntasks-per-node=4", 8, 1), "srun-n8-glued": ("srun -n8", 8, 1),
        "mpirun-n-8": ("mpirun -n 8", 8, 1), "mpirun-np-glued": ("mpirun -np 8 --bind-to none", 8, 1),
        "mpirun-hosts": ("mpirun -H gpu-a1:4,gpu-a2:4 -x NCCL_DEBUG=WARN", 8, 1), "mpiexec-ppn": ("mpiexec.hydra -n 8 -ppn 4", 8, 1),
        "mpirun-N-nodes": ("mpirun --host a,b -N 4", 8, 1), "one-process": ("NCCL_ALGO=Ring", 8, 8),
        "srun-two-gpus-each": ("srun --nodes=2 --ntasks-per-node=2 --gpus-per-node=4", 8, 2), "flux-run": ("flux run -N2 -n8 -g1", 8, 1),
        "aprun": ("aprun -n 8 -N 4", 8, 1), "jsrun": ("jsrun --np 8 -g 1", 8, 1),
        "mpirun-ppr": ("mpirun --hostfile hosts -np 8 --map-by ppr:4:node", 8, 1), "prterun": ("prterun --np 8", 8, 1),
    }  # fmt: skip
    for name, (launcher, ranks, each) in commands.items():
        job = Job("all_reduce", ranks, per_process=each)
        body = HEADER + rows(job) + footer(job)
        yield Shape(
            f"ranks-command-{name}",
            f"+ {launcher} ./build/all_reduce_perf -b 1M -e 256M -f 16 -n 100 -g {each}\n{body}",
            (fact(job),),
        )
    script = "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\nsrun ./all_gather_perf -b 1M -g 1\n"
    yield Shape("ranks-sbatch-directives", script + HEADER + rows(GATHER) + footer(GATHER), (fact(GATHER),))
    info = info_lines(16, nodes=2) + HEADER + rows(GATHER) + footer(GATHER)
    yield Shape("ranks-nRanks-lines", f"all_gather_perf starts\n{info}", (fact(GATHER),))
    older = "".join(
        f"gpu-a1:77:99 [0] NCCL INFO comm 0x7f rank {rank} nranks 64 cudaDev 0 busId 1b000 - Init COMPLETE\n"
        for rank in range(3)
    )
    many = Job("all_gather", 64)
    yield Shape("ranks-communicator-lines", older + HEADER + rows(many) + footer(many), (fact(many),), "all_gather.out")
    yield Shape("ranks-json", as_json(Job("all_reduce", 8)), (fact(JOB),), "out.json")
    per = Job("all_gather", 16, per_process=4)
    yield Shape("ranks-json-4-per-process", as_json(per), (fact(per),), "out.json")
    yield Shape("json-inf-nan", as_json(JOB, infinite=True), (fact(JOB),), "out.json")
    tiny = Job("all_reduce", 1500)
    yield Shape(
        "ranks-unknown-stays-unknown", HEADER + rows(tiny) + footer(tiny), (fact(tiny, None),), "all_reduce.log"
    )
    clash = "+ mpirun -np 16 ./all_reduce_perf -g 1\n" + nccl_tests(JOB)
    yield Shape("ranks-sources-disagree", clash, (fact(JOB),), says="16")


def collective_shapes() -> Iterator[Shape]:
    nameless = {name: Job(name, 8, named=False) for name in ("all_reduce", "all_gather", "reduce_scatter", "reduce", "alltoall",
                                                           "broadcast", "sendrecv")}  # fmt: skip
    for name in ("all_reduce", "all_gather", "reduce_scatter", "reduce", "alltoall", "broadcast", "sendrecv"):
        job = nameless[name]
        yield Shape(f"collective-from-columns-{name}", nccl_tests(job), (fact(job),))
    for name, file in (("alltoall", "alltoall_perf-8gpu.txt"), ("reduce_scatter", "run7-ReduceScatter.log"), ("gather", "gather.log"),
                       ("scatter", "nccl-scatter_perf.out"), ("all_gather", "ag/allgather-h100.log")):  # fmt: skip
        job = Job(name, 8, named=False, check=False)
        yield Shape(f"collective-from-file-{name}", nccl_tests(job), (fact(job),), file)
    pair = Job("sendrecv", 2, named=False)
    yield Shape("collective-of-2-ranks-by-its-checks", nccl_tests(pair), (fact(pair),))
    unclear = Job("all_gather", 8, named=False, check=False)
    yield Shape("collective-asked-for", nccl_tests(unclear), (), says="--collective")
    yield Shape("collective-told", nccl_tests(unclear), (fact(unclear),), collective="all_gather")
    for name in ("all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter"):
        job = Job(name, 4)
        yield Shape(f"collective-2.4-columns-{name}", nccl_2_4(name, 4), (fact(job),))
    jobs = nccl_tests(JOB) + nccl_tests(GATHER)
    yield Shape("two-jobs", jobs, (fact(JOB), fact(GATHER)))
    grepped = rows(JOB) + rows(Job("broadcast", 8))
    yield Shape("two-collectives-rows-only", HEADER + grepped, (fact(JOB, 8), fact(Job("broadcast", 8), None)))
    bare = rows(JOB) + rows(Job("all_reduce", 16))
    yield Shape("two-jobs-rows-only", bare, (fact(JOB), fact(Job("all_reduce", 16))), says="no header")
    again = HEADER + rows(Job("all_reduce", 8)) + HEADER + rows(Job("all_reduce", 16))
    yield Shape("two-jobs-headers-only", again, (fact(JOB), fact(Job("all_reduce", 16))))
    cycles = preamble(JOB) + HEADER + rows(JOB) + "# Testing 2 cycle.\n" + rows(JOB) + footer(JOB)
    yield Shape("cycles-stay-one-run", cycles, (fact(JOB),))
    killed = (
        preamble(JOB)
        + HEADER
        + rows(JOB)
        + "srun: error: gpu-a1: task 3: Killed\nslurmstepd: error: *** STEP 7.0 CANCELLED ***\n"
    )
    yield Shape("killed-by-slurm", killed, (fact(JOB),))
    yield Shape(
        "parameters-then-rows", parameters(JOB) + HEADER + rows(JOB) + footer(JOB), (fact(JOB, 8),), "all_reduce.log"
    )


def nccl_tests_shapes() -> Iterator[Shape]:
    for part in (prefix_shapes, decorated_shapes, rank_shapes, collective_shapes):
        yield from part()
