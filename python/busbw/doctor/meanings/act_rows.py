"""What programs were doing when they failed, in the words that their sources share, and what mends each."""

from __future__ import annotations

SLURM = r"""
plugin_context_create|plugin_load|(?:initiali[sz]e|create|load|init|find|dlopen|dlsym).{0,60}\bplugin|plugin.{0,40}\
(?:not found|not supported|fail|invalid|mismatch|version) ; one of Slurm's plugins cannot be loaded or started ; \
install the plugin that is named for this release of Slurm on all nodes (PluginDir, ldd on it), or correct the \
option of slurm.conf that names it; then restart slurmctld and slurmd
TaskProlog|TaskEpilog|\b[Pp]rolog|\b[Ee]pilog|SPANK|spank|job_?container ; a script or plugin that runs before or \
after the job failed on the node ; run the script by hand on that node as the same user and look at its exit code; \
srun --task-prolog= leaves it out; slurmd's log of that node tells more
cgroup|devices? controller|cpuset|freezer|memory controller|dbus|systemd|BPF|ebpf ; Slurm cannot use cgroups on that \
node ; cgroup.conf and the kernel must use the same version (v1 or v2): CgroupPlugin=autodetect, dbus and systemd \
running on the node, Delegate=yes in slurmd.service; restart slurmd
munge|credential|\bcred\b|\bauth\b|auth(?:entication|_)|token|jwks?|OAUTH|Security violation|signature ; Slurm's \
authentication failed ; the same munge.key on all nodes, munged running, clocks in step (chronyc tracking); restart \
slurmd
\bgres\b|gres/|\bGPUs?\b(?![-\d\[])|(?:\b|_)gpus?\b(?![-\d\[])|nvml|AutoDetect|MIG\b|shard|SHARING|\bMPS\b|\
Links|Cores? spec ; Slurm's list of GPUs does not fit the node ; compare nvidia-smi -L and slurmd -G with gres.conf \
(File=, Cores=, AutoDetect=nvml) and slurm.conf (Gres=, GresTypes=); restart slurmd, then resume the node
\bpmix?\d?\b|PMIx|pmi2|tree_|\bkvs\b|mpi/ ; what starts MPI's processes under Slurm (PMI) failed ; srun --mpi=list, \
and take the kind that this MPI was built for (pmix, pmi2); the same PMIx library on all nodes; \
SLURM_PMIX_DIRECT_CONN=false where nodes cannot reach each other by names
slurmdbd|accounting|dbd|database|wckey|association|mysql|jobacct|acct_gather ; Slurm's accounting is not reached or \
refuses the job ; systemctl status slurmdbd on its host, its port (6819), and sacctmgr show assoc user=USER
\bswitch|VNI|\bcxi|hsn|hugepage|IMEX|nvidia_imex|imex ; Slurm could not give the job its part of the fabric ; look \
at SwitchParameters in slurm.conf and at the fabric's daemon on the node (cxi, nvidia-imex); restart slurmd
(?:state|trigger|job|node|checkpoint)\w* (?:save )?file|StateSaveLocation|spool|heartbeat file|backup controller ; \
Slurm's controller cannot read or write its state ; free space and rights of StateSaveLocation and SlurmdSpoolDir \
(df -h, owner SlurmUser)
slurm\.conf|\.conf\b|[Cc]onfig|parse|parsing|unrecognized|invalid (?:option|argument|value|specification|format)|not \
(?:a )?valid|Bad value|[Uu]nknown (?:option|argument|parameter|key)|\boption|must be|--\w ; an option of the command \
or of Slurm's configuration is refused ; correct the option that is named (srun --help, scontrol show config); \
options of sbatch are given to srun too, through SLURM_ variables: env | grep SLURM_
thread per core|sockets?.{0,20}cores?|\bCPUs?\b|cpu.?bind|mem.?bind|numa|affinity|distribution|\bcores\b ; what is \
asked of processors does not fit the node ; ask for --cpus-per-task and --ntasks-per-node that fit lscpu, \
--cpu-bind=none to be sure; compare slurmd -C with slurm.conf
connect|socket|slurm_msg|_recv|_send|\bsend\b|receiv|RPC|response|unpack|\bmsg\b|message|CONN|timed? ?out|\
communicat|route|address|resolve|gethost|getaddrinfo|Protocol|protocol|\bport\b ; Slurm's programs do not reach or \
understand each other ; scontrol ping; ports 6817 and 6818 and srun's (SrunPortRange) open between login and compute \
nodes; names of all nodes resolve the same everywhere; one release of Slurm
uid|gid|setgroups|setuid|getpw|user\b|group\b|permission|chown|root ; the user or its rights are not as Slurm needs \
them on that node ; id USER on the node and on the controller must agree (LDAP, sssd); restart slurmd after a change
\b(?:open|opendir|mkdir|chdir|read|write|unlink|stat|mount|rmdir|fopen|access)\b|directory|\bfile\b|stderr|stdout|\
\bpipe|std(?:in|out|err) ; a file or folder of the job cannot be used on that node ; the folder of --output, --chdir \
and of the program must exist on all nodes with rights of the user; df -h and mount on the node
fork|clone|pthread|thread|malloc|memory|exec|signal|ptrace|shepherd ; a process of the job could not be started or \
watched on that node ; look at ulimit -u, pids.max and free memory of the node and at slurmd's log there
step|JobId|job |node|partition|reservation|allocation|\bNode\b ; the step or its nodes are not as the controller \
knows them ; scontrol show job and scontrol show node of what is named; leave that node out (--exclude), restart \
slurmd there
"""
NETWORK = r"""
MPIDI_OFI|ofi_init|OFI [\w ]{3,30}failed|create_vni_context ; MPICH's network (libfabric) could not be opened on that \
host ; fi_info on each host must list the provider; name it and the network: FI_PROVIDER=tcp (verbs;ofi_rxm, psm3), \
FI_TCP_IFACE; FI_LOG_LEVEL=warn tells why it refused; one libfabric and MPI on all hosts
power of (?:2|two)|\bmust (?:be (?:\d|a|an|in|of|set|at|less|greater|positive|between|one|smaller|larger|>|<)|not \
exceed)|\
out of range|too (?:big|large|long|small|short|low|high)\b|greater than (?:the )?max|exceeds? the (?:max|limit)|\
[Ii]nvalid (?:value|alignment|environment|configuration|config|setting)|environment variable|parsing (?:error|param|\
value|env)|[Uu]nrecogni[sz]ed|malformed ; a setting or size is refused ; correct or unset the variable that the \
sentence speaks of (env | grep -E 'NCCL_|UCX_|UCC_|FI_|OMPI_|NVSHMEM_'), the same on all ranks; names and limits \
differ between releases
[Aa]llocat\w* (?:\d+|0x\w+) ?(?:B\b|bytes|zeroed)|\b[Aa]lloc\w* .{0,40}\b(?:bytes|array|table|list|log|struct\w*|\
req\w*|buff\w*|[rt]x_\w+|descriptors?|config\w*|names?|stats|elements?|entr\w+|info)\b|malloc|calloc|strdup|ENOMEM ; \
memory of the host ran out \
; free memory of the host (free -g, the container's and Slurm's limit, dmesg for the OOM killer), ulimit -v; fewer \
ranks or transfers on a node
\bVNIs?\b|SLINGSHOT_|\bLNI\b|auth_key|svc_id|\bcxi service ; the job has no right to the NIC of the fabric (VNI, \
service) ; start it by the scheduler's own launcher with the fabric's plugin (SwitchType=switch/hpe_slingshot, srun \
--network=...), pass SLINGSHOT_VNIS and /dev/cxi* into the container, or FI_CXI_DEFAULT_VNI; one process fewer on a \
node tells whether its NIC is full
[Ff]ork\b|fork_init ; the process forks while it uses RDMA ; RDMAV_FORK_SAFE=1 and FI_EFA_FORK_SAFE=1 (or a kernel \
from 5.12 on), data loaders by spawn instead of fork
\b[Nn][Vv][Ll][Ss]\b|[Mm]ulti-?cast|\bmcast|mcg|MCAST ; multicast could not be set up (NVLS between GPUs, or groups \
of InfiniBand) ; between GPUs: nvidia-fabricmanager up, IMEX over hosts, NCCL_NVLS_ENABLE=0 or NVSHMEM_DISABLE_NVLS=1 \
until then; on InfiniBand: the subnet manager's multicast, or leave it out (UCC_TL_MLX5_TLS, HCOLL_ENABLE_MCAST_ALL=0)
GDR ?Copy|\bgdr_|gdrcopy ; GDRCopy does not work ; load gdrdrv of the library's release (modprobe gdrdrv, \
/dev/gdrdrv in the container), or switch it off (UCX_TLS=^gdr_copy, FI_HMEM_CUDA_USE_GDRCOPY=0, NCCL_GDRCOPY_ENABLE=0)
[Ii]nvalid (?:request|communicator|comm\b|object|handle|endpoint object|pointer|state|completion|rail)|[Uu]nexpected \
(?:request|comp_flags|cq|poll|completion|callback|state)|\bis (?:null|NULL)\b|not (?:yet )?(?:been )?initiali[sz]ed|\
should (?:not|never) happen|already (?:been )?(?:initiali[sz]ed|destroyed|closed|set|bound)|underflow|ref_?c(?:ou)?nt \
; the library met a state that its own checks forbid: the sequel of an earlier error, mixed releases, or a fault of \
its own ; look for the first error of any rank; one release of the library on all hosts; if it is alone, try the \
newest patch release, and another transport to be sure (NCCL_NET=Socket, UCX_TLS=tcp, FI_PROVIDER=tcp)
DMA-?[Bb]uf|dmabuf|peer_?mem|GPU ?Direct|\bGDR\b|ibv_reg_dmabuf|get_?handle_for_address_range ; the NIC cannot reach \
memory of GPUs (GPU Direct) ; load nvidia_peermem, or the open driver with DMA-BUF (kernel from 5.12 on), IOMMU and \
ACS off; without: NCCL_NET_GDR_LEVEL=LOC, UCX_IB_GPU_DIRECT_RDMA=no, FI_HMEM_CUDA_USE_DMABUF=0
key ?pool|reg(?:istration)? cache|rcache|MR cache|mr_cache|memory hooks?|\bmm(?:hooks|_hooks)|memory monitor|\
memhook|userfaultfd|mallopt ; the library's cache of registered memory failed ; switch it off to be sure \
(UCX_RCACHE_ENABLE=n, UCX_MEM_EVENTS=n, FI_MR_CACHE_MONITOR=disabled, OFI_NCCL_MR_CACHE_DISABLE=1); raise \
vm.max_map_count; no second malloc library (LD_PRELOAD)
[Rr]egist(?:er|ration|ering)\b.{0,60}(?:mem|buf|region|MR|segment|address|heap)|\breg_?(?:mr|mem|user)|\w*_reg_mr|\
\bMRs?\b|memory region|\bmkeys?\b|\brkeys?\b|umr\b|\bUMR\b|memh\b|\b[Pp]in(?:ned|ning)?\b|(?:non-|un|not )\
?registered|[Rr]egMr|reg failed|dereg|register|[Rr]egistration ; memory could not be registered with the NIC, or its \
key is not valid ; ulimit -l unlimited in the job and its container (LimitMEMLOCK=infinity for slurmd); for memory of \
GPUs nvidia_peermem or DMA-BUF; fewer or smaller buffers; free a buffer only after its transfers have ended
xpmem|knem|\b[Cc][Mm][Aa]\b|process_vm|smsc|vader|\bSM[23]?\b|posix shm|sysv|\bshm_?(?:open|at|get)?\b|[Ss]hared \
?[Mm]emory|mmap|\bsegment|memfd|/dev/shm|\bipc\b|\bIPC\b ; processes of one host cannot share memory ; give the \
ranks of a host one IPC and pid namespace and user (--ipc=host --pid=host), /dev/shm at least 1 GiB; leave what is \
named out: NCCL_SHM_DISABLE=1, UCX_TLS=^posix,sysv,xpmem,cma, --mca btl_sm_use_xpmem 0, FI_SHM_DISABLE_CMA=1
(?:\bcu[A-Z]\w+|\bcuda\w*|\bhip\w*|GPU|device).{0,60}out of memory|CUDA_ERROR_OUT_OF_MEMORY|symmetric heap.{0,40}\
(?:memory|size|large) ; a GPU's memory is full ; leave room on the GPU: a smaller heap or buffers \
(NVSHMEM_SYMMETRIC_SIZE), a lower share of memory for the framework, end other processes of that GPU (nvidia-smi)
topolog|hwloc|\bPCIe?\b|\bpci\b|\bNUMA|\bnuma|group NICs|link speed|\blink_?width|affinity|\bsocket id|local_?rank|\
\bnode ?map|\bringid|ring ID|distance ; the picture of GPUs, NICs and processors could not be made ; let the \
container see /sys and all devices of the host, use the provider's topology file (NCCL_TOPO_FILE), one release of the \
plugin for this machine type
\bcu[A-Z]\w+|\b[Cc][Uu][Dd][Aa]\w*|\bhip[A-Z]?\w*|\bHIP\b|\bnvml|\bNVML|\bROCm?\w*|\brocr?\w*|\bhsa_\w+|\bze[A-Z]\w+|\
\bGPUs?\b|\bgpu\b|\b[Hh][Mm][Ee][Mm]_?|\bstream\b|\bkernel launch|\bnvrtc|Neuron|neuron|synapse ; a call of the GPU's \
library failed ; choose the rank's own GPU before the start (cudaSetDevice(LOCAL_RANK)), look at nvidia-smi and dmesg \
for Xid, use a driver as new as the CUDA of the library; an earlier error of a kernel shows up here too
\b(?:ibv_(?:create|alloc|modify)|mlx5dv_|rdma_create|doca_)\w*|\b(?:devx|DEVX)\b|obj_create ; objects of the NIC \
(queue pairs, completion queues, endpoints) could not be made or used ; ulimit -l unlimited; fewer processes and \
connections for each NIC (ibv_devinfo -v tells the maxima); rdma-core, driver and firmware of one release; all RDMA \
devices in the container
~(?:wc|CQE?|cq|[Cc]ompletion)\w* .{0,40}(?:error|status|fail|err)|[Cc]ompleted with (?:error|status)|\bsyndrome|\
vendor_?err|transport retry|RNR|flushed|\b[Ff]ailed to process completion|error completion|error(?:ed)? (?:entry|on) \
?(?:from )?(?:cq|CQ)|fi_cq_read(?:err)?|CQ (?:error|poll)|poll\w* (?:cq|CQ|failed)|cq_event|prov_errno|\b(?:tx|rx|\
send|recv|write|read|put|get) (?:operation )?(?:completed|failed)|RMA (?:read|write|op)|remote (?:access|operation)|\
[Ff]lush ; a transfer failed: the peer's process ended, or the fabric lost it ; look for the first error of the rank \
at the other end; where there is none, test the pair of hosts (ib_write_bw, fi_pingpong) and look at port counters, \
security groups and cables
[Vv]ersion|\bABI\b|\bAPI v|older than|newer than|too old|too new|\bdlopen|\bdlsym|\bsymbol|zeMem|[Ff]ailed to find \
\w+$|not compiled|compiled with(?:out)?|built (?:with|without|against)|shared (?:object|library)|librar(?:y|ies).{0,30}\
(?:load|open|find)|plugin|[Pp]lugin|\.so\b|requires? \w+ \d ; a library is missing, or of a release that does not fit \
; install the release that is asked for on all hosts and in the image, remove other copies from LD_LIBRARY_PATH \
(ldd, ldconfig -p); rebuild the program where it says how it was compiled
[Pp]rovider|fi_getinfo|fi_fabric|no (?:suitable|usable|matching|available) (?:device|transport|provider|interface|\
network)|[Nn]o (?:such )?(?:device|port|NIC|hca|interface|transport)s?|[Dd]evice.{0,30}not (?:found|available|\
exist|present|active|usable)|\b(?:open|query|find|get|list|enumerate|locate)\w* .{0,30}(?:device|port|nics?|HCA|\
interface|iface|netdev)s?\b|ibv_(?:open|get|query)_\w+|device (?:open|list|attr)|port attr|gid|\bGID|\bpkey|\bP_Key\
|\blid\b|link layer|rdma_(?:create|getdevices)|sysfs|/sys/|uverbs|iface\b|\bNICs?\b|\brails?\b|\bport\b ; the NIC, \
its port or its address cannot be used as asked ; ibv_devinfo, fi_info or ucx_info -d in the same container: the \
device must be listed and its port active; give the container /dev/infiniband; name devices that every host has \
(NCCL_IB_HCA, UCX_NET_DEVICES, FI_PROVIDER), GID index of RoCE v2
(?:create|alloc\w*|init\w*|open|bind|enable|modify|creat\w+|setup|set up|make|new)\b.{0,40}\b(?:QPs?|CQs?|SRQ|XRC|\
AVs?|AH|EQ|PD|EPs?|[Ee]ndpoints?|(?<!unix )domains?|[Cc]ontexts?|[Ww]orkers?|completion (?:queue|channel)|queue pair|\
event \
(?:queue|channel)|counters?|channel|address vector|DCI|DCT|dci|dct|UAR|BlueFlame|doorbell|CMDQ|LNI|TGQ|TXQ|PTE?|\
srq|qp|cq|ah|pd|av|ep|eq)\b|ibv_(?:create|alloc|modify)_\w+|\bmlx5dv_\w+|rdma_create_qp|devx|DEVX|\bQPs?\b|\bqp\b|\
\bCQs?\b|\bSRQ\b|\bAVs?\b ; objects of the NIC (queue pairs, completion queues, endpoints) could not be made or used \
; ulimit -l unlimited; fewer processes and connections for each NIC (ibv_devinfo -v tells the maxima); rdma-core, \
driver and firmware of one release; all RDMA devices in the container
~connect|accept|[Ll]isten|\bbind\b|handshake|\bpeer\b|reachable|\broute|address|\bhost(?:name)?\b|resolve|socket|\
\bremote\b|\bcm\b|\bCM\b|rdma_?cm|RDMA_CM|\btcp\b|\bconn(?:req|ection)?\b|disconnect|\bOOB\b|\boob\b|bootstrap|\
firewall|rendezvous|timed? ?out|timeout|sendto|recvfrom|\brecv\b|\bsend\b ; a process is not reached, or its \
connection ended ; look whether the peer's process still runs; allow all traffic between the hosts (security group to \
itself, firewall); name the network that all hosts share (NCCL_SOCKET_IFNAME, UCX_NET_DEVICES, --mca \
btl_tcp_if_include)
protocol|endian|mismatch|unpack|packet|\bheader|opcode|unexpected (?:message|msg|event|completion|request|type|\
length|size|tag|packet|flags|data)|[Mm]agic|truncat|out[- ]of[- ]order|sequence|wrong (?:size|length|type|tag|msg)|\
\btags?\b ; the two sides do not speak the same protocol, or messages got mixed ; use one release and build of the \
library on all hosts and in all images, the same settings on all ranks; call collectives in the same order
environment|variable|[Pp]aram\w*|[Cc]onfig\w*|\bvalue\b|invalid (?:value|option|argument|format|setting|mode|flag)|\
[Uu]nrecogni[sz]ed|\bmust (?:be|not)|out of range|parse|parsing|malformed|power of (?:2|two)|[Uu]nknown \w+|should be|\
greater than|less than|too (?:big|large|long|small|short|low|high)|\bmin(?:imum)?\b|\bmax(?:imum)?\b|exceeds|limit|\
[Ii]nvalid|\bflags\b|option|\bset to\b|alignment|[Bb]uffer count|is full ; a setting or size is refused ; correct or \
unset the variable that the sentence speaks of (env | grep -E 'NCCL_|UCX_|UCC_|FI_|OMPI_|NVSHMEM_'), the same on all \
ranks; names and limits differ between releases
not (?:yet )?(?:supported|implemented|allowed|permitted|available|enabled)|unsupported|does not support|can(?:not|'t) \
be used|not possible|[Uu]nimplemented ; this library, NIC or build cannot do what is asked ; choose another transport \
or algorithm, or a build that has it; leave out the option that asks for it
[Pp]ermission|privilege|capabilit|denied|\broot\b ; rights are missing ; give the container its devices and \
--cap-add=IPC_LOCK, the user the group rdma, video or render
[Aa]llocat|\balloc\b|malloc|memory|[Ff]ree ?list|\bmpool|exhausted|\bpool\b|no (?:more )?(?:space|room|memory|\
descriptors|buffers)|out of (?:memory|resources|buffers) ; memory or buffers of the library ran out ; free memory of \
the host (free -g, the container's limit), ulimit -l and -v; fewer transfers at a time or ranks on a node
thread|async|event ?fd|eventfd|epoll|\bpipe|signal|timer|\bfork|\bfd\b|\bpoll\b ; a thread or descriptor could not be \
made or used ; raise ulimit -n and -u and the pids limit of the container
\bfile|\bopen\b|\bread|\bwrite|\bdir\b|directory|dump|log\b ; a file cannot be read or written ; look at path, rights \
and space on that host and in the container
internal|should (?:not|never)|unexpected|[Ii]nvalid|\bstate\b|not initiali[sz]ed|un-?initiali[sz]ed|not (?:been )?\
(?:set|created|called|empty)|\bNULL\b|\bnull\b|already|underflow|refcount|ref_?cnt|assert|corrupt|inconsistent|\
request|object|handle|\bbug\b|exception|\bcommunicator|team|\bhash|map\b|queue|cleanup|destroy|close|finalize|free|\
remove|insert|copy|progress|init\w* ; the library met a state that its own checks forbid: the sequel of an earlier \
error, mixed releases, or a fault of its own ; look for the first error of any rank; one release of the library on all \
hosts; if it is alone, try the newest patch release, and another transport to be sure (NCCL_NET=Socket, UCX_TLS=tcp, \
FI_PROVIDER=tcp)
"""
