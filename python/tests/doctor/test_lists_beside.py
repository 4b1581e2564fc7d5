"""Ray's lists, how UCX was built, who listens where and what filled a GPU: read beside an error; what looks alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import logs_of, loud

LOGS = logs_of("f132-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("ray-unknown-address", "192.168.90.4 (node:192.168.90.4), which none of its nodes has", "VLLM_HOST_IP"),
        ("ray-head-elsewhere", "node:127.0.1.1", "127.0.1.1 in /etc/hosts"),
        ("ray-node-not-known", "this node's address for Ray is 172.20.0.3", "--node-ip-address"),
        ("ray-counted-two", "2 GPUs on one node (none in use), though nvidia-smi lists 4", "CUDA_VISIBLE_DEVICES"),
        ("ray-all-in-use", "are in use: 8 of 8 GPUs on 2 nodes, and the job asks for 2", "ray list placement-groups"),
        ("ray-still-growing", "still starting nodes (10.9.0.7: worker-h100", "monitor"),
        ("ray-no-processors", "24 are asked for, 14 are free", "num_cpus"),
        ("one-bundle-too-large", "no node of Ray's cluster has GPUs enough: 8 GPUs on 2 nodes", "ray stop"),
        ("nodes-not-joined", "lacks nodes or GPUs: 8 GPUs on one node", "join the nodes that are missing"),
        ("nixl-ucx-without-cuda", "the UCX that is loaded from /opt/ucx-cpu/lib/libucp.so.0", "LD_LIBRARY_PATH"),
        ("ucx-py-crashes", "the UCX has no CUDA support", "libuct_cuda.so"),
        ("engine-by-hand", "8 ranks (tensor parallel 4, pipeline parallel 2), and tritonserver", "--world_size=8"),
        ("mpirun-of-another-mpi", "it belongs to another MPI", "which mpirun"),
        ("engine-under-srun", "its launcher gave it no PMI", "srun --mpi=pmix"),
        ("dask-plain-workers", "plain workers of Dask", "dask cuda worker"),
        ("rpc-server-for-itself", "rpc-server listens for its own host alone (127.0.0.1:50053)", "-H 0.0.0.0"),
        ("rpc-server-out-of-reach", "does not reach the rpc-server at 10.9.4.7:50053", "-H 0.0.0.0"),
        ("ollama-for-itself", "Ollama listens for its own host alone", "OLLAMA_HOST=0.0.0.0:11434"),
        ("server-on-all-addresses", "(127.0.0.1:8000), so that other hosts are refused: gpu-box:8000", "--host"),
        ("ray-head-for-itself", "Ray's head listens for its own host alone", "--node-ip-address"),
        ("compute-buffer", "GPU 1 has no room for the compute buffer of llama.cpp: 3120.02 MiB", "-ub 512"),
        ("ollama-cache", "GPU 0 has no room for the KV cache of Ollama", "OLLAMA_KV_CACHE_TYPE"),
        ("cupy-pool", "CuPy asked for 4.00 GiB, and it has 20.00 GiB already", "free_all_blocks"),
        ("rmm-pool", "RMM", "rmm_pool_size"),
        ("tensor-of-tensorflow", "GPU 3 is full: a tensor of shape [64,16,512,512]", "TF_FORCE_GPU_ALLOW_GROWTH"),
        ("array-of-jax", "8.00 GiB asked for at once", "XLA_PYTHON_CLIENT_MEM_FRACTION"),
        ("held-by-another", "/opt/sd/bin/python (pid 77121) holds 49012 MiB of GPU 0", "to 0.36 or less"),
        (
            "ray-kills-for-memory",
            "grew by 40 GB with each step; optimizer_offload is on",
            "switch optimizer_offload off",
        ),
        (
            "mooncake-without-peermem",
            "nvidia_peermem is not loaded (lsmod",
            "Variables of NCCL do nothing for Mooncake",
        ),
        ("address-of-a-bridge", "that Ray gives to all nodes is 172.17.0.4, that of Docker's", "--network=host"),
        ("init-address-of-a-bridge", "that --dist-init-addr gives to all nodes", "--dist-init-addr IP:PORT"),
        ("rank-zero-on-localhost", "gives to all nodes is localhost", "MASTER_ADDR"),
        ("workers-named-localhost", "TF_CONFIG names one of several hosts localhost", "the same list on all"),
        (
            "config-of-hydra",
            "(distributed_init_method) gives to all nodes is 172.17.0.5",
            "distributed_init_method=tcp",
        ),
        ("vllm-in-containers", "gives to all nodes is 172.17.0.2", "VLLM_HOST_IP"),
        ("coordinator-in-a-container", "that coordinator_address gives to all nodes is 172.17.0.2", "--network=host"),
        ("published-port-of-nobody", "leads to nobody", "--host 0.0.0.0"),
        ("full-while-it-works", "GPU 1 became full while llama.cpp worked", "-ctk q8_0"),
        ("tasks-of-spark", "Spark gave tasks no GPU of their own", "spark.task.resource.gpu.amount=1"),
        ("two-jobs-in-turn", "GPU 0", "smaller micro batches"),
    ],
)
def test_lists_beside_an_error_name_its_cause(name: str, title: str, fix: str, tmp_path: Path) -> None:
    found = loud(LOGS[name], tmp_path)
    assert title in found[0].title
    assert fix in found[0].fix
    assert len(found) == 1, "what follows is a note"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        # The node is there, and busy; a list that was filtered shows one node of two.
        (LOGS["ray-unknown-address"].replace("10.50.1.5 ", "192.168.90.4 "), "which none of its nodes has"),
        (LOGS["ray-all-in-use"].replace("8.0/8.0 GPU", "2.0/8.0 GPU"), "are in use"),
        # The module is there, or was not looked for.
        (LOGS["mooncake-without-peermem"] + "nvidia_peermem         16384  0\n", "is not loaded"),
        (LOGS["mooncake-without-peermem"].replace("nvidia|peer", "mlx5|ib"), "is not loaded"),
        # A further line shows that the port is open for others; another port is refused.
        (LOGS["ollama-for-itself"] + "LISTEN 0 4096 0.0.0.0:11434 0.0.0.0:*\n", "for its own host alone"),
        (LOGS["ollama-for-itself"].replace("127.0.0.1:11434", "127.0.0.1:9090"), "for its own host alone"),
        # Rank 0 of one host is gone: the address does there.
        (
            LOGS["init-address-of-a-bridge"].replace("nnodes=2", "nnodes=1").replace("113 - No route to host", "111"),
            "gives to all nodes",
        ),
        # A launcher is there.
        ("$ srun --mpi=pmi2 -n 8 tritonserver\n" + LOGS["engine-by-hand"], "without a launcher"),
        # dask-cuda gives each worker its own.
        (LOGS["dask-plain-workers"].replace("dask worker", "dask cuda worker"), "plain workers"),
    ],
)
def test_what_only_looks_alike_names_no_such_cause(text: str, title: str, tmp_path: Path) -> None:
    found = loud(text, tmp_path)
    assert found and not any(title in each.title for each in found)


def test_ucx_without_cuda_is_no_fault_where_nothing_was_lost_by_it(tmp_path: Path) -> None:
    crash = LOGS["ucx-py-crashes"].splitlines()[-1]
    assert loud(LOGS["ucx-py-crashes"].replace(crash, ""), tmp_path) == []
    killed = LOGS["ucx-py-crashes"].replace(crash, "[rank1]: RuntimeError: mask must be bool")
    assert [each.name for each in loud(killed, tmp_path)] == ["python-exception"]
