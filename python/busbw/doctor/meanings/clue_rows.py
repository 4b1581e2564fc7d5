"""What `busbw.doctor.clues.sharpen` knows by rows (and says of their form): words beside an error that decide.

A key names the findings that its rows sharpen. Words are looked for in whole logs: a line's begin is ^, and [^\\n]
keeps within a line.
"""

from __future__ import annotations

_WORKS = (
    r"(?![^\n]{0,60}\b(?:not|n't|never|nothing|still|same (?:error|problem|hang)|hangs?|fail\w*)\b)"
    # No comment of a script, and no part of a path or a command's name.
    r"[^\n#]{0,60}?(?<![\w./-])(?:pass(?:es|ed)|work(?:s|ed)|runs|ran|is fine|finish(?:es|ed)|succeed(?:s|ed)|no hang"
    r"|solve[sd]|fixe[sd]|help(?:s|ed)|goes away|gone)(?![\w/-]|\.\w)"
)
"""That something did, behind its name on the same line."""

_SEVERAL = (
    "watchdog-timeout init-incomplete illegal-access stuck-in-collective server-waits ib-completion-error ib-retry "
    "ib-remote-error wrong-results cuda-call-failed cuda-not-supported invalid-argument nccl-error"
)
"""Findings that have several readings, of which a setting that helps shows one."""

_SETTING = r"(?!NCCL_DEBUG|NCCL_ASYNC|TORCH_NCCL_TRACE)(?:NCCL|UCX|FI|NVSHMEM|RCCL|TORCH_NCCL)_[A-Z0-9_]{2,50}"
"""A variable that changes what is done, and not what is said of it."""

_SENSOR = r"(?:Power|Voltage|Temperature|Processor|Memory|Critical Interrupt|Fan)[\w /]{0,30}"
_FAILED = (
    r"[^|\n]{0,30}\b(?:[Ff]ailure|off/down|lost|[Nn]on-recoverable|[Uu]pper [Cc]ritical|IERR|[Tt]rip|[Uu]ncorrectable"
    r"|[Ff]atal|NMI)\b"
)
"""How `ipmitool sel list` names what failed; most of its events are none."""

_TAKEN_BACK = (
    r"Spot (?:Instance|VM) (?:Interruption|Preempt|Evict)|\bSPOT_ITN\b|SpotInterrupt\w{0,12}|spot/instance-action"
    r"|\"EventType\": ?\"Preempt\"|Server\.SpotInstanceTermination|instance-terminated-(?:by-price|no-capacity)"
    r"|\b(?:instance|VM|node)\b[^\n]{0,40}\bwas (?:preempted|reclaimed)\b"
)
"""How clouds and their agents say that a spot machine was taken back."""
_ON_SPOT = (
    "take on-demand or reserved machines for long jobs, or make the job bear it: checkpoints often and at SIGTERM, a "
    "launcher that starts again (JobSet, torchrun --max-restarts, requeue). NCCL and its timeouts need no change"
)

_SIZE = r"\d[\d.]{0,12}[kKMGTP]?"
_FILES_OVER = (
    r"\sfiles\s{1,12}quota\s{1,12}limit && "
    rf"^\s{{0,20}}(?:\S{{1,200}}\s{{1,20}})?{_SIZE}\s{{1,20}}{_SIZE}\s{{1,20}}{_SIZE}\s{{1,20}}(?:\S{{1,20}}\s{{1,20}})?"
    r"(?P<used>\d{1,12})\*\s{1,20}\d{1,12}\s{1,20}(?P<limit>\d{1,12})\b"
)
"""A row of `quota` or `lfs quota` in which not the size but the number of files has a star."""
_SIZE_OVER = (
    r"(?i:quota) && "
    rf"^\s{{0,20}}(?:\S{{1,200}}\s{{1,20}})?(?P<used>{_SIZE})\*\s{{1,20}}{_SIZE}\s{{0,20}} (?P<limit>{_SIZE})\s"
)
_NO_INODES = (
    r"Inodes\s{1,12}IUsed\s{1,12}IFree && "
    r"^\S{1,200}\s{1,20}\d\S{0,12}\s{1,20}(?P<used>\d\S{0,12})\s{1,20}0\s{1,20}100%"
)
"""A row of `df -i`."""
_ONE_EACH = (
    r"(?:\b(?:srun|sbatch|salloc) [^\n]{0,200}|#SBATCH )"
    r"(?P<option>--gpus-per-task[= ]1\b"
    r"|--gpu-bind[= ](?:verbose,)?(?:single:1|per_task:1|map_gpu|mask_gpu|closest)[\w:,.-]{0,30})"
)

CLUE_ROWS = {
    "p2p-broken": r"""
^[^\w\n]{0,8}GPU0[ \t]{1,12}X(?:[ \t]{1,12}G?NS){1,64}[ \t]{0,8}$ && !^[^\w\n]{0,8}GPU\d{1,3}[ \t][^\n]{0,300}\bOK\b ;
 these GPUs have no direct access to each other at all (P2P: nvidia-smi topo -p2p r), and something asks for it ;
 let data go through the host's memory: NCCL_P2P_DISABLE=1, the program's own all-reduce off
 (--disable-custom-all-reduce), a newer NCCL and driver. Nothing is to be mended at IOMMU, ACS or links
""",
    "iommu-fault": r"""
with error 4\b|LOC_PROT_ERR && /GDRDMA\b ; {title}, and GPU Direct RDMA between GPU and NIC fails by it ;
 switch ACS off on all PCIe bridges between GPUs and NICs (setpci ECAP_ACS+6.w=0, or the BIOS) and boot with iommu=pt
 (or intel_iommu=off, amd_iommu=off). Until then NCCL_NET_GDR_LEVEL=LOC, which is slower. NCCL_P2P_DISABLE=1 does
 not help: it is not between GPUs
""",
    "sharp": r"""
SAT tree|[Tt]ree lock|must bind to port with master SM|sharp_am\.service\b[^\n]{0,60}(?:fail|exited) ; {title} ; {fix}
\[(?P<host>[\w.-]{1,80}):\d{1,6}:\d{1,8}[^\n]{0,120}device (?P<dev>[\w.-]{1,30}) port (?P<port>\d{1,2}) is not valid
 \(port is used by SM\) ; SHARP cannot use {dev} port {port} of {host}: the subnet manager runs on that very port, which
 leaves none for the job ;
 run opensm and sharp_am on another host or port, which no job computes on (sminfo names the one that is master). Or
 leave {host} out of the jobs that use SHARP, or take another of its ports (NCCL_IB_HCA=^{dev}). That sharp_am runs, and
 the plugin, is right
port is used by SM ; SHARP cannot use a port: the subnet manager runs on that very port, which leaves none for the job ;
 run opensm and sharp_am on another host or port, which no job computes on (sminfo names the one that is master). Or
 leave that host out of the jobs that use SHARP, or take another of its ports (NCCL_IB_HCA)
device (?P<dev>[\w.-]{1,30}) port (?P<port>\d{1,2}) is not valid \((?P<why>[^)\n]{3,80})\) ; SHARP cannot use {dev} port
 {port}: {why} ;
 mend that port (ibstat {dev}: Active, LinkUp, InfiniBand), or leave it out: NCCL_IB_HCA=^{dev}
[Ss]tatus: No reservation|error: No reservation ; SHARP's manager (sharp_am) gives trees to reservations alone, and
 these nodes are in none ;
 have a reservation made for these nodes (UFM, or sharp_am's REST), or set reservation_mode FALSE in sharp_am.cfg and
 restart it. Until then NCCL_COLLNET_ENABLE=0
[Ss]tatus: Unknown port|error: Unknown port ; SHARP's manager (sharp_am) does not know a port of this job: its switch is
 not part of a SHARP tree, or the NIC is of another fabric ;
 leave that NIC out on all nodes (NCCL_IB_HCA=^mlx5_N, the one of the rank that says it), or have its switch taken into
 the tree (ibdiagnet --sharp, sharp_am's log)
no AM service record|No Aggregation Manager|[Uu]nable to connect to AM|[Ff]ailed to connect to (?:AM\b|Aggregation) ; no
 aggregation manager (sharp_am) is found or reached in this fabric, so that no SHARP job can be made ;
 on the host of the master subnet manager (sminfo): systemctl enable --now sharp_am, and let the nodes reach it (RDMA,
 or its TCP port 6126). Then sharp_hello on a node. Until then NCCL_COLLNET_ENABLE=0
onnect to SH[Aa]rP [Dd]aemon|[Cc]onnect to sharpd|sharpd\b[^\n]{0,30}(?:not running|refused|could not be found) ;
 SHARP's daemon (sharpd) does not run on this node, which older releases need ;
 systemctl enable --now sharpd on all nodes (sharp_daemons_setup.sh of HPC-X), or the HPC-X of the manager's release,
 which needs none
[Ss]tatus: No resource|error: No resource|resource limits? exceeded|Job not found ; the SHARP trees have nothing left
 for this job: other jobs, or communicators of this one, hold it ;
 wait for these jobs, or end what is left of ended ones (sharp_am's log). Use SHARP for fewer communicators and NICs, or
 have the limits of sharp_am.cfg raised. NCCL goes on without it
""",
    "server-waits stuck-in-collective": r"""
NCCL_P2P_LEVEL set by environment to (?P<level>SYS|PHB|PXB|[345])\b ; direct access between GPUs (P2P) is forced by
 NCCL_P2P_LEVEL={level}, and nothing comes through where it does not work (virtual machines, cards without P2P):
 {title} ;
 unset NCCL_P2P_LEVEL; where it still stands still, NCCL_P2P_DISABLE=1 tells. p2pBandwidthLatencyTest shows which pairs
 work. Else: {fix}
""",
    "ib-devices-missing nvshmem-init gpu-permission cuda-ipc cuda-not-supported memlock p2p-broken": rf"""
--privileged\b{_WORKS} ; the container lacks a privilege: with --privileged it works ({{title}}) ;
 start the container with --privileged, or find which part of it is needed: the devices (--device=/dev/infiniband,
 /dev/gdrdrv), --cap-add=IPC_LOCK,SYS_NICE,NET_RAW,SYS_RAWIO,SYS_ADMIN, --security-opt seccomp=unconfined, limits.
 Kubernetes: securityContext. Without it: {{fix}}
""",
    "watchdog-timeout init-incomplete illegal-access stuck-in-collective server-waits p2p-broken": rf"""
NCCL_P2P_DISABLE=1\b{_WORKS} ; transfers from GPU to GPU (P2P) hang or fail here: with NCCL_P2P_DISABLE=1 it
 passes ({{title}}) ;
 look for what breaks P2P on this machine. ACS on PCIe bridges: lspci -vvv | grep ACSCtl, and switch ReqRedir off. The
 IOMMU: iommu=pt, or off in the BIOS. A driver without P2P for these GPUs: nvidia-smi topo -p2p r. A test of CUDA's
 samples (p2pBandwidthLatencyTest) shows the
 pair. Until then NCCL_P2P_DISABLE=1
""",
    "watchdog-timeout init-incomplete ib-completion-error ib-retry": rf"""
NCCL_NVLS_ENABLE=0\b{_WORKS} ; NVLink multicast (NVLS) is what fails: with NCCL_NVLS_ENABLE=0 it passes ({{title}}) ;
 restart the fabric manager (of the driver's version) and reset the GPUs and NVSwitches; update NCCL; until then
 NCCL_NVLS_ENABLE=0
NCCL_IB_DISABLE=1\b{_WORKS} ; the RDMA network is what fails: with NCCL_IB_DISABLE=1 it passes ({{title}}) ;
 ib_write_bw between the two hosts with each NIC; on RoCE show_gids and NCCL_IB_GID_INDEX of its RoCE v2 entry; cables,
 ports and MTU alike on both. {{fix}}
""",
    "connection-timeout connection-refused no-route master-unreachable wrong-interface remote-error": rf"""
(?P<set>(?:NCCL|GLOO)_SOCKET_IFNAME=[\w,^=.-]{{1,40}}){_WORKS} ; NCCL or Gloo took another interface than the one
 between the nodes: with {{set}} it passes ;
 set it on all nodes, in the job's script or /etc/nccl.conf (GLOO_SOCKET_IFNAME alike). Where hosts name it differently,
 give a begin that all share
""",
    _SEVERAL: rf"""
\b(?P<set>{_SETTING}=[\w,^.:-]{{1,40}}){_WORKS} ; with {{set}} it passes: {{title}} ;
 keep {{set}} for now: what it switches off or changes is where the fault lies. {{fix}}
""",
    "disk-full file-system": rf"""
{_FILES_OVER} ; the quota of files is used up ({{used}} of {{limit}} files), whatever room is free ;
 delete many small files or pack them (tar, webdataset shards, one HDF5 file), as `lfs find DIR -type f | wc -l` shows
 where they lie; or have the quota of files raised. Then go on from the last whole checkpoint
{_NO_INODES} ; the file
 system has no file entry (inode) left ({{used}} used), whatever room is free ;
 delete many small files or pack them (tar, webdataset shards); du --inodes -d 2 shows where they lie. Then go on from
 the last whole checkpoint
{_SIZE_OVER} ; the user's quota is used up ({{used}} of {{limit}}), whatever the file system has free ;
 delete old checkpoints and caches of that user (du -sh), write elsewhere (scratch), or have the quota raised. The last
 checkpoint is broken: go on from the one before
Disk quota exceeded|EDQUOT|errno:? 122\b ; the quota of the user or group is used up, whatever the file system has
 free ;
 quota -s, lfs quota -h or mmlsquota shows whose; delete old checkpoints and caches, write elsewhere, or have it raised
""",
    "nvshmem-init ib-devices-missing": r"""
device (?P<dev>\S{1,40}) is not enumerated as an? mlx5 device && no HCA found that IBGDA ; NVSHMEM's IBGDA works with
 mlx5 NICs alone (ConnectX, BlueField), and {dev} is none ;
 take nodes with ConnectX NICs for what needs IBGDA (DeepEP's low-latency kernels, pplx). With these NICs take a backend
 that they have: NCCL, or an expert-parallel library of the vendor. Settings and drivers do not mend it
""",
    "rendezvous-timeout watchdog-timeout xla-error": r"""
initialize clique for rank && (?:Barrier_id: ?Shutdown|[Ss]hutdown barrier) ; not all processes ran this computation:
 the ranks that did wait for the others in `initialize clique`, and those came to their end (shutdown barrier) ;
 start the same program on all processes, so that each calls the same jitted and pmapped functions in the same order.
 The task that the barrier names still waits; look what the others do in its place
""",
    "node-lost": rf"""
compute\.instances\.preempted\b[^\n]{{1,300}}\bDONE\b|{_TAKEN_BACK} ; the cloud took back a spot machine of the job
 (preemption), and the others lost their connections to it ;
 {_ON_SPOT}
(?P<what>{_SENSOR} #0x[0-9a-f]{{1,3}} \| {_FAILED})[^|\n]{{0,30}}\| Asserted ; a node of the job is gone, and the event
 log of its board says: {{what}} ;
 mend that (supplies and feeds of power, cooling, processor, memory) before the node comes back; leave it out until then
 (--exclude, cordon). The whole list (ipmitool sel elist) tells what came before it
""",
    "gpu-memory-error": r"""
Remapping Failure Occurred\s{0,30}: ?Yes|remapped_rows\.failure\W{1,3}(?:Yes|1\b) ; {title}: its spare rows are used
 up (remapping failed) ;
 take the node out and have that GPU replaced: a reset does not mend it
""",
    "driver-mismatch": r"""
unattended-upgrade|apt-daily && ^Upgrade: [^\n]{0,400}nvidia-[^\n]{0,60} \((?P<old>\d[\d.]{2,12})[^\s,]{0,40},
 (?P<new>\d[\d.]{2,12}) ; an automatic upgrade replaced the driver's libraries ({old} by {new}) while the kernel module
 of the old version is still loaded: programs on that host see no GPU ;
 reboot that host, or unload and load the nvidia modules, then start its part of the job again. Keep such packages out
 of automatic upgrades: apt-mark hold, or Package-Blacklist in 50unattended-upgrades
""",
    "gpu-not-visible": rf"""
invalid device ordinal && {_ONE_EACH} ; Slurm shows each task its own GPU alone ({{option}}), as number 0, and ranks
 choose a GPU by their local rank, which is not there ;
 give all tasks the GPUs of their node (--gpus-per-node=N or --gres=gpu:N, and --gpu-bind=none), or take number 0 in
 each task: torch.cuda.set_device(0), local rank modulo torch.cuda.device_count()
""",
    "cuda-ipc": r"""
expandable_segments['"]?\s{0,2}[:=]\s{0,2}['"]?[Tt]rue ; memory of expandable segments cannot be shared with other
 processes by CUDA IPC, as the server's own all-reduce does ;
 unset PYTORCH_CUDA_ALLOC_CONF (PYTORCH_ALLOC_CONF), or set expandable_segments:False. Or switch that all-reduce off:
 --disable-custom-all-reduce
\bsrun [^\n]{0,200}(?P<option>--gpus-per-task(?:[= ]\d{1,3})?|--gpu-bind[= ](?!none)[\w:,.-]{1,30}) ; Slurm shows each
 rank its own GPU alone ({option}), so that ranks cannot open memory of each other's GPUs ;
 give the tasks all GPUs of their node: --gpus-per-node=N (--gres=gpu:N) and --gpu-bind=none, and choose the GPU by
 SLURM_LOCALID. Else NCCL_P2P_DISABLE=1 goes on through shared memory, more slowly
""",
    "worlds-of-one": r"""
\bMpiDefault\s{0,30}= ?none\b && \bsrun (?!--mpi=list) && !\bsrun [^\n]{0,400}--mpi[= ](?!list) ; each task is an
 MPI world of its own (size 1, rank 0): srun was called without --mpi, and Slurm's default here is none ;
 srun --mpi=pmix in the job's script, or MpiDefault=pmix in slurm.conf (it was so where the same script works), with an
 MPI in the image that speaks PMIx. The engine fits, and memory of GPU 0 is full as all tasks load onto it
""",
    "port-in-use": r"""
srun\b[^\n]{0,200}?\s(?:-n|--ntasks(?:-per-node)?)[ =]?(?:[2-9]|\d\d{1,4})\b[^\n]{0,300}
 (?:torchrun|deepspeed|accelerate launch|torch\.distributed\.(?:run|launch)) ; srun starts a launcher for each of its
 tasks, and those of one node want the same port ;
 start one task per node (srun --ntasks-per-node=1 torchrun --nproc-per-node=8), or let srun start the ranks without a
 launcher. Another port does not help: each launcher would start all ranks again, on the same GPUs
""",
}
