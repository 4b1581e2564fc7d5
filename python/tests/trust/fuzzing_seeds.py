"""What readers are given whole before it is changed: small files of each kind, as their writers make them."""
# ruff: noqa: E501 - seeds stand as their tools write them

from __future__ import annotations

import bz2
import gzip
import json
import lzma

LOG = (
    "h:1:2 [0] NCCL INFO NCCL_DEBUG set by environment to INFO.\nh:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 "
    "busId 1000 - Init COMPLETE\nh:1:2 [0] NCCL INFO Channel 00/08 : 0 1\nh:1:2 [0] NCCL WARN Call to ibv_poll_cq failed\n"
)
PACKED_LOGS = [pack(LOG.encode()) for pack in (gzip.compress, bz2.compress, lzma.compress)]
CONF = "NCCL_ALGO=Ring\n# x\nNCCL_IB_HCA = mlx5\nNCCL_BUFFSIZE=4194304\n"
MATRIX = (
    "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV12\t0-23\t0\nGPU1\tNV12\t X \t24-47\t1\n"
    "\nLegend:\n  X = Self\n"
)
TOPOLOGY = (
    '<system version="1"><cpu numaid="0" affinity="00ff" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">'
    '<pci busid="0001:00:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="80" rank="0" '
    'gdr="1"><nvlink target="0002:00:00.0" count="12" tclass="0x030200"/></gpu></pci><nic><net name="mlx5_0" dev="0" '
    'speed="200000" port="1" guid="0x1" maxconn="131072" gdr="1"/></nic></cpu></system>'
)
GRAPH = (
    '<graphs version="1"><graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="20" speedinter="20" latencyinter='
    '"0" typeintra="NVL" typeinter="PIX" samechannels="1"><channel><net dev="0"/><gpu dev="0"/><gpu dev="1"/><net dev="0"/>'
    "</channel></graph></graphs>"
)
QUERY = (
    "<nvidia_smi_log><driver_version>550.1</driver_version><cuda_version>12.4</cuda_version><gpu id='00000001:00:00.0'>"
    "<product_name>NVIDIA H100</product_name><uuid>GPU-1</uuid><pci><pci_gpu_link_info><pcie_gen><max_link_gen>5"
    "</max_link_gen><current_link_gen>5</current_link_gen></pcie_gen></pci_gpu_link_info></pci></gpu></nvidia_smi_log>"
)
LSPCI = (
    "0001:00:00.0 3D controller: NVIDIA Corporation GA100 (rev a1)\n\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n"
    "\tLnkSta:\tSpeed 16GT/s, Width x16\n\tKernel driver in use: nvidia\n"
)
PASTE = (
    "$ nvidia-smi\n|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:07:00.0 Off |                    0 |\n"
    "| N/A   30C    P0              52W / 400W |      1MiB / 40960MiB |      0%      Default |\n"
    "|                                         |                  |             Disabled |\n"
    "index, pstate, pcie.link.gen.current, pcie.link.width.current\n0, P0, 4, 16\n"
    "mlx5_0 port 1 ==> ib0 (Up)\nCA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tRate: 200\n"
    "GPU 00000000:07:00.0\n    Performance State                     : P0\n    BAR1 Memory Usage\n        Total : 65536 MiB\n"
)
LINKS = "GPU 0: NVIDIA A100 (UUID: GPU-1)\n\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n"
FLIGHT = json.dumps({"version": "2.4", "rank": 0, "entries": [
    {"collective_seq_id": number, "profiling_name": "nccl:all_reduce", "state": "completed", "process_group": ["0", "x"],
     "input_sizes": [[4]]} for number in range(5)
]})  # fmt: skip
FLEET = (
    '{"busbw_fleet": 1, "nodes": ["a", "b"], "pods": {"a": "p", "b": "p"}, "rails": 1}\n'
    '{"round": 0, "kind": "within", "channel": "rail0", "nodes": ["a", "b"], "samples": [1.0, 1.1]}\n'
)
THRESHOLDS = '[[threshold]]\ncollective = "all_reduce"\nbytes = "1G"\nmin_busbw_GBps = 200.0\nranks = 8\nsource = "x"\n'
PLAN = 'command = ["all_reduce", "-b", "8"]\nranks = 2\n[[vary]]\nvariable = "NCCL_ALGO"\nvalues = ["Ring", "Tree"]\n'
EXECUTION = json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [
    {"id": 3, "name": "## process_group:init ##", "inputs": {"values": [
        '[{"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 2, "group_count": 1}]'], "types": ["String"]}},
    {"id": 9, "name": "record_param_comms", "ts": 5.5, "dur": 3, "inputs": {"values": [
        [[6, 7, 0, 1024, 4, "cuda:0"]], [1, False], ["0", "default_pg"], 0, "allreduce", [], [], 0, 1, 2],
        "types": ["GenericList[Tensor(float)]"]}, "outputs": {"values": [[[6, 7, 0, 1024, 4, "cuda:0"]]]},
     "attrs": [{"name": "collective_name", "type": "string", "value": "allreduce"}, {"name": "dtype", "value": "Float"},
               {"name": "in_msg_nelems", "value": 1024}, {"name": "out_msg_nelems", "value": 1024},
               {"name": "pg_name", "value": "0"}, {"name": "in_split_size", "value": "[]"}]},
]})  # fmt: skip
OLD_EXECUTION = json.dumps({"schema": "1.0.1", "nodes": [
    {"id": 1, "name": "## process_group:init ##", "inputs": ['[{"pg_name": "0", "ranks": {"0": 0, "1": 1}, "group_size": 2}]']},
    {"id": 2, "name": "record_param_comms", "inputs": [[[6, 7, 0, 64, 4, "cuda:0"]], 1, ["0", "x"], 1, "broadcast", [], []],
     "input_types": ["GenericList[Tensor(c10::BFloat16)]"], "outputs": [[[6, 7, 0, 64, 4, "cuda:0"]]]},
]})  # fmt: skip
PARAM_CALLS = json.dumps([
    {"comms": "init", "pg_id": 0, "global_ranks": [0, 1], "world_size": 2},
    {"comms": "all_reduce", "pg_id": 0, "in_msg_size": 8, "out_msg_size": 8, "dtype": "float", "startTime_ns": 7, "world_size": 2},
    {"comms": "send", "pg_id": 0, "in_msg_size": 8, "out_msg_size": 8, "dtype": "half", "dst_rank": 1, "src_rank": 0},
])  # fmt: skip
TIMES = json.dumps({"schema": 1, "ranks": 2, "wrong": 0, "rank_us": 12.5, "calls": [
    {"collective": "all_reduce", "count": 4, "type": "float32", "communicator": 0, "ranks": 2, "bytes": 16,
     "recorded_us": None, "replayed_us": 5.5, "busbw_GBps": 0.01}
]})  # fmt: skip
PUBLISHED = '[[table]]\nmachine = "nc48v4"\nsource = "x"\nheld_out = true\ncollective = "all_reduce"\ngpus = 2\nnodes = 1\nrows = "1M 10 12,4M 30 31"\n'
STEP = (
    '[step]\nparallel = "fsdp"\nflops_per_s = 400e12\nbytes_per_s = 2.5e12\n[[layer]]\nname = "block"\ncount = 3\nforward_flops = 3.3e12\n'
    'parameter_bytes = "404M"\ncollectives = [{name = "alltoall", bytes = "16M", when = "forward"}]\n'
)
TABLE = "busbw-table 1\ngpu any\nall_reduce ranks=4 from=0 to=65536 one_shot/ll\n"
NCCL_TABLE = (
    "busbw-tuner 1\nmeasured\nnccl 2.28.9\ngpu H100\ndriver 550\ntopology x\nranks 8\nnodes 1\n"
    "rule all_reduce 0 1048576 ring/simple channels=16 gain=1.1..1.2\nend 1\n"
)
TOML = 'a.b.c = 1\n[x."y z"]\nd = [1, 2.5, "é", {e = 2026-11-22T00:00:00Z}]\n[[t]]\nf = """\nline"""\n'
