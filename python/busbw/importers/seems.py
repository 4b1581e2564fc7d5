"""Says what a file seems to be that holds no results of collectives, and what to use it with."""

from __future__ import annotations

import re

_KINDS: tuple[tuple[str, str], ...] = (
    (
        r"^Communicators\.\.\. \(|^Job summary\n=+$",
        "what NCCL's RAS client (ncclras) says of a running job, which has no times: "
        "`busbw watch` follows its collectives",
    ),
    (
        r'"foms" *: *\[|figures of merit:',
        "Ramble's results, whose figures lost their table: import the output of the experiment (its .out file)",
    ),
    (
        r"High-Performance Linpack|^T/V +N +NB +P +Q +Time +Gflops",
        "HPL's result, a benchmark of solving equations and not of collectives",
    ),
    (
        r"^\[CUDA Bandwidth Test\]|Device Bandwidth, \d+ Device\(s\)",
        "CUDA's bandwidthTest, copies between host and GPU and no collective: "
        "`busbw doctor` looks at the way between them",
    ),
    (
        r"^b_eff =|^START mpiGraph|^FZJ Linktest|Parallel PingPong for step|^# ?mpptest",
        "a test of pairs of nodes (b_eff, mpiGraph, Linktest or their like), which is no collective: `busbw fleet` "
        "measures pairs of nodes",
    ),
    (
        r"^PyTorch distributed benchmark suite|(?:p50|p75): +[\d.]+s +\d+/s",
        "PyTorch's distributed benchmark of a training (DDP), which has times of steps and no sizes: record its "
        "collectives with `busbw watch`",
    ),
    (
        r"\bsys\[\d+\] finished, \d+ cycles|\bASTRA-sim\b|\bSimAI\b|^NS_LOG",
        "the output of a simulator (ASTRA-sim, SimAI, ns-3), which is no measurement: `busbw predict` expects times",
    ),
    (
        r"ibdiagnet|^-I- (?:Discovering|Links)|^CA '\w+'$|^Topology file: generated|^Troubleshooting Info$",
        "what a tool of InfiniBand says of links (ibdiagnet, ibstat, mlxlink or their like), and no measurement of "
        "collectives: `busbw doctor` reads the machine itself",
    ),
    (
        r"^ ?NAS Parallel Benchmarks|^graph_generation: +[\d.]+|^mdtest-\d|^IOZONE|^elbencho |^DLIO|^HPL-MxP"
        r"|^stress-ng: |^sysbench \d|HPC Challenge Benchmark",
        "a benchmark of something else (HPC Challenge, NAS, Graph500, mdtest, HPL-MxP or their like), which has no "
        "times of collectives by size",
    ),
    (
        r"\bimg/sec\b|\bimages/sec\b|\b(?:samples|tokens)/s(?:ec)?/gpu\b",
        "the rate of a training (img/sec and its like), which has no times of collectives: record them with "
        "`busbw watch`",
    ),
    (r"^smb_msgrate|^# OSU MPI.{0,20} (?:Message Rate|mbw_mr)|Messages/s", "a message rate of pairs, no collective"),
    (
        r"^# SKaMPI Version|begin result \"MPI_",
        "SKaMPI's result, whose columns have no names: write size, time, ranks and collective as columns of CSV",
    ),
    (
        r"^=+ Serving Benchmark Result =+|^MLPerf Results Summary|^\| *Tasks *\|Version\|",
        "the result of serving or judging a model, which has no times of collectives: record them with `busbw watch`",
    ),
    (r"^STREAM version|^Function +Best Rate MB/s", "STREAM's bandwidths of memory, which are no collectives"),
    (
        r"^sockperf: |TCP STREAM TEST from|UDP STREAM TEST from|REQUEST/RESPONSE TEST from",
        "sockperf's or netperf's test of one pair, which is no collective: `busbw predict` expects rates",
    ),
    (
        r"#@reproMPI|^#MPI calls:",
        "ReproMPI's samples, one call a row: write size, time and collective as columns of CSV, or import its summary",
    ),
    (r"proc'd: \d+ \(", "gpu-burn's test of arithmetic: `busbw doctor` looks at clocks and throttling"),
    (
        r"^[ \t]*Link \d+: [\d.]+ GB/s$",
        "the links that nvidia-smi counts, and no measurement: `busbw doctor` reads the machine itself",
    ),
    (
        r"\| (?:nccl|rccl|ib)-\w+(?::[\w-]+)? +\| [\w:-]+/",
        "superbench's summary over nodes, which has no ranks: import its results-summary.jsonl",
    ),
    (
        r"HPCG-Benchmark|HPCG result is",
        "HPCG's result, a benchmark of solving equations and not of collectives",
    ),
    (
        r"^(?:writing|reading) test, size=\d+ offset=",
        "GDRCopy's copies between host and GPU, which are no collectives: `busbw doctor` looks at the way between them",
    ),
    (
        r"^(?:tcp|udp|rc|uc|ud|rds|sctp|sdp|xrc)_\w{1,20}:\n +(?:bw|latency|msg_rate) +=",
        "qperf's test of one pair, which is no collective: `busbw sendrecv` measures pairs through NCCL",
    ),
    (
        r'"benchmarks" *: *\[[^\0]{0,4000}"(?:real_time|cpu_time)"|^Benchmark +Time +CPU +Iterations',
        "Google Benchmark's times, whose names only say what was measured: "
        "write size, time and collective as columns of CSV",
    ),
    (
        r"^ *\[-{3,} .{1,80} -{3,}\]$|^Times are in (?:micro|milli|nano)?seconds \(\w+\)\.$",
        "the output of torch.utils.benchmark, which does not say what its rows are: "
        "write size, time and collective as columns of CSV, or measure with `busbw torch-bench`",
    ),
    (r"^@ mpiP$|^@ MPIP Build", "mpiP's profile of an application, which has sums over calls and no sizes of each"),
    (
        r"cuda_gpu_kern_sum|CUDA GPU Kernel Summary|CUDA Kernel Statistics|nccl_sum"
        r"|^ *Time ?\(%\) *,? *Total Time \(ns\)",
        "a summary of Nsight Systems, which has times of kernels and no sizes: import PyTorch's profiler trace "
        "or NCCL Inspector's JSON of the same job",
    ),
    (
        r'^"ID","Process ID","Process Name"|^==PROF== |ncu-rep',
        "kernels as Nsight Compute saw them, one by one and without what they send: import PyTorch's profiler trace or "
        "NCCL Inspector's JSON of the same job",
    ),
    (r"^:::MLL(?:OG|v)", "MLPerf's log of a training, which has times of epochs and no collectives"),
    (
        r"^# (?:HELP|TYPE) \w+|^\w{3,80}\{(?:\w{1,40}=\"[^\"\n]{0,80}\",?){1,12}\} [\d.e+-]{1,20}$",
        "metrics in Prometheus' form, which keep the last value of each and not the tables they came from: import the "
        "log of the benchmark",
    ),
    (
        r"^\d+ bytes in [\d.]+ seconds = [\d.]+ Mbit/sec|NIXLBench|^Block Size \(B\) +Batch Size",
        "a test of one pair (ibv_rc_pingpong, nixlbench or their like), which is no collective: `busbw sendrecv` "
        "measures pairs through NCCL",
    ),
    (
        r"Best (?:dispatch|combine) ?(?:\(|:)|^\[tuning\] SMs ",
        "DeepEP's tuning of dispatch and combine, which send by a router's choice and not as a collective does",
    ),
    (
        r"Self CPU %|CUDA time avg|Self CUDA",
        "the table of PyTorch's profiler, which has no sizes: export the trace (export_chrome_trace) and import that",
    ),
    (
        r"\| +overhead \(usec\) +\||^\[thread \d+\] +\d+",
        "ucx_perftest's test of one pair, which is no collective: `busbw sendrecv` measures pairs through NCCL",
    ),
    (r"^bytes +iters +total +time +MB/sec", "fabtests' test of one pair over libfabric, which is no collective"),
    (r"RocmBandwidthTest|rocm[-_]bandwidth[-_]test", "rocm_bandwidth_test's copies, which are no collectives"),
    (
        r"Isolated Network Tests|Network Tests v\d|Congestion Impact",
        "GPCNeT's summary of a loaded network, which has one size of each and no table",
    ),
    (
        r"^# Format: coll|^coll(?:ective)?_?[tT]ype,min|^(?:all|reduce|broad)[a-z]{3,8},\d+,\d+,\w+,\w+,",
        "a table of choices for NCCL's tuner plugin, which has no measurements: `busbw tune` makes such tables",
    ),
    (
        r"\|ReFrame [\d.]+\||\"session_info\" *: *\{[^\0]{0,4000}\"(?:runs|perfvalues)\"",
        "ReFrame's record, which keeps a single figure of each test: import the test's own output (rfm_job.out)",
    ),
    (
        r'"NEGOTIATE_\w+"|NCCL_ALLREDUCE"[^\n]{0,80}"ts"',
        "Horovod's timeline, which has no sizes: import PyTorch's profiler trace or NCCL Inspector's JSON",
    ),
    (
        r'"cat": *"(?:COLL|P2P|GROUP|NET)"[^\n]{0,200}"ph"|"(?:SeqNum|CommHash)":[^\n]{0,200}"Datatype"',
        "the trace of NCCL's example profiler plugin, whose times are the host's: import NCCL Inspector's JSON instead",
    ),
    (r"\(groupid=\d+, jobs=\d+\)|^IOR-\d", "a test of storage (fio, IOR), which is no collective"),
    (r"(?<!\d)\d{1,12} times +--> +[\d.]+ Mbps in|NetPIPE", "NetPIPE's test of one pair, which is no collective"),
    (
        r"check_nccl|Health [Cc]heck|health check passed|nhc: ",
        "the verdict of a node's health check, which keeps one figure: import the output of its nccl-tests",
    ),
    (r"nccom-test: error|usage: nccom-test", "a failed call of nccom-test: it printed its usage and no results"),
    (
        r'"traceEvents"|^\[?\s{0,80}\{[^\n]{0,200}"ph" *: *"[BEXbe]"',
        "a trace without collectives that busbw knows: PyTorch 2.4 and later write sizes beside NCCL's kernels",
    ),
    (r"<testsuites?\b|<testcase\b", "a report of tests (JUnit's XML) without the output of a benchmark"),
    (
        r'nvbandwidth Version|"nvbandwidth" *: *\{|memcpy [CS]\w GPU\(row\)',
        "nvbandwidth's copies between GPUs, which are no collectives: `busbw sendrecv` measures pairs through NCCL",
    ),
    (
        r"\b(?:RDMA_(?:Write|Read)|Send) (?:Bidirectional )?(?:BW|Latency) Test"
        r"|#bytes\s+#iterations\s+(?:BW peak|t_min)",
        "perftest's RDMA test of one pair (ib_write_bw and its like), which is no collective: "
        "hold it against what `busbw predict` expects of a link",
    ),
    (
        r"P2P \(Peer-to-Peer\) GPU Bandwidth Latency Test|P2P=(?:En|Dis)abled (?:Bandwidth|Latency)",
        "CUDA's p2pBandwidthLatencyTest, copies between pairs of GPUs and no collective: "
        "`busbw sendrecv` measures pairs through NCCL",
    ),
    (
        r"Performance of replayed comms|^ *Replayed \d+ \w+ \(",
        "what et_replay prints, which has no sizes beside its times: import its replayedCommsPerf.rank-*.json",
    ),
    (
        r'"schema" *: *"[\d.]+-chakra',
        "a Chakra execution trace, which has no times of collectives: `busbw import --recordings FOLDER` makes "
        "recordings of it that `busbw replay` times, or import the profiler's trace of the same job",
    ),
    (
        r"\[ ID\] Interval +Transfer +Bi?tr?a",
        "iperf3's TCP streams, which are no collectives: `busbw predict` expects rates",
    ),
    (r"^TransferBench v|Executor: +GPU \d+ *\|", "TransferBench's copies between GPUs, which are no collectives"),
    (r"^#?shmem_\w+_(?:bw|latency)|NVSHMEM", "NVSHMEM's own performance tests, which busbw does not compare"),
    (
        r'"pytest_?version"|"benchmarks" *: *\[[^\0]{0,2000}"extra_info"|-{3,} benchmark: \d+ tests',
        "pytest-benchmark's times, whose names only say what was measured: "
        "write size, time and collective as columns of CSV",
    ),
    (
        r'(?i)clusterkit|"Testname" *: *"(?:bandwidth|latency|noise|collective)',
        "ClusterKit's tests of pairs, which are no collectives: `busbw fleet` measures pairs of nodes",
    ),
    (
        r"\bforward-backward \.{3,}|elapsed time per iteration \(ms\): [\d.]+ \|",
        "the log of a training (Megatron-LM), which has times of steps and no sizes: record its collectives with "
        "`busbw watch`, or import PyTorch's profiler trace of it",
    ),
    (
        r"\bDCGM (?:GPU )?Diagnostic\b|DCGM Version|^dcgmi |Successfully ran diagnostic|^#Entity +\w+|\bDCGM_FI_\w+",
        "DCGM's diagnosis or counters of GPUs: `busbw doctor` looks at collectives",
    ),
    (r"\\begin\{tabular|\\hline", "a LaTeX table: export it as CSV or Markdown"),
    (
        r"^nccl_(?:bus_bandwidth_gbs|collective_exec_time_microseconds|p2p_\w+)\{",
        "NCCL Inspector's Prometheus output, which keeps ranges of sizes only: "
        "import the Inspector's JSON (NCCL_INSPECTOR_PROM_DUMP=0)",
    ),
    (
        r"\| NVIDIA-SMI \d|^[ \t]*GPU0[ \t]+GPU1\s.*CPU Affinity",
        "the output of nvidia-smi: `busbw doctor` reads the machine itself",
    ),
    (r"<system version=|<graphs version=", "a topology or graph file of NCCL: `busbw topo` reads it"),
    (
        r"^Traceback \(most recent call last\):",
        "a Python traceback: the program failed before it printed results",
    ),
    (r": Test (?:NCCL|CUDA) failure|: Test failure ", "the output of a test that failed before its first row"),
    (r"\] NCCL (?:INFO|WARN|TRACE|VERSION) |^NCCL version ", "a log of NCCL without results: `busbw doctor` reads it"),
    (r"^#SBATCH |^#PBS |\A#!/", "a script and no output: run it, and import what it prints"),
    (r"^(?:apiVersion|kind): ", "YAML, a manifest of Kubernetes: import the logs of its pods"),
    (
        r"^[^\n|]{0,200}\|[^\n]{0,400}?(?i:time|latency|\bbw\b|bandwidth|[uµμ]s\b|gb/s)[^\n]{0,400}\n[\s|:+-]{5,400}$",
        "a table whose sizes or units are not named: name its columns as in `size (B)`, `time (us)` and "
        "`busbw (GB/s)`, and the collective in its heading",
    ),
    (
        r'"collective_seq_id" *:|"profiling_name" *:',
        "a dump of PyTorch's flight recorder: `busbw doctor` reads it, beside those of the other ranks",
    ),
    (r"\A\s*(?!\[\d+\] *[^\s,\]])[\[{](?=\s*[\[{\"\d\]}tfn-])", "JSON of no tool that busbw knows"),
    (r"(?i)\A\s*<(?:!doctype html|html)\b", "an HTML page without tables or output of benchmarks"),
    (r"\A\s*<\?xml|\A\s*<\w", "XML of no tool that busbw knows"),
    (
        r"\d ?(?:G[Bb]/s|GBps|Gbps)\b",
        "lines of prose with bandwidths: write a line as `collective=all_reduce ranks=8 size=1048576 time_us=30.5 "
        "busbw=60.2`, or columns of CSV",
    ),
    (
        r"(?i)^[^\n]*(?:algo?|bus) ?bw ?\(GB/s\)",
        "a table whose columns blanks do not part: write it as CSV",
    ),
    (r"(?m)^#\d+: .{0,40}Test\(size:|bytes/sec +usec$", "PAMI's tests of collectives: write their rows as CSV"),
    (
        r"(?i)(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|bcast|broadcast)"
        r"[^\n]{0,120}\d ?(?:[uµ]s(?:ec)?|ms)\b",
        "lines of prose with times of collectives: write a line as `collective=all_reduce ranks=8 size=1048576 "
        "time_us=30.5`, or columns of CSV",
    ),
    (
        r"\A[\w .()/%#-]+(?:,[\w .()/%#-]+){1,50}\n[^,\n]+(?:,[^,\n]+)+",
        "CSV without columns of sizes and bandwidths or times",
    ),
    (
        r"\A[\w-]+:\n +[\w-]+:",
        "YAML: write size, time, bandwidth and collective as columns of CSV, or as a list of rows with these names",
    ),
    (r"^[\w-]+: [^\n]+\n(?:[\w-]+:|  ?\S)", "YAML or settings"),
    (r"[Uu]sage: |invalid option", "the help text of a program"),
)
_COMPILED = tuple((re.compile(pattern, re.MULTILINE), said) for pattern, said in _KINDS)


def what_it_seems(beginning: str) -> str:
    """A few words for the kind of file that begins so."""
    return next((said for pattern, said in _COMPILED if pattern.search(beginning[:20_000])), "plain text")
