"""What `busbw.doctor.clues.sharpen` knows by rows (and says of their form): words beside an error that decide.

A key names the findings that its rows sharpen. Words are looked for in whole logs: a line's begin is ^, and [^\\n]
keeps within a line.
"""

from __future__ import annotations

WORKS = (
    r"(?![^\n]{0,60}\b(?:not|n't|never|nothing|still|same (?:error|problem|hang|crash|result)|hangs?|fail\w*"
    r"|no (?:change|difference|effect|luck|improvement)|unchanged)\b)"
    # "same at 512 KiB" right behind the setting; "same script works" tells of the script.
    r"(?![\s:=`'\")*,>→-]{1,8}(?:(?:it|it's|is|exactly|the|gives|all) ){0,3}same\b"
    r"(?! (?:\w{1,12} ){0,2}(?:env\w*|script|code|command|job|run|test|model|config|binary|setup)\b))"
    # A library's advice: "if either of these helps" tells of no run.
    r"(?![^\n]{0,60}\b[Ii]f (?:(?:either|any|one) of|(?:that|this|it) (?:helps|works|fixes|passes))\b)"
    # No comment of a script, and no part of a path or a command's name; no sentence that begins with another setting.
    r"(?:(?![.;] [`'\"*]{0,3}[A-Z]{2,8}_[A-Z])[^\n#]){0,60}?(?<![\w./-])"
    r"(?:pass(?:es|ed)|work(?:s|ed)|runs|ran|trains|is fine|(?:finish|complet)(?:es|ed)"
    r"|succeed(?:s|ed)|no hang"
    r"|solve[sd]|fixe[sd]|help(?:s|ed)|goes away|gone)(?![\w/-]|\.\w)"
)
"""That something did, behind its name on the same line."""

_SEVERAL = (
    "watchdog-timeout init-incomplete illegal-access stuck-in-collective server-waits stands-still ib-completion-error "
    "ib-retry ib-remote-error wrong-results cuda-call-failed cuda-not-supported invalid-argument nccl-error"
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
    r"(?P<option>--gpus-per-task[= ](?:\w{1,30}:)?1\b"
    r"|--tres-bind[= ]gres/gpu:(?:verbose,)?(?:single:1|per_task:1|map:|mask:)"
    r"|--gpu-bind[= ](?:verbose,)?(?:single:1|per_task:1|map_gpu|mask_gpu|closest)[\w:,.-]{0,30}"
    r"|--accel-bind[= ][a-fh-z]{0,3}g\w{0,3})"
)
_SEES_ONE = (
    # What a rank says of itself in one line: a local rank above 0, and one device.
    r"^(?=[^\n]{0,200}\b(?i:local_?rank)\W{1,3}(?P<local>[1-9]\d?)\b)"
    r"[^\n]{0,200}?(?P<one>\b(?:(?:torch\.cuda\.)?device_count(?:\(\))?|(?:num|n|visible|available)_?(?:gpus|devices))\W{1,3}1\b"
    r"|\bCUDA_VISIBLE_DEVICES\W{1,3}\d{1,2}\b(?!,\d))"
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
--privileged\b{WORKS} ; the container lacks a privilege: with --privileged it works ({{title}}) ;
 start the container with --privileged, or find which part of it is needed: the devices (--device=/dev/infiniband,
 /dev/gdrdrv), --cap-add=IPC_LOCK,SYS_NICE,NET_RAW,SYS_RAWIO,SYS_ADMIN, --security-opt seccomp=unconfined, limits.
 Kubernetes: securityContext. Without it: {{fix}}
""",
    "watchdog-timeout init-incomplete illegal-access stuck-in-collective server-waits p2p-broken stands-still": rf"""
NCCL_P2P_DISABLE=1\b{WORKS} && (?P<set>\b(?:intel|amd)_iommu=on\b)(?![^\n]{{0,400}}iommu=pt) ; transfers from GPU to
 GPU (P2P) hang or fail here, and the kernel was started with {{set}}: the IOMMU or ACS redirects them ;
 boot with iommu=pt, or without {{set}} (or switch VT-d, AMD-Vi and ACS off in the BIOS); lspci -vvv | grep ACSCtl
 shows bridges that still redirect (ReqRedir+). Until then NCCL_P2P_DISABLE=1
NCCL_P2P_DISABLE=1\b{WORKS} ; transfers from GPU to GPU (P2P) hang or fail here: with NCCL_P2P_DISABLE=1 it
 passes ({{title}}) ;
 look for what breaks P2P on this machine. ACS on PCIe bridges: lspci -vvv | grep ACSCtl, and switch ReqRedir off. The
 IOMMU: iommu=pt, or off in the BIOS. A driver without P2P for these GPUs: nvidia-smi topo -p2p r. A test of CUDA's
 samples (p2pBandwidthLatencyTest) shows the
 pair. Until then NCCL_P2P_DISABLE=1
""",
    "watchdog-timeout init-incomplete stuck-in-collective stands-still ib-completion-error ib-retry": rf"""
NCCL_NVLS_ENABLE=0\b{WORKS} ; NVLink multicast (NVLS) is what fails: with NCCL_NVLS_ENABLE=0 it passes ({{title}}) ;
 restart the fabric manager (of the driver's version) and reset the GPUs and NVSwitches; update NCCL; until then
 NCCL_NVLS_ENABLE=0
NCCL_IB_DISABLE=1\b{WORKS} ; the RDMA network is what fails: with NCCL_IB_DISABLE=1 it passes ({{title}}) ;
 ib_write_bw between the two hosts with each NIC; on RoCE show_gids and NCCL_IB_GID_INDEX of its RoCE v2 entry; cables,
 ports and MTU alike on both. {{fix}}
""",
    "connection-timeout connection-refused no-route master-unreachable wrong-interface remote-error": rf"""
(?P<set>(?:NCCL|GLOO)_SOCKET_IFNAME=[\w,^=.-]{{1,40}}){WORKS} ; NCCL or Gloo took another interface than the one
 between the nodes: with {{set}} it passes ;
 set it on all nodes, in the job's script or /etc/nccl.conf (GLOO_SOCKET_IFNAME alike). Where hosts name it differently,
 give a begin that all share
""",
    _SEVERAL: rf"""
\b(?P<set>{_SETTING}=[\w,^.:-]{{1,40}}){WORKS} ; with {{set}} it passes: {{title}} ;
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
    "nvls-multicast": r"""
Stopp(?:ing|ed)[^\n]{0,40} (?:NVIDIA )?[Ff]abric ?[Mm]anager(?:[^\n]{0,200}\n){1,400}?[^\n]{0,80}Start(?:ing|ed)
 [^\n]{0,40}[Ff]abric ?[Mm]anager ; the fabric manager was stopped and started again while the GPUs stayed up, and they
 were not reset: NVLink multicast (NVLS) cannot be set up ;
 end all programs on the GPUs and reset GPUs and NVSwitches together (nvidia-smi -r), or reboot the node; until then
 NCCL_NVLS_ENABLE=0. Restart the fabric manager only with such a reset
nvidia-fabricmanager(?:[^\n]{0,200}\n){1,6}?[^\n]{0,40}Active: active[^\n]{0,80}; (?P<age>[\w ]{1,20}(?:s|min|h)) ago &&
 \bup (?P<up>\d{1,4} days?) ; the fabric manager was started {age} ago on a host that is up for {up}: the GPUs were not
 reset after it, and NVLink multicast (NVLS) cannot be set up ;
 end all programs on the GPUs and reset GPUs and NVSwitches together (nvidia-smi -r), or reboot the node; until then
 NCCL_NVLS_ENABLE=0. Restart the fabric manager only with such a reset
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
    "crash-in-library": r"""
(?:^\W{0,12}\d{1,2} 0x[0-9a-f]{4,16} |\bin |\()(?P<call>ras(?:Thread|Msg|Sock|Client|Coll|Net|Link|Local)\w{2,40})\b
 && libnccl\.so ; NCCL's RAS thread crashed ({call}), and not a collective: a fault of this release of NCCL ;
 set NCCL_RAS_ENABLE=0 on all ranks, and take a newer patch release of NCCL. NVLS, network and GPUs are not at fault,
 and other ranks only lose that rank
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
invalid device ordinal && {_ONE_EACH} && {_SEES_ONE} ; Slurm shows each task its own GPU alone ({{option}}), as number
 0, and ranks choose a GPU by their local rank, which is not there (local rank {{local}}: {{one}}) ;
 leave {{option}} out, so that each task sees all GPUs of its node (--gpus-per-node=N or --gres=gpu:N, and
 --gpu-bind=none). Or take number 0 in each task: torch.cuda.set_device(0), local rank modulo
 torch.cuda.device_count(). GPUs and ranks are as many as they should be
invalid device ordinal && {_ONE_EACH} ; Slurm shows each task its own GPU alone ({{option}}), as number 0, and ranks
 choose a GPU by their local rank, which is not there ;
 give all tasks the GPUs of their node (--gpus-per-node=N or --gres=gpu:N, and --gpu-bind=none), or take number 0 in
 each task: torch.cuda.set_device(0), local rank modulo torch.cuda.device_count()
invalid device ordinal && {_SEES_ONE} ; each process sees one GPU alone, as number 0, and chooses a GPU by its local
 rank, which is not there (local rank {{local}}: {{one}}) ;
 what starts the ranks gives each its own GPU (CUDA_VISIBLE_DEVICES, --gpus-per-task, --accel-bind, a device per
 container): take number 0 in each, local rank modulo torch.cuda.device_count(). Or let all of them see all GPUs of the
 node and keep the local rank
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
    "collective-mismatch collective-order": r"""
(?P<what>_save_intra_epoch_ckpt|save_checkpoint|_maybe_save\w{0,30}|save_ckpt|_save_\w{0,20}checkpoint)\b &&
 (?P<option>\b\w{0,30}(?:interval_(?:minutes|seconds|hours|secs|mins)|every_n_(?:minutes|seconds)|train_time_interval)\b)
 ; one rank saves a checkpoint by its own clock ({option}), and another one goes on with its steps: {title} ;
 save after a number of steps, which is the same on all ranks, and not by time (ckpt_interval_minutes=-1 and the like).
 Or let rank 0 decide and broadcast that in each step. A newer release of the library may do so
""",
    "undefined-symbol": r"""
symbol:? (?P<name>p?nccl\w{3,60}) && LD_LIBRARY_PATH=["']?(?P<folder>/[^:"'\s]{2,120}) &&
 libnccl\.so(?:\.2)? -> \S{0,80}libnccl\.so\.(?P<has>2\.\d{1,3}\.\d{1,3}) &&
 ^nvidia-nccl-cu\d{2}\s{1,40}(?P<wants>2\.\d{1,3}\.\d{1,3}) ; the NCCL that is loaded ({has}, by
 LD_LIBRARY_PATH with {folder} first) is too old: PyTorch was installed with {wants}, and {name} is missing ;
 unset LD_LIBRARY_PATH, or leave the folder with libnccl.so.{has} out of it: PyTorch then takes the one of its own
 package. Else install a newer NCCL there
""",
    "vm-topology": r"""
Attribute \w{2,20} of node cpu not found && NCCL_TOPO_FILE (?:environment variable )?(?:set by environment )?to
 (?P<file>/\S{2,160}) ; the topology file that is set ({file}) tells nothing of a processor on which GPUs of this job
 lie, as where a pod has only some of an instance's GPUs ;
 unset NCCL_TOPO_FILE where you set it. Where the plugin sets it (aws-ofi-nccl on p5), take a newer plugin, which does
 without such a file, or give the job all GPUs of the instance
""",
    "efa-missing": r"""
^\s{2,12}Limits:\s*\n(?:\s{4,20}(?!vpc)[\w./-]{2,60}:\s{1,20}\S{1,20}\n){0,8}?\s{4,20}nvidia\.com/gpu: &&
 !vpc\.amazonaws\.com/efa:\s{1,20}\d ; the pod does not ask for EFA devices (its limits lack vpc.amazonaws.com/efa), so
 that libfabric finds none in it and NCCL talks over TCP ;
 add vpc.amazonaws.com/efa: N to the pod's limits and requests, N as kubectl describe node shows (Allocatable), and run
 EFA's device plugin on the nodes. Then NCCL says "NET/OFI Selected provider is efa"
""",
    "slurm-resources": r"""
count reported lower than configured|Count changed on node && \bGres=gpu:(?P<asked>\d{1,2}g\.\d{1,3}gb):\d &&
 ^\s{1,4}MIG (?P<have>\d{1,2}g\.\d{1,3}gb)\s{1,8}Device ; Slurm's configuration asks for parts of GPUs that the node
 does not have: it is cut into {have} (MIG), and Gres says {asked} ;
 cut the GPUs as Gres says (nvidia-smi mig -dci, -dgi, -cgi), or write what nvidia-smi -L lists into Gres (slurm.conf,
 gres.conf with AutoDetect=nvml). Then scontrol reconfigure and scontrol update nodename=NODE state=resume
""",
    "container-start": r"""
registry-1\.docker\.io/v2/(?P<registry>[\w-]{1,40}(?:\.[\w-]{1,40}){1,5})/\S{1,160} ; enroot asked Docker Hub for the
 image, as the reference has no # behind the registry's name ({registry}) ;
 write REGISTRY#IMAGE:TAG: --container-image={registry}#TEAM/IMAGE:TAG. The login in
 ~/.config/enroot/.credentials is used for that registry then
(?P<conf>/var/lib/rancher/(?:rke2|k3s)/agent/etc/containerd|/var/snap/microk8s/current/args) &&
 /etc/containerd/config\.toml ; containerd of this node reads {conf}, and the container toolkit wrote its runtime to
 /etc/containerd ;
 give the GPU operator's toolkit the file and socket of this distribution: CONTAINERD_CONFIG={conf}/config.toml.tmpl
 (RKE2, K3s; containerd-template.toml of MicroK8s) and CONTAINERD_SOCKET=/run/k3s/containerd/containerd.sock, then
 restart its agent
""",
    "mpi-launch": r"""
HYDU_sock_connect|unable to connect to server (?P<what>[\w.-]{2,60}) && \(No route to host\)|\(tcp\) failed: No
 route && succeeded!|bytes from|rtt min/avg ; a firewall on mpiexec's host rejects its port: that host answers
 otherwise ({title}) ;
 systemctl stop firewalld there, or trust the nodes' network (firewall-cmd --zone=trusted --add-interface=ib0, or
 --add-source=NET), on all nodes alike. Or limit the ports (I_MPI_PORT_RANGE, MPIEXEC_PORT_RANGE=50000:50100) and open
 these
""",
    "collective-mismatch": r"""
self\.meta\.sync\(|_sync_ddp|result\.py && \.log_dict\([^\n]{0,200}sync_dist=True ; ranks log different names with
 sync_dist: a rank whose log_dict has a name more calls one more collective ({title}) ;
 log the same names on all ranks in each step, with a value for those that the batch lacks. Or sync_dist=False and
 torchmetrics, which reduce at the epoch's end
""",
    "python-exception unknown-error": r"""
FileNotFoundError: \[Errno 2\] No such file or directory:
 '(?P<from>(?![^'\n]{0,200}(?:inductor|triton))[^'\n]{1,200})' -> '[^'\n]{1,200}' ; several ranks write the same file
 and rename it: after the first one {from} is gone for the others ({title}) ; let rank 0 alone write and rename it,
 with a barrier after, or give each rank a name of its own (last.rank3.pt.tmp); torch.distributed.checkpoint writes the
 parts of all ranks
""",
    "illegal-access": r"""
fused_moe\.py|moe_align_block_size && max[-_]num[-_]batched[-_]tokens['"]?[ =:]{1,2}(?P<n>[4-9]\d{4}|\d{6,8})\b ;
 {title}; it is of fused experts (MoE), and the server takes up to {n} tokens in a batch ;
 lower --max-num-batched-tokens (8192 or 16384) or use chunked prefill, and take a newer release of the server: its
 kernels for experts had limits of size. Then: {fix}
\bloss\W{1,3}nan\b && (?:unspecified launch failure|cudaErrorLaunchFailure) ; a loss became NaN before the kernel
 failed, which then was a check for NaN (TORCH_NCCL_NAN_CHECK) or indices made of NaN: {title} ;
 look at the batch of the rank whose loss is nan first: an empty batch, a mean over nothing, a division by 0, overflow.
 Skip or mend it on all ranks alike. CUDA_LAUNCH_BLOCKING=1 shows the kernel
(?P<what>\b[A-Za-z_]\w{0,30} ?= ?\(nil\)|\b[A-Za-z_]\w{0,30} ?[=:] ?0x0{1,16}\b) ; a kernel got a null pointer
 ({what}), and accessed it ;
 allocate that buffer on that device before the kernel (check what cudaMalloc returns, and for which device it was
 called). compute-sanitizer names the kernel; NCCL only reports the error later
""",
    "ray-error": r"""
This node has an IP address of (?P<own>[\w.:]{3,60}?),? and Ray expects.{0,200}found raylets at (?P<known>[^\n]{3,100}?)
 but none ; this node's address for Ray is {own}, and its cluster knows the nodes as {known} ;
 ray stop, then ray start --node-ip-address=IP with the node's address in the network of the others (--address=HEAD:6379
 of it too); ray.init(_node_ip_address=IP) in a driver. A node that is in no list has not joined at all
""",
    "duplicate-gpu": r"""
\bdask[- ]worker\b|distributed\.(?:nanny|worker)\b|xgboost\.dask|(?<!CUDA)\bLocalCluster\( &&
 !dask[- ]cuda|LocalCUDACluster ; {title}: plain workers of Dask do not take a GPU each, so that all use the first one ;
 start the workers by dask-cuda: `dask cuda worker SCHEDULER:8786` (dask-cuda-worker) on each node, or
 dask_cuda.LocalCUDACluster(), which set CUDA_VISIBLE_DEVICES for each. By hand: one dask worker --nworkers 1 per GPU,
 each with its own CUDA_VISIBLE_DEVICES
spark\.(?:task|executor|rapids|scheduler|barrier)|org\.apache\.spark|SparkXGB|xgboost\.spark ; {title}: Spark gave
 tasks no GPU of their own ;
 spark.executor.resource.gpu.amount=1, spark.task.resource.gpu.amount=1 with a discovery script, and num_workers of
 XGBoost no more than GPUs; in standalone mode one executor per GPU (spark.executor.cores = spark.task.cpus)
""",
    "remote-error": r"""
curl: \((?:52|56)\)[^\n]{0,60}(?:reset by peer|[Ee]mpty reply) && \bdocker run [^\n]{0,300}(?:-p|--publish)[ =]\d &&
 (?:[Rr]unning on|[Ll]istening on|--host[ =]) ?(?:http://)?(?:127\.0\.0\.1|localhost) ; the server in the container
 listens on 127.0.0.1 alone, so that the port which Docker publishes leads to nobody ;
 start the server with --host 0.0.0.0 inside the container, or the container with --network=host
""",
    "connection-refused": r"""
TF_CONFIG[^\n]{0,300}["'](?:localhost|127\.0\.0\.1):\d{2,5}["'][^\n]{0,120}["'](?!localhost|127\.)[\w.-]{3,60}:\d{2,5}
 ; TF_CONFIG names one of several hosts localhost, which is another host for each task that reads it ;
 write each worker's address in the network between the hosts, and the same list on all of them; tasks differ in
 task.index alone. Each must listen on its port
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
