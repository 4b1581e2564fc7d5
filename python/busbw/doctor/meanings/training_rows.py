"""What is known of failures of frameworks that train on many GPUs: rows for `particulars`, and clues beside errors."""

from __future__ import annotations

TRAINING_ROWS = {
    "build-failed": r"""
unsupported GNU version.{0,40}later than (?P<gcc>\d{1,2}) ; the host's compiler is too new for this nvcc, which takes
 gcc up to {gcc} ;
 install that older gcc and g++ (apt install gcc-12 g++-12) and name them: CC=gcc-12 CXX=g++-12, for nvcc also
 NVCC_PREPEND_FLAGS='-ccbin /usr/bin/g++-12'. Or a newer CUDA toolkit, which must still fit the PyTorch
unsupported (?P<what>[^!.\n]{3,40}) version ; nvcc does not take the host's compiler: {what} ;
 install a gcc that this CUDA toolkit supports and name it (CC, CXX, NVCC_PREPEND_FLAGS='-ccbin ...')
""",
    "ssh-launch": r"""
launcher '?(?P<what>\w{2,20})'? not installed ; {what}, by which the launcher starts other nodes, is not installed on the
 host that launches ;
 apt install pdsh there (in the image), or another way: --launcher openmpi, mpich, slurm, or torchrun on each node.
 Keys of ssh between the nodes are needed as well
""",
    "wrong-results": r"""
Rank (?P<rank>\d{1,7}), node (?P<node>[\w.-]{1,60}), device (?P<gpu>\d{1,3}), .{0,120}(?:not reproducible|Possible
 \w{4,10} error) ; GPU {gpu} of {node} (rank {rank}) computed another result when the step was run again: its hardware
 may corrupt data ;
 drain that node, run dcgmi diag -r 4 on that GPU, and go on from the last checkpoint on another node. Have the GPU
 replaced where it comes again; data, NCCL and network are not at fault
""",
    "straggler": r"""
Affected ranks: \W{0,2}(?P<ranks>\d[\d, ]{0,60}) ; rank {ranks} is slower than the others, by the report on stragglers,
 and all wait for it ;
 look on the host of that rank: nvidia-smi -q -d CLOCK,PERFORMANCE,POWER (heat, power cap), other programs, a slow PCIe
 link, memory errors. Run without that node (--exclude): where the job is fast then, have it repaired
""",
    "duplicate-gpu": r"""
for multiple distinct roles ; the trainer and the server that generates for it use the same GPU ;
 give them GPUs of their own: CUDA_VISIBLE_DEVICES=0 trl vllm-serve, CUDA_VISIBLE_DEVICES=1,2,3 for the trainer. With
 few GPUs vllm_mode="colocate", where the trainer generates itself
""",
    "cuda-fork": r"""
notebook_launcher ; CUDA was touched in the notebook before its launcher forks the ranks ;
 restart the kernel. Make model, Accelerator and all calls of CUDA inside of the function that is launched, and
 look for an import that touches the GPU (torch.cuda.is_available() in it, a quantization library)
""",
}
"""Rows of `meanings.particulars`: words of the evidence, the cause, and its cure."""

TRAINING_CLUES = {
    "gpu-memory-full": r"""
\bin pin_memory\b|\.pin_memory\(\)|cudaHostAlloc|CachingHostAllocator|PinnedMemory && CUDA error: out of
 memory|cudaErrorMemoryAllocation ; memory of the host that is pinned for copies (offload, loader) ran out, though CUDA
 says "out of memory": {title} ; free -g and ulimit -l on that host, and the limit of the container or job: more memory
 for it, or less to pin: pin_memory false for offload_optimizer and offload_param, no offload, fewer ranks per host. The
 GPU's own memory has room: smaller batches do not help
""",
    "sizes-uneven": r"""
\b_create_(?:expert\w{0,20}|process_groups)\b|deepspeed/moe/ ; {title}: the expert parallel size (ep_size) does not
 divide the ranks of data parallelism ; choose an ep_size that divides the world size (over tensor and pipeline
 parallel size) and the number of experts, or start more ranks. Batch, data and versions are right
""",
    "python-exception": r"""
No module named '?mpi4py && attempting to detect MPI|\bmpi_discovery\b ; the program was started without a launcher, so
 that DeepSpeed looks for MPI: {title} ; start it by deepspeed, torchrun or accelerate launch, which need no MPI (on one
 GPU: deepspeed --num_gpus 1). Only where mpirun starts the ranks: pip install mpi4py in the image of all nodes
KeyError && Unable to load (?P<what>optimizer|rng state) from checkpoint ; the checkpoint has no state of the {what} that
 fits this run, as one that was converted or saved without it: {title} ; --no-load-optim --no-load-rng take the weights
 and step alone, --finetune the weights alone and begins at step 0. To go on exactly, give the optimizer options of the
 run that saved it (--use-distributed-optimizer, precision)
""",
    "rank-variables": r"""
\bmpi(?:run|exec)\b[^\n]{0,300}\bpython && environment variable (?P<what>RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT)
 expected && !\btorchrun\b ; mpirun starts the ranks, and gives them other variables than PyTorch reads: {what} is not
 set ; start by torchrun on each node in its place. Or set them before init_process_group:
 RANK=$OMPI_COMM_WORLD_RANK, WORLD_SIZE=$OMPI_COMM_WORLD_SIZE, LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK (PMI_RANK of
 MPICH), and pass MASTER_ADDR and MASTER_PORT with mpirun -x
""",
}
"""Rows of `clues.sharpen`: words that must all stand in the log."""
