"""What CI systems, schedulers, loggers and shells put around a run's output: facts before the first try, halves by the hash of the name."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

import json
from collections.abc import Iterator

from world_corpus import Shape, fact, prefixed
from world_writers import HEADER, Job, footer, nccl_tests, preamble, row

JOB = Job()
TEXT = nccl_tests(JOB)
LINES = TEXT.splitlines()
FACT = (fact(JOB),)


def wrapped_by_services() -> Iterator[Shape]:
    """Lines behind the times and names of build servers, workflow engines and platforms."""
    azure = prefixed(TEXT, lambda line: f"2026-11-23T10:01:{line % 60:02d}.12345{line % 100:02d}Z ")
    yield Shape(
        "azure-devops-step",
        f"2026-11-23T10:00:59.0000001Z ##[section]Starting: nccl\n{azure}2026-11-23T10:02:01.0000001Z ##[section]Finishing: nccl\n",
        FACT,
    )
    teamcity = prefixed(TEXT, lambda line: f"[10:11:{line % 60:02d}] :\t [Step 2/3] ")
    yield Shape("teamcity-step", teamcity, FACT)
    bamboo = prefixed(TEXT, lambda line: f"build\t23-Nov-2026 10:11:{line % 60:02d}\t")
    yield Shape("bamboo-build", bamboo, FACT)
    yield Shape("woodpecker-step", prefixed(TEXT, lambda line: f"[nccl:L{line}:{line // 9}s] "), FACT)
    airflow = prefixed(TEXT, lambda line: f"[2026-11-23, 10:11:{line % 60:02d} UTC] {{subprocess.py:93}} INFO - ")
    yield Shape("airflow-bash-operator", airflow, FACT)
    prefect = prefixed(TEXT, lambda line: f"10:11:{line % 60:02d}.{line:03d} | INFO    | Task run 'nccl-0' - ")
    yield Shape("prefect-task", prefect, FACT)
    metaflow = prefixed(TEXT, lambda line: f"2026-11-23 10:11:{line % 60:02d}.{line:03d} [123/start/456 (pid 789)] ")
    yield Shape("metaflow-step", metaflow, FACT)
    determined = prefixed(TEXT, lambda line: f"[2026-11-23T10:11:{line % 60:02d}.123456Z] 4a1b2c3d [rank=0] || ")
    yield Shape("determined-trial-logs", determined, FACT)
    heroku = prefixed(TEXT, lambda line: f"2026-11-23T10:11:{line % 60:02d}.123456+00:00 app[worker.1]: ")
    yield Shape("heroku-dyno", heroku, FACT)
    foundry = prefixed(TEXT, lambda line: f"   2026-11-23T10:11:{line % 60:02d}.12+0000 [APP/TASK/nccl/0] OUT ")
    yield Shape("cloud-foundry-task", foundry, FACT)
    gitlab = prefixed(TEXT, lambda line: f"2026-11-23T10:11:{line % 60:02d}.123456Z 01O ")
    yield Shape("gitlab-raw-with-times", gitlab, FACT)
    yield Shape("ngc-batch-result", prefixed(TEXT, lambda line: f"2026-11-23T10:11:{line % 60:02d}Z\t"), FACT)
    travis = "travis_fold:start:nccl\r\x1b[0K" + TEXT.replace("\n", "\r\n") + "travis_fold:end:nccl\r\x1b[0K\n"
    yield Shape("travis-fold", travis, FACT)
    yield Shape("kubetail", prefixed(TEXT, lambda _: "[nccl-0 bench] "), FACT)
    gelf = "".join(
        json.dumps({"version": "1.1", "host": "gpu-a1", "short_message": line, "timestamp": 1795000000.1, "level": 6})
        + "\n"
        for line in LINES
    )
    yield Shape("graylog-gelf", gelf, FACT, "gelf.jsonl")
    records = [
        {"timeUnixNano": f"17950000000000{at:05d}", "body": {"stringValue": line}} for at, line in enumerate(LINES)
    ]
    otlp = json.dumps({"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {}, "logRecords": records}]}]})
    yield Shape("otlp-json-export", otlp + "\n", FACT, "logs.json")
    kibana = '"@timestamp","kubernetes.pod.name",message\n' + "".join(
        f'"Nov 23, 2026 @ 10:11:{at % 60:02d}.000","nccl-0","{line}"\n' for at, line in enumerate(LINES)
    )
    yield Shape("kibana-csv", kibana, FACT, "discover.csv")
    grafana = '"Date","tsNs","Line"\n' + "".join(
        f'2026-11-23T10:11:{at % 60:02d}.000Z,17950000000000{at:05d},"{line}"\n' for at, line in enumerate(LINES)
    )
    yield Shape("grafana-explore-csv", grafana, FACT, "Explore-logs.csv")


def wrapped_by_shells() -> Iterator[Shape]:
    """Lines behind what shells, loggers, parallel shells and notebooks put in front of them."""
    yield Shape("tai64n", prefixed(TEXT, lambda line: f"@40000000673f1a2b{line:08x} "), FACT)
    local = prefixed(TEXT, lambda line: f"2026-11-23 10:11:{line % 60:02d}.{line:09d} ")
    yield Shape("tai64nlocal", local, FACT)
    logger = prefixed(TEXT, lambda line: f"<13>Nov 23 10:11:{line % 60:02d} nccl: ")
    yield Shape("logger-to-stderr", logger, FACT)
    yield Shape("fabric-host-out", prefixed(TEXT, lambda _: "[gpu-a1] out: "), FACT)
    yield Shape("dshbak-collected", f"----------------\ngpu-a1\n----------------\n{TEXT}", FACT)
    yield Shape("clush-gathered", f"---------------\ngpu-a[1-2] (2)\n---------------\n{TEXT}", FACT)
    yield Shape("salt-cmd-run", "gpu-a1:\n" + prefixed(TEXT, lambda _: "    "), FACT)
    bolt = prefixed(TEXT, lambda _: "  ")
    yield Shape(
        "puppet-bolt", f"Started on gpu-a1...\nFinished on gpu-a1:\n{bolt}Successful on 1 target: gpu-a1\n", FACT
    )
    line = TEXT.rstrip("\n").replace("\n", "\\n")
    yield Shape("ansible-one-line", f"gpu-a1 | CHANGED | rc=0 | (stdout) {line}\n", FACT)
    transcript = "**********************\nWindows PowerShell transcript start\nStart time: 20261123101112\n**********************\n"
    yield Shape(
        "powershell-transcript", f"{transcript}PS C:\\> ssh gpu-a1 ./run.sh\n{TEXT}**********************\n", FACT
    )
    tmux = "".join(f"\u2502{each:<130}\u2502\n" for each in LINES)
    bar = "\u2500" * 130
    yield Shape("pane-with-borders", f"\u250c{bar}\u2510\n{tmux}\u2514{bar}\u2518\n", FACT)
    yield Shape("knitr-output", "```\n" + prefixed(TEXT, lambda _: "## ") + "```\n", FACT, "report.md")
    yield Shape("reprex-output", "```r\n" + prefixed(TEXT, lambda _: "#> ") + "```\n", FACT, "reprex.md")
    yield Shape("log-cut-by-copytruncate", "", FACT, data=b"\0" * 700 + TEXT.encode())
    marked = b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode()
    yield Shape("notepad-with-a-mark", "", FACT, data=marked)
    yield Shape("utf-16-big-endian", "", FACT, data=b"\xfe\xff" + TEXT.encode("utf-16-be"))
    script = "+ date\nMon Nov 23 10:11:12 UTC 2026\n+ mpirun -np 8 ./build/all_reduce_perf -b 1M -e 256M -f 16 -g 1\n"
    yield Shape("xtrace-and-time", f"{script}{TEXT}\nreal\t0m12.345s\nuser\t1m2.000s\nsys\t0m3.210s\n", FACT)
    timed = f"{TEXT}12.34user 3.21system 0:10.11elapsed 153%CPU (0avgtext+0avgdata 1234567maxresident)k\n0inputs+0outputs (0major+1minor)pagefaults 0swaps\n"
    yield Shape("gnu-time-behind", timed, FACT)
    watch = f"Every 2.0s: tail -n 40 nccl.log        gpu-a1: Mon Nov 23 10:11:12 2026\n\n{TEXT}"
    yield Shape("watch-of-a-tail", watch, FACT)
    asan = "==123==WARNING: AddressSanitizer: something 0x7f00 in thread T0\n"
    lines = TEXT.splitlines(keepends=True)
    yield Shape("sanitizer-between", asan + "".join(lines[:-6]) + asan + "".join(lines[-6:]), FACT)
    yield from broken_by_hydra()
    rows = [f"{text}\tPASS" if text[:1] == " " else text for text in LINES]
    yield Shape("verdict-behind-each-row", "\n".join(rows) + "\n", FACT)


def broken_by_hydra() -> Iterator[Shape]:
    """Rows whose parts were written one by one: hydra labels each part, on one line or with a line for each."""
    head = prefixed(preamble(JOB) + HEADER, lambda _: "[0] ")
    for name, between in (("hydra-labels-within-rows", "[0]"), ("hydra-labels-and-lines-within-rows", "\n[0]")):
        parts = [(row(JOB, size), row(JOB, size).split()) for size in JOB.sizes]
        body = "".join(
            f"[0]{line[:53]}{between}  {'  '.join(words[5:9])}{between}  {'  '.join(words[9:])}\n"
            for line, words in parts
        )
        yield Shape(name, head + body + prefixed(footer(JOB), lambda _: "[0] "), FACT)
