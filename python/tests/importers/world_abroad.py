"""Logs of further tools and services, and what must be named in a sentence: the facts were written before the first try."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

import json
import quopri
from collections.abc import Iterator

from world_corpus import Fact, Shape, fact, prefixed
from world_writers import HEADER as TABLE
from world_writers import SIZES, Job, algbw, busbw, footer, nccl_tests, parameters, rows, time_of

LARGEST = SIZES[-1]
JOB = Job()
OTHER = Job("all_gather", 16, ("node-1", "node-2"))
TEXT = nccl_tests(JOB)
LINES = TEXT.splitlines()


def service_shapes() -> Iterator[Shape]:
    """The lines of two jobs in turn, as clusters and clouds collect them."""
    pods = []
    others = nccl_tests(OTHER).splitlines()
    for at in range(max(len(LINES), len(others))):
        for pod, lines in (("nccl-a-x1", LINES), ("nccl-b-x2", others)):
            if at < len(lines):
                pods.append(
                    {
                        "time": f"2026-01-02T03:04:{at % 60:02d}Z",
                        "kubernetes": {"pod_name": pod, "namespace_name": "ml"},
                        "log": lines[at] + "\n",
                    }
                )
    yield Shape(
        "pods-interleaved-in-json",
        "".join(json.dumps(each) + "\n" for each in pods),
        (fact(JOB), fact(OTHER)),
        "pods.jsonl",
    )
    streams = [
        {"logStreamName": f"nccl/{each['kubernetes']['pod_name']}", "message": each["log"].rstrip()} for each in pods
    ]  # type: ignore[index,attr-defined]
    yield Shape(
        "streams-interleaved-of-cloudwatch",
        json.dumps({"events": streams}, indent=2),
        (fact(JOB), fact(OTHER)),
        "events.json",
    )
    labels = [
        {"textPayload": each["log"], "resource": {"labels": {"pod_name": each["kubernetes"]["pod_name"]}}}
        for each in pods
    ]  # type: ignore[index]
    yield Shape(
        "pods-interleaved-of-google",
        "".join(json.dumps(each) + "\n" for each in labels),
        (fact(JOB), fact(OTHER)),
        "logs.jsonl",
    )


def sent_shapes() -> Iterator[Shape]:
    """What recorders, mail and chats make of lines."""
    cast = (
        json.dumps({"version": 2, "width": 200, "height": 50})
        + "\n"
        + "".join(json.dumps([at / 10, "o", line + "\r\n"]) + "\n" for at, line in enumerate(LINES))
    )
    yield Shape("asciinema-cast", cast, (fact(JOB),), "run.cast")
    mail = (
        "Subject: results\nContent-Transfer-Encoding: quoted-printable\n\n"
        + quopri.encodestring(TEXT.encode()).decode()
    )
    yield Shape("mail-quoted-printable", mail, (fact(JOB),), "mail.eml")
    slack = [{"type": "message", "user": "U1", "text": f"```{TEXT}```"}]
    yield Shape("slack-export", json.dumps(slack, indent=4), (fact(JOB),), "2026-01-02.json")


def log_service_shapes() -> Iterator[Shape]:
    """What services that keep logs give back, and what their shippers write."""
    loki = {
        "status": "success",
        "data": {
            "resultType": "streams",
            "result": [
                {
                    "stream": {"pod": "nccl-0"},
                    "values": [[f"17560000000000{at:05d}", line] for at, line in enumerate(LINES)],
                }
            ],
        },
    }
    yield Shape("loki-api", json.dumps(loki), (fact(JOB),), "loki.json")
    splunk = "".join(
        json.dumps({"preview": False, "result": {"_raw": line, "host": "gpu-a1"}}) + "\n" for line in LINES
    )
    yield Shape("splunk-raw", splunk, (fact(JOB),), "export.json")
    elastic = {
        "hits": {
            "hits": [{"_index": "logs", "_source": {"@timestamp": "2026-01-02", "message": line}} for line in LINES]
        }
    }
    yield Shape("elasticsearch-hits", json.dumps(elastic), (fact(JOB),), "hits.json")
    datadog = {
        "data": [{"id": str(at), "attributes": {"service": "nccl", "message": line}} for at, line in enumerate(LINES)]
    }
    yield Shape("datadog-api", json.dumps(datadog), (fact(JOB),), "logs.json")
    yield Shape(
        "cloudwatch-csv-export",
        "timestamp,message\n" + "".join(f'{1756000000000 + at},"{line}"\n' for at, line in enumerate(LINES)),
        (fact(JOB),),
        "log-events-viewer-result.csv",
    )
    yield Shape(
        "syslog-rfc5424",
        prefixed(TEXT, lambda line: f"<14>1 2026-01-02T03:04:{line % 60:02d}.123Z gpu-a1 nccl 4711 - - "),
        (fact(JOB),),
    )
    yield Shape(
        "aws-logs-tail",
        prefixed(TEXT, lambda line: f"2026-01-02T03:04:{line % 60:02d}.123000+00:00 nccl/default/1a2b "),
        (fact(JOB),),
    )
    yield Shape(
        "fluentd-file",
        prefixed("", str)
        + "".join(
            f"2026-01-02T03:04:05+00:00\tkube.nccl\t{json.dumps({'log': line, 'stream': 'stdout'})}\n" for line in LINES
        ),
        (fact(JOB),),
    )


def runner_shapes() -> Iterator[Shape]:
    """What tests, builds and provisioning tools keep of a program that they ran."""
    junit = f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites><testsuite name="nccl" tests="1"><testcase name="all_reduce" time="31.1"><system-out><![CDATA[{TEXT}]]></system-out></testcase></testsuite></testsuites>\n'
    yield Shape("junit-system-out", junit, (fact(JOB),), "report.xml")
    escaped = TEXT.replace("&", "&amp;").replace("<", "&lt;")
    yield Shape(
        "junit-system-out-escaped",
        f'<?xml version="1.0"?>\n<testsuite name="nccl"><testcase name="t"><system-out>{escaped}</system-out></testcase></testsuite>\n',
        (fact(JOB),),
        "junit.xml",
    )
    pbs = "Begin PBS Prologue Fri Jan  2 03:04:05 UTC 2026\nJob ID:           4711.pbs\nEnd PBS Prologue\n"
    yield Shape(
        "pbs-prologue",
        f"{pbs}{TEXT}Begin PBS Epilogue\nResources Used:   cput=00:03:11,mem=12kb,vmem=3kb\n",
        (fact(JOB),),
        "nccl.o4711",
    )
    yield Shape("terraform-remote-exec", prefixed(TEXT, lambda _: "null_resource.nccl (remote-exec): "), (fact(JOB),))
    yield Shape("packer", prefixed(TEXT, lambda _: "    amazon-ebs.gpu: "), (fact(JOB),))
    yield Shape(
        "pytest-captured",
        f"----------------------------- Captured stdout call -----------------------------\n{TEXT}=========================== short test summary info ============================\n",
        (fact(JOB),),
    )
    yield Shape(
        "ansible-registered-lines",
        'ok: [gpu-a1] => {\n    "out.stdout_lines": [\n'
        + ",\n".join(f"        {json.dumps(line)}" for line in LINES)
        + "\n    ]\n}\n",
        (fact(JOB),),
    )
    yaml = "results:\n  stdout: |\n" + prefixed(TEXT, lambda _: "    ")
    yield Shape("yaml-block", yaml, (fact(JOB),), "result.yaml")
    yield Shape(
        "lava-debug",
        prefixed(TEXT, lambda line: f"- {{dt: 2026-01-02T03:04:{line % 60:02d}.1, lvl: target, msg: '").replace(
            "\n", "'}\n"
        ),
        (fact(JOB),),
        "output.yaml",
    )
    yield Shape(
        "circleci-json",
        json.dumps([{"message": TEXT.replace("\n", "\r\n"), "time": "2026-01-02T03:04:05Z", "type": "out"}]),
        (fact(JOB),),
        "output.json",
    )
    yield Shape("unicode-minus", TEXT.replace("   -1 ", "   \u22121 "), (fact(JOB),))


def tool_shapes() -> Iterator[Shape]:
    """Programs that measure collectives in formats of their own."""
    old = "   elements   min (us)   p50 (us)   p99 (us)   max (us)   avg (GB/s)    samples\n"
    gloo = "Device:      tcp, pci=0000:00:05.0, iface=ens5, speed=-1, addr=[172.31.49.113]\nAlgorithm:   allreduce_ring_chunked\nOptions:     processes=4, inputs=1, threads=1\n\n"
    gloo += (
        old
        + "        100        195        263        342        437        0.001       3921\n  268435456    1443672    1443672    1443672    1443672        0.693          1\n"
    )
    yield Shape("gloo-benchmark", gloo, (Fact("all_reduce", 4, 2, None, largest=1 << 30, time=1443672.0),))
    new = f"{'=' * 100}\n                                          ALLREDUCE_RING\n\nDevice:      tcp, pci=, iface=ens18, speed=-1, addr=[10.169.155.11]\nOptions:     processes=3, inputs=1, threads=1, verify=true\n\n{'=' * 100}\n                                        BENCHMARK RESULTS\n\n"
    new += "   size (B)   elements   min (us)   p50 (us)   p99 (us)   max (us)   bandwidth (GB/s)   iterations\n        400        100        172        175        182        190              0.002            1\n    4000000    1000000       2500       2600       2700       2800              1.538            9\n"
    yield Shape("gloo-benchmark-new", new, (Fact("all_reduce", 3, 2, None, largest=4_000_000, time=2600.0),))
    frame = "#" * 90
    demo = f"HCCL_COMM_ID=127.0.0.1:5555 python3 run_hccl_demo.py --nranks 8 --node_id 0 --size 32m --test all_reduce --loop 1000 --ranks_per_node 8\n{frame}\n[BENCHMARK] hcclAllReduce(dataSize=33554432, count=8388608, dtype=float, iterations=1000)\n[BENCHMARK]     NW Bandwidth   : 258.259144 GB/s\n[BENCHMARK]     Algo Bandwidth : 147.576654 GB/s\n{frame}\n"
    yield Shape("hccl-demo", demo, (Fact("all_reduce", 8, 1, 258.26, largest=33554432),))
    newer = demo.replace("dataSize", "src!=dst, data_size").replace("python3 run_hccl_demo.py --nranks 8", "./x")
    yield Shape("hccl-demo-without-ranks", newer, (Fact("all_reduce", 8, 1, 258.26, largest=33554432),))
    report = f"{frame}\n[BANDWIDTH SUMMARY REPORT]\n(src!=dst, collective=all_reduce, iterations=1000)\n\nsize              count             type              redop             time              algoBW            nw_bw             \n(B)               (elements)                                            (ms)              (GB/s)            (GB/s)            \n"
    for size in SIZES:
        report += f"{size:<18}{size // 4:<18}{'float':<18}{'sum':<18}{f'{time_of(size) / 1e3:.3f} ms':<18}{f'{algbw(size):.2f} GB/s':<18}{f'''{busbw('all_reduce', 8, size):.2f} GB/s''':<18}\n"
    yield Shape("hccl-demo-report", report, (Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.35),))
    omb = "# OMB-Py MPI Allreduce Latency Test\n# Size (B)      Latency (us)\n" + "".join(
        f"{size:<10d}{12.5 + size / 1e3:18.2f}\n" for size in (1024, 65536)
    )
    yield Shape(
        "omb-py",
        "+ mpirun -np 4 python run.py --benchmark allreduce\n" + omb,
        (Fact("all_reduce", None, 2, None, largest=65536, time=78.04),),
    )
    mpibench = "START mpiBench_Allreduce\n" + "".join(
        f"Allreduce           \tBytes:\t{size:9d}\tIters:\t     1000\tAvg:\t{10.5 + size / 1e3:12.4f}\tMin:\t  9.0000\tMax:\t 99.0000\tComm: MPI_COMM_WORLD\tRanks: 64\n"
        for size in (8, 1024)
    )
    yield Shape("mpibench", mpibench + "END mpiBench\n", (Fact("all_reduce", 64, 2, None, largest=1024, time=11.524),))
    tput = "MASTER_ADDR=a001\nNUM_NODES=53\nNUM_GPUS_PER_NODE=8\nNUM_GPUS=424\n0 data size: 6.0 GB\ntput_avg (Gbps): 1499.183349609375 busbw_avg (Gbps): 1495.6475830078125\n"
    yield Shape("torch-averages-in-gbps", tput, (Fact("all_reduce", 424, 1, 186.956),))
    jax = (
        "all_reduce, 8 devices\n"
        + "     Size [B] |    time [ms] |    busbw [GB/s]\n"
        + "".join(
            f"{size:>13,} | {time_of(size) / 1e3:12.5f} | {busbw('all_reduce', 8, size):15.2f}\n" for size in SIZES
        )
    )
    yield Shape("jax-collectives", jax, (Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.35),), "jax.log")
    box = "┌─────────────────────────┐\n│ AllReduce               │\n├────────────┬────────────┤\n│ Size       │ Latency    │ AlgBW (GB/s) │ BusBW (GB/s)     │\n├────────────┼────────────┤\n"
    box += "".join(
        f"│ {name:>10} │ {time_of(size) / 1e3:7.3f} ms │ {algbw(size):12.2f} │ {busbw('all_reduce', 8, size):16.2f} │\n"
        for name, size in zip(("1 MB", "16 MB", "256 MB"), SIZES, strict=True)
    )
    yield Shape(
        "box-with-a-title-and-units",
        box + "└────────────┴────────────┘\n",
        (Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.0),),
        "bench.log",
    )


def surrounded_shapes() -> Iterator[Shape]:
    """What makers, launchers and options put into or around lines of nccl-tests."""
    vendor = TEXT.replace("nccl-tests version", "mccl-tests version").replace("NVIDIA H100 80GB HBM3", "MetaX C500")
    yield Shape("nccl-tests-of-another-maker", vendor, (fact(JOB),), "all_reduce_perf.log")
    noisy = "nohup: ignoring input\nWarning: Permanently added 'gpu-a2' (ED25519) to the list of known hosts.\n--------------------------------------------------------------------------\nWARNING: No preset parameters were found for the device that Open MPI\ndetected:\n--------------------------------------------------------------------------\n"
    yield Shape(
        "open-mpi-warnings-around",
        noisy
        + TEXT.replace(
            "#\n# Using",
            "[gpu-a1:04711] 7 more processes have sent help message help-mpi-btl-openib.txt / ib port not selected\n#\n# Using",
        ),
        (fact(JOB),),
    )
    cycles = (
        parameters(JOB).replace("agg iters: 1", "agg iters: 1 run cycles: 2")
        + TABLE
        + rows(JOB)
        + rows(JOB)
        + footer(JOB)
    )
    yield Shape("two-cycles-below-one-header", "+ mpirun -np 8 ./all_reduce_perf -N 2\n" + cycles, (fact(JOB),))
    summary = "all_reduce_perf: size 268435456 busbw 173.71 GB/s\n"
    yield Shape("one-line-summary", summary, (), "x.log", says="prose with bandwidths")


NAMED = {
    "gtest-xml": ('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites tests="3" failures="0" disabled="0" errors="0" time="1.2" name="AllTests">\n  <testsuite name="AllReduce" tests="3" failures="0"><testcase name="Float" status="run" time="0.4" classname="AllReduce" /></testsuite>\n</testsuites>\n', "JUnit"),
    "google-benchmark": ('{\n  "context": {"date": "2026-01-02", "host_name": "gpu-a1", "executable": "./bench", "num_cpus": 96},\n  "benchmarks": [\n    {"name": "BM_AllReduce/1048576", "run_type": "iteration", "iterations": 1000, "real_time": 30.5, "cpu_time": 30.4, "time_unit": "us", "bytes_per_second": 3.4e10}\n  ]\n}\n', "Google Benchmark"),
    "google-benchmark-text": ("-----------------------------------------------------------------\nBenchmark                     Time             CPU   Iterations\n-----------------------------------------------------------------\nBM_AllReduce/1048576       30.5 us         30.4 us        22954 bytes_per_second=32.0G/s\n", "Google Benchmark"),
    "torch-utils-benchmark": ("[------------- all_reduce ------------]\n                |  nccl  |  symm_mem\n1 threads: ----------------------------\n      1048576   |  30.5  |    21.2\n      16777216  | 187.8  |   150.1\n\nTimes are in microseconds (us).\n", "torch.utils.benchmark"),
    "mpip": ("@ mpiP\n@ Command : ./app\n@ Version                  : 3.5.0\n@ MPIP Build date          : Jan 2 2026\n---------------------------------------------------------------------------\n@--- Aggregate Time (top twenty, descending, milliseconds) ----------------\nCall                 Site       Time    App%    MPI%     COV\nAllreduce               1       1.23    0.10   45.00    0.11\n", "mpiP"),
    "nsys-stats": (" ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n Time (%)  Total Time (ns)  Instances   Avg (ns)   Med (ns)   Min (ns)  Max (ns)  StdDev (ns)  Name\n --------  ---------------  ---------  ---------  ---------  --------  --------  -----------  ----\n     61.2       1234567890        200  6172839.4  6172000.0   6100000   6300000      12345.6  ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)\n", "Nsight Systems"),
    "torch-profiler-table": ("-------------------------------------------------------  ------------  ------------\n                                                   Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg     Self CUDA   Self CUDA %    CUDA total  CUDA time avg    # of Calls  \n-------------------------------------------------------  ------------  ------------\n                                        nccl:all_reduce         0.00%       0.000us         0.00%       0.000us       0.000us       1.234s        61.20%       1.234s       6.172ms           200  \n", "profiler"),
    "ucx-perftest": ("+--------------+--------------+------------------------------+---------------------+-----------------------+\n|              |              |       overhead (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |\n+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+\n|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |\n+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+\n[thread 0]             10000      1.500     1.500     1.500    20833.33   20833.33      666667      666667\n", "ucx_perftest"),
    "fabtests": ("bytes   iters   total       time     MB/sec    usec/xfer   Mxfers/sec\n64      10k     625k        0.01s     45.21       1.42       0.71\n1m      1k      1g          0.08s  12345.67      84.94       0.01\n", "fabtests"),
    "rocm-bandwidth-test": ("......\n          RocmBandwidthTest Version: 2.6.0\n\n          Launch Command is: ./rocm-bandwidth-test\n\n          Unidirectional copy peak bandwidth GB/s\n\n          D/D       0           1\n          0         N/A         45.1\n", "rocm_bandwidth_test"),
    "gpcnet": ("Network Tests v1.3\n  Test with 64 MPI ranks (2 nodes)\n\n                              Isolated Network Tests\n+------------------------------------------------------------------------+\n|                            Name |   Avg |  Max | Min | 99% | Units |\n+------------------------------------------------------------------------+\n|          RR Two-sided Lat (8 B) |   1.8 |  2.2 | 1.5 | 2.1 |  usec |\n|       Multiple Allreduce (8 B)  |   9.8 | 12.2 | 8.5 | 12.1 |  usec |\n", "GPCNeT"),
    "nccl-tuner-csv": ("# Format: collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks\nallreduce,0,65536,tree,simple,2,1,-1\nallreduce,65537,1048576,ring,ll,4,1,-1\n", "tuner"),
    "reframe-report": ('{\n  "session_info": {"cmdline": "reframe -r", "hostname": "login"},\n  "runs": [{"num_cases": 1, "testcases": [{"name": "nccl_test", "perfvalues": {"sys:part:bw": [173.7, 0, null, null, "GB/s"]}}]}]\n}\n', "ReFrame"),
    "reframe-perflog": ("2026-01-02T03:04:05|ReFrame 4.6|nccl_allreduce %ranks=8 /1a2b3c|sys:part+env|bw=173.71|(l=-0.05,u=None)|GB/s\n", "ReFrame"),
    "horovod-timeline": ('[\n{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "DistributedAdam.grad_0"}},\n{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 12, "pid": 1},\n{"ph": "B", "name": "NCCL_ALLREDUCE", "ts": 30, "pid": 1},\n{"ph": "E", "ts": 60, "pid": 1}\n', "Horovod"),
    "nccl-profiler-plugin": ('[\n{"name": "NcclCollEvent", "cat": "COLL", "ph": "b", "id": 0, "pid": 4711, "tid": 1, "ts": 1.0, "args": {"SeqNum": 1, "CommHash": 1234, "Rank": 0, "Count": 262144, "Datatype": "ncclFloat32", "Algorithm": "RING", "Protocol": "LL", "nMaxChannels": 2}},\n{"name": "NcclCollEvent", "cat": "COLL", "ph": "e", "id": 0, "pid": 4711, "tid": 1, "ts": 31.5}\n]\n', "profiler plugin"),
    "osu-bw": ("# OSU MPI-CUDA Bandwidth Test v7.4\n# Size      Bandwidth (MB/s)\n1                       2.10\n4194304             24500.12\n", "OSU"),
    "imb-pingpong": ("#------------------------------------------------------------\n#    Intel(R) MPI Benchmarks 2021.8, MPI-1 part\n#------------------------------------------------------------\n#---------------------------------------------------\n# Benchmarking PingPong \n# #processes = 2 \n#---------------------------------------------------\n       #bytes #repetitions      t[usec]   Mbytes/sec\n            0         1000         1.10         0.00\n      4194304           10       350.11     11980.12\n", "PingPong"),
    "netpipe": ("Send and receive buffers are 16777216 and 16777216 bytes\nNow starting the main loop\n  0:       1 bytes   2000 times -->      6.10 Mbps in       1.25 usec\n", "NetPIPE"),
    "azhpc-health": ("Running health check: \"check_nccl_allreduce 228.0 1 /opt/topo.xml 16G\"\nSUCCESS:  nhc:  Health check passed:  check_nccl_allreduce: NCCL all reduce bandwidth test passed, 230.11 GB/s\n", "health check"),
    "nccom-profile": ("usage: nccom-test [-h] [-b MINBYTES] [-e MAXBYTES] [-f STEPFACTOR]\nnccom-test: error: unrecognized arguments: --foo\n", "nccom-test"),
    "sqlite": ("SQLite format 3\x00\x10\x00\x01\x01\x00@  \x00\x00", "SQLite"),
    "nsys-rep-zip": ("PK\x03\x04\x14\x00\x00\x00\x08\x00", "zip"),
    "perfetto": ('{"traceEvents": [{"name": "step", "ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1}], "displayTimeUnit": "ns"}\n', "trace"),
}  # fmt: skip


def named_shapes() -> Iterator[Shape]:
    for name, (text, says) in NAMED.items():
        yield Shape(f"abroad-{name}", text, (), "x.json" if text[:1] in "{[" else "x.txt", says=says)


def abroad_shapes() -> Iterator[Shape]:
    """All of them."""
    parts = (
        service_shapes,
        sent_shapes,
        log_service_shapes,
        runner_shapes,
        tool_shapes,
        surrounded_shapes,
        named_shapes,
    )
    for part in parts:
        yield from part()
