"""Rows of particulars and of clues (as `particulars` and `clue_rows` have them) for findings in PyTorch's own words."""

from __future__ import annotations

TORCH_ROWS = {
    "illegal-access": r"""
launch timed out and was terminated ; a kernel ran longer than this GPU lets one run: it drives a display (or Windows
 runs it), and such GPUs end long kernels ; take a GPU without a display for it, or stop the desktop on that host
 (systemctl isolate multi-user.target; Windows: TdrDelay). Or split the work into shorter kernels: smaller batches and
 parts. nvidia-smi -q -d DISPLAY shows which GPU has one
""",
    "gpu-not-visible": r"""
deserialize object on CUDA device (?P<dev>\d{1,3}).{0,120}device_count\(\) is (?P<n>\d{1,3}) ; a checkpoint was saved
 from GPU {dev}, and is loaded where {n} are visible: torch.load puts tensors back where they were ; torch.load(path,
 map_location="cpu") or the rank's own GPU, then load_state_dict. The number of GPUs need not be changed
deserialize object on a CUDA device but ; a checkpoint was saved from a GPU, and this process sees none ;
 torch.load(path, map_location="cpu") where it is to run without GPUs. Else mend that the GPU is not seen: nvidia-smi
 in the same container and step, CUDA_VISIBLE_DEVICES, a build of PyTorch with CUDA (torch.version.cuda)
device_id (?P<dev>\S{1,20}) is out of range.{0,200}available: (?P<n>\d{1,3}) ; a rank chooses {dev}, and sees {n}
 GPUs: more ranks run on its node than GPUs are visible, or it chose by the global rank ; start no more ranks per node
 than GPUs are visible (--nproc-per-node, nvidia-smi -L there), and choose by LOCAL_RANK. Where the launcher shows each
 rank one GPU (CUDA_VISIBLE_DEVICES), take number 0
device >= 0 && device < num_gpus.{0,200}device=(?P<dev>\d{1,3}), num_gpus=(?P<n>\d{1,3}) ; a rank chooses GPU {dev},
 and PyTorch counts {n}: fewer are visible, or CUDA_VISIBLE_DEVICES was set after PyTorch had counted ; set
 CUDA_VISIBLE_DEVICES before Python starts, or at least before torch is imported, and nowhere later in the program.
 Choose the GPU by LOCAL_RANK; nvidia-smi -L in that step shows how many there are
""",
    "library-not-found": r"""
Distributed package doesn't have NCCL ; this PyTorch was built without NCCL: a build for CPUs, or for Windows or macOS
 ; python -c "import torch; print(torch.__version__, torch.version.cuda)": where that says cpu or None, install the
 build with CUDA (index URL of pytorch.org, cu12x). On Windows and macOS there is no NCCL: backend="gloo", or WSL 2
""",
    "gpu-memory-full": r"""
allocate more than 1EB ; no memory is short: the size that was asked for is nonsense, as of numbers that overflow or
 of bytes that were none of a size ; print the shapes at the last frame of your own code on that rank. Where a
 collective of objects calls it (all_gather_object), ranks call it in different order, or before
 torch.cuda.set_device(LOCAL_RANK)
""",
    "process-crashed": r"""
DataLoader worker.{0,60}killed by signal: (?P<how>Aborted|Segmentation fault|Illegal instruction|Floating point
 exception) ; a worker of the data loader crashed ({how}): a library in it (a decoder, OpenCV, HDF5, a tokenizer)
 failed, and memory is not short ; num_workers=0 with python -X faulthandler shows where. Libraries with threads of
 their own do not bear fork: multiprocessing_context="spawn" or "forkserver", cv2.setNumThreads(0), files opened in the
 worker. Look for the sample by its index; install one release of that library
\(exitcode: -4\)|exitcode *: -4\b|Signal 4 \(SIGILL\)|signal SIGILL ; a rank's process met an instruction that this
 node's processor does not have (SIGILL): a library was built for another processor ; compare lscpu (avx512, amx) of
 this node with that of the build or of a node where it runs. Rebuild there, or without -march=native (extensions, CPU
 Adam, NumPy from source); keep jobs on nodes of one kind
""",
    "master-unreachable": r"""
port: (?P<port>\d{1,5}), .{0,40}name: EACCES ; rank 0 may not listen on port {port}: ports below 1024 belong to root ;
 take a port above 1024: MASTER_PORT=29500 or --master-port, free on that host. See where the number comes from (echo
 $MASTER_PORT): start scripts may take it from a service
name: EADDRNOTAVAIL ; rank 0 is to listen on an address that its host does not have: MASTER_ADDR is not this host ;
 set MASTER_ADDR to an address of the host where rank 0 runs (hostname -I there), or start rank 0 on that host
Ping failed, invalid value ; something else answers at MASTER_ADDR:MASTER_PORT than the store of this job: another
 service has that port, or the store is of another PyTorch ; ss -ltnp on that host shows who listens there. Take a free
 port that only this job uses (MASTER_PORT, --rdzv-endpoint), on the host of rank 0, and one release of PyTorch on all
 nodes
""",
    "no-flock": r"""
Error: flock\(\d ; PyTorch's store in a file (init_method="file://...") lies on a file system that does not lock files
 ; leave the file out: init_method="env://" with MASTER_ADDR and MASTER_PORT (torchrun sets them). Or put it where
 locks work (NFS with locks, Lustre with -o flock), on a path that all ranks see, and remove it before each start
""",
    "rendezvous-timeout": r"""
terminal_state|Error waiting on exit barrier ; the ranks of this node ended well, and the other nodes did not end
 within the time that torchrun waits for them (exit barrier, 300 s) ; look at the other nodes: they still work (uneven
 data, an evaluation or save there), or failed. Where all work was done nothing is lost. Let all ranks meet at the end
 (dist.barrier() before destroy_process_group())
missing_ranks=\[?(?P<ranks>[\d, ]{1,80}) ; a node waits at a barrier of torchrun for ranks that do not come: {ranks} ;
 look at the logs of these nodes (numbers of launchers): not started, ended early, or without a way to the store
keys: /(?P<key>(?!default_pg/\d{1,6}//\w{3,4}//\d{1,6}(?![/\d]))[\w/]{0,60}//(?:cuda|cpu|xpu|hpu|npu)//[\w/]{1,40}) ;
 a rank waits in the store for another rank of its process group, which did not come to the same place (key {key}) ;
 look at the call in that rank's traceback: dist.new_group(), or the group's first collective. All ranks must call
 new_group, also those that are no members, in the same order; members alone the collectives of the group. Where no
 call is left out, the first rank of the group (rank 0) never wrote it: see its first error, and whether it still
 starts
store_based_barrier_key:1 \(world_size=(?P<size>\d{1,7}), worker_count=(?P<n>\d{1,7}), ; only {n} of {size} processes
 came to rank 0's store in its time: the others were not started, ended early, or look for it elsewhere ; start all
 nodes with one MASTER_ADDR (the first node's address in the network between them, not localhost) and an open
 MASTER_PORT. Each has its own node rank (0, 1, ...). Try from the others: nc -zv MASTER_ADDR MASTER_PORT. Their own
 logs may have a first error. A longer time does not bring them
""",
    "bad-arguments": r"""
rank is absent in Rendezvous ; torchrun misses --node-rank, which a fixed rendezvous over several nodes needs ;
 torchrun --nnodes=N --node-rank=K (0 on the first node, another on each) --master-addr=FIRST --master-port=29500. Or
 let nodes get their numbers: --rdzv-backend=c10d --rdzv-endpoint=FIRST:29400 --rdzv-id=NAME
is absent in (?:Rendezvous|endpoint) ; torchrun misses the address or port of the first node ; torchrun --nnodes=N
 --node-rank=K --master-addr=FIRST --master-port=29500, the same address and port on all nodes
""",
    "remote-error": r"""
originated at tensorpipe ; a process of PyTorch's RPC lost the one that it talked to: that one ended first ; look at
 the log of the process that did not answer, for its first error. At the end let all call rpc.shutdown() (graceful),
 which waits for the others; a process that returns before takes its objects (RRefs) with it
""",
    "host-memory": r"""
unable to mmap \d{1,20} bytes from file ; a process can map no further piece of shared memory: it has as many mappings
 as it may (vm.max_map_count), or the host or job has no memory ; look at free -g, and at the limits of job and pod.
 Where memory is there: sysctl vm.max_map_count=1048576. Send fewer and larger tensors between processes (one array in
 place of a list of tensors), with fewer workers
""",
}

TORCH_CLUES = {
    "gpu-memory-full": r"""
allocate more than 1EB && in (?P<call>(?:all_gather|broadcast|gather|scatter)_object\w{0,12}) ; no memory is short:
 {call} took other bytes for the size of what comes, as ranks do not do the same call ; let all ranks call the same
 object collectives in the same order and group. Give each rank its GPU before: torch.cuda.set_device(LOCAL_RANK), as
 sizes travel on the current device
""",
    "watchdog-timeout": r"""
\[rank(?P<rank>\d{1,7})\]:[^\n]{0,120}hit config\.(?:recompile|cache_size)_limit && last
 reason:[^\n]{0,40}(?P<why>tensor [^\n]{3,60}mismatch[^\n]{0,60}) ; rank {rank} compiles its model again and again, as
 shapes change ({why}), and the others wait in a collective ({title}) ; compile before the collectives matter:
 mark_dynamic or torch.compile(dynamic=True), pad to few lengths, the same on all ranks; raise
 torch._dynamo.config.recompile_limit. TORCH_LOGS=recompiles shows each reason. Until then TORCH_COMPILE_DISABLE=1, or
 a longer init_process_group(timeout=)
dump signal due to a collective timeout\s+from\s+rank (?P<rank>\d{1,7}) && !Watchdog caught collective operation
 timeout ; a collective exceeded its time on rank {rank} first, which told this rank; here it is only heard of ; read
 rank {rank}'s log: it names the collective and its number, in which it waited. Who never came to that number is at
 fault: compare the last numbers of all ranks, or their dumps (TORCH_NCCL_DUMP_ON_TIMEOUT=1, torchfrtrace). There look
 for a crash, uneven batches, or work on one rank alone
device used by this process is currently unknown|Guessing device ID && SeqNum=1, OpType=(?:ALLREDUCE|BARRIER),
 NumelIn=1, ; {title}. It is the first barrier, for which ranks had to guess their GPU ; tell each rank its GPU before:
 torch.cuda.set_device(LOCAL_RANK), and init_process_group(device_id=torch.device("cuda", LOCAL_RANK)). A guess that
 two ranks share, or that is not the GPU used later, hangs so. Where the guess was right: {fix}
""",
    "remote-error": r"""
originated at tensorpipe && RPC agent for \S{1,80} encountered error when reading incoming response from
 (?P<peer>[\w.-]{1,80}): ; {peer} did not answer a call of PyTorch's RPC: its process ended first ; look at the log of
 {peer} for its first error. At the end let all call rpc.shutdown() (graceful), which waits for the others; a process
 that returns before takes its objects (RRefs) with it
""",
}
