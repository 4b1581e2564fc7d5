"""What `particulars` knows, by signature: rows of words of the evidence, the cause, and its cure."""

from __future__ import annotations

ROWS = {
    "wrong-interface": r"""
btl_tcp|mca_oob|oob_tcp ; MPI's TCP transport chose an interface that other hosts cannot reach ;
 name the network that all hosts share: --mca btl_tcp_if_include 10.0.0.0/8 --mca oob_tcp_if_include 10.0.0.0/8 (or
 exclude docker0,virbr0,lo); NCCL_SOCKET_IFNAME for NCCL itself
""",
    "gdr-unavailable": r"""
peer_?mem\b.{0,60}(?:disagrees|Unknown symbol|Invalid argument)|insert '?nvidia.peer_?mem ; nvidia_peermem was built
 against other RDMA modules than those that are loaded, so that it cannot be loaded ;
 install OFED (DOCA) first and the NVIDIA driver after it, or rebuild by dkms for the modules that run. Or use the open
 kernel modules with DMA-BUF (kernel 5.12 and newer) and leave nvidia_peermem out
""",
    "tcpx-error": r"""
DEVMEM|devmem|dmabuf_import|Protocol not available ; the kernel or the NIC's driver of this host lacks what TCPX needs:
 TCP that receives into memory of GPUs (device memory TCP) ;
 use the image (Container-Optimized OS) and node version that Google names for this machine type, and plugin and
 receive daemon of that release; NCCL_NET=Socket to go on without
""",
    "invalid-argument": r"""
must be initiali[sz]ed via|_INITIALIZER|ncclDevCommRequirements|struct\w* (?:size|version|magic) ; a structure that NCCL
 gets was not filled by its initializer: the program was built for the headers of another release ;
 begin with the macro that is named (NCCL_CONFIG_INITIALIZER, NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER) and build against
 the headers of the NCCL that is loaded; until then load the release that it was built for
Invali[dg] config (?P<what>[\w /]{2,40}?)(?: attribute)? value -2147483648 ; a field of ncclConfig_t that nobody set
 ({what}) is refused: its undefined value comes from newer headers, and the NCCL that is loaded is older than those ;
 load the NCCL that the program was built for. For PyTorch that is nvidia-nccl-cu12 of its own release: leave other
 copies out of LD_PRELOAD and LD_LIBRARY_PATH. The line `NCCL version` tells which one is loaded. That field is not to
 be set
Invali[dg] config (?P<what>[\w /]{2,40}?)(?: attribute)?(?: value (?P<value>[\w/-]{1,30}))?$ ; ncclConfig_t holds a
 value that NCCL refuses: {what} {value} ;
 correct that field, or leave it unset (start from NCCL_CONFIG_INITIALIZER). In PyTorch it is
 ProcessGroupNCCL.Options().config, in NCCL's environment the variable of the same name (NCCL_MIN_CTAS,
 NCCL_CGA_CLUSTER_SIZE); the same on all ranks, minima not above maxima
(?:Flags|Context|Signal index) (?P<what>\d+) is invalid ; a call of the device API or of one-sided operations passes a
 value that this NCCL does not know ({what}) ;
 pass 0 for flags and contexts, build with the headers of the NCCL that is loaded, and use signals below the number
 that the window was made with
""",
    "mixed-networks": r"""
CollNet device counts ; ranks see different numbers of CollNet (SHARP) devices ;
 load the same SHARP plugin and name the same NICs (NCCL_IB_HCA) on all hosts, or set NCCL_COLLNET_ENABLE=0
device counts across ranks \(min (?P<min>\d+), max (?P<max>\d+) ; some ranks see {min} NICs and others {max}: a host or
 container lacks NICs, a port is down there, or its NCCL_IB_HCA differs ;
 compare the lines NET/IB : Using of all hosts; bring the missing NIC or port up, give each container every RDMA
 device, and set one NCCL_IB_HCA everywhere. NCCL_IGNORE_NET_MISMATCH=1 only goes on with fewer
different number of devices|mismatched physical devices ; NICs are fused differently on two hosts (number of ports) ;
 set NCCL_NET_MERGE_LEVEL=LOC on all ranks, or bring up the ports that one host lacks
netName ; a communicator and its parent ask for different networks (config netName) ;
 give both the same netName, or leave it out
requires NIC ; the graph file names a NIC that this host does not have ;
 unset NCCL_GRAPH_FILE and NCCL_TOPO_FILE, or give files of this machine
""",
    "cuda-ipc": r"""
custom_all_reduce|custom_ar\b|quick_all_?reduce ; the server's own all-reduce cannot open the memory of another GPU
 (CUDA
 IPC): no peer access, another container, or expandable segments ;
 switch it off: --disable-custom-all-reduce; then nvidia-smi topo -p2p r, one container with --ipc=host for all ranks,
 and PYTORCH_CUDA_ALLOC_CONF without expandable_segments
peer access is not supported|ipcUtils|allocateIpcMemory ; these GPUs have no peer access, which the program's own
 all-reduce needs ;
 build or start without it (TensorRT-LLM: --use_custom_all_reduce disable, allreduce_strategy NCCL; servers:
 --disable-custom-all-reduce), so that NCCL goes through host memory; nvidia-smi topo -p2p r shows the pairs
peer mapping resources exhausted|TooManyPeers ; a GPU has as many direct peers as it can map (8 without NVSwitch) ;
 let fewer GPUs reach each other directly: NCCL_P2P_LEVEL=PXB or NVL, or smaller process groups; NCCL_P2P_DISABLE=1
 to be sure
UDS: |ncclProxyClient(?:GetFd|QueryFd|ConvertFd)|fd_exchange|xchg_ ; processes of one host cannot hand over the handles
 of GPU memory (cuMem over UNIX sockets): another network namespace, user, or a process that ended ;
 run the ranks of a host in one container or with --network=host --ipc=host and as one user; until then
 NCCL_CUMEM_ENABLE=0
pidfd_ ; the container or the kernel does not let a process take a handle from another one (pidfd_getfd) ;
 start the container with --cap-add=SYS_PTRACE and --pid=host, or switch expandable_segments off
invalid device ordinal|failure 101\b ; a rank does not see the GPU of its peer: the container, or
 CUDA_VISIBLE_DEVICES, shows each rank its own GPU alone ;
 show all GPUs of the host to every rank (--gpus all, no CUDA_VISIBLE_DEVICES per rank) and choose by cudaSetDevice.
 Else keep the ranks apart: a different NCCL_HOSTID per container, or NCCL_P2P_DISABLE=1
Cannot re-import peer buffer ; a GPU buffer was to be shared with a rank of another host ;
 suspend and resume with NCCL_MNNVL_ENABLE=0, or with IMEX set up on all hosts
""",
    "version-mismatch": r"""
compiled with NCCL version (?P<built>[\w.]+).{0,40}version (?P<loaded>[\w.]+?)\.?(?=\s|$) ; the program was compiled
 with NCCL {built} and loads {loaded} at run time, which does not fit ;
 load the library that it was compiled with, or a newer one: look for an older libnccl in LD_LIBRARY_PATH,
 LD_PRELOAD, conda and pip (nvidia-nccl-cu12); or compile it again
compiled with|library is too old|backwards compatible ; the program was compiled with another NCCL than it loads ;
 load the library that it was compiled with, or a newer one (LD_LIBRARY_PATH, pip's nvidia-nccl), or compile it again
GIN gdaki backend ; NCCL and its plugin for transfers that the GPU starts (GIN) are of different versions ;
 use the plugin of this NCCL, or NCCL_GIN_ENABLE=0
""",
    "ib-devices-missing": r"""
couldn't load driver.{0,200}(?:undefined symbol|version `|IBVERBS_PRIVATE) ; the driver of the RDMA NIC in the container
 does not fit its libibverbs: they are of different releases of rdma-core or OFED, and no device is found ;
 install libibverbs and its providers from one release in the image (rdma-core, or OFED's user space of the host's
 release). Remove the other; ibv_devinfo in the container must list the NICs
Driver (?P<driver>\w+) does not support the kernel ABI of (?P<abi>\d+) \(supports (?P<low>\d+) to (?P<high>\d+) ; the
 driver of this NIC in libibverbs ({driver}) does not fit the kernel's module: the module speaks ABI {abi}, the driver
 {low} to {high}, and no device is found ;
 put the driver (provider) of the same release as the host's kernel module into the image: the NIC vendor's package of
 the version that modinfo tells on the host. Or load the kernel's own module, which fits rdma-core. A provider is there
 already; /dev/infiniband and NCCL_IB_HCA are right
kernel ABI|no userspace device-specific driver|couldn't load driver ; libibverbs has no driver (provider) for this NIC ;
 install the provider in the image (ibverbs-providers, rdma-core, or the vendor's OFED of the host's release), with
 /etc/libibverbs.d
disagrees about version|Unknown symbol ; the kernel's RDMA modules are of different releases ;
 load all RDMA modules from one release (OFED or the kernel's): rebuild by dkms, /etc/init.d/openibd restart, or
 reboot
Permission denied|not permitted ; the RDMA devices may not be opened by this user or container ;
 give the container /dev/infiniband (rdma device plugin, or --device=/dev/infiniband --cap-add=IPC_LOCK), and rights
 on /dev/infiniband/uverbs*
""",
    "vm-topology": r"""
Could not open XML (?P<kind>\w+) file (?P<path>\S+) ; the {kind} file that is set does not exist here: {path} ;
 mount or correct it on every node and in every container (NCCL_TOPO_FILE, NCCL_GRAPH_FILE), or unset the variable
XML (?:Parse|Mismatch)|wrong version ; the topology or graph file that is set is damaged or of another version ;
 take the provider's file anew, or unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE
Only matched|find net with name ; the settings or the topology file name NICs that are not there ;
 compare the names in NCCL_TOPO_FILE and NCCL_NET_FORCE_MERGE with ibdev2netdev; unset them to be sure
""",
    "gpu-memory-full": r"""
Test (?:CUDA|NCCL) failure ; the buffers of nccl-tests do not fit into the GPU's memory ;
 choose a smaller largest size (-e 1G), which needs about three times as much memory, and end other processes on the
 GPUs (nvidia-smi)
RESOURCE_EXHAUSTED|bfc_allocator|\b(?:Xla|Jax)RuntimeError|jaxlib|nccl_archive|external/xla ; a GPU's memory is full
 (XLA) ;
 leave NCCL its part: XLA_PYTHON_CLIENT_MEM_FRACTION=0.75 or XLA_PYTHON_CLIENT_PREALLOCATE=false; smaller batches per
 device, rematerialisation (jax.checkpoint), more shards of parameters; end other processes on the GPU (nvidia-smi)
tensorrt_llm|TensorRT-LLM|tllm ; a GPU's memory is full (TensorRT-LLM) ;
 give the KV cache less (kv_cache_config.free_gpu_memory_fraction, or kvCacheFreeGpuMemFraction in Triton), build with
 smaller max_batch_size, max_num_tokens and max_seq_len, spread over more GPUs (tp_size); end other processes
memory capacity is unbalanced|occupied by other processes ; other processes hold memory of some of the GPUs ;
 nvidia-smi shows which; end what an earlier start left behind, or choose other GPUs (CUDA_VISIBLE_DEVICES)
KV cache|cache blocks|less than desired|mem-fraction ; a GPU's memory has no room for the server's KV cache ;
 end other processes (nvidia-smi); raise the server's part (--gpu-memory-utilization, --mem-fraction-static) where it
 is free, lower the longest context (--max-model-len, --context-length) and batch, or use more GPUs (tensor parallel)
nvls|NVLS|[Mm]ulticast ; GPU memory for NVLink multicast (NVLS) cannot be had: it is full, or the fabric manager gives
 none ;
 free GPU memory (smaller batches), restart the fabric manager and reset the GPUs; NCCL_NVLS_ENABLE=0 until then
""",
    "nvshmem-init": r"""
IoMemory|alloc_and_map_qp_uar|map UAR|PeerMappingOverride|devx_uar ; NVSHMEM's IBGDA may not map the NIC's doorbells
 into the GPU: the driver, or the container's rights, do not allow it ;
 options nvidia NVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords="PeerMappingOverride=1;" in /etc/modprobe.d, then
 update-initramfs and reboot; the container needs privileges for it. NVSHMEM_IBGDA_NIC_HANDLER=cpu, or
 NVSHMEM_IB_ENABLE_IBGDA=0, goes on without
init failed for (?:remote )?transport|Unable to initialize any transports|detect topo failed ; NVSHMEM finds no
 transport for GPUs of other hosts: its plugins (IBGDA, IBRC, UCX) cannot use the NICs or the driver ;
 NVSHMEM_DEBUG=INFO says which check fails. Give the container /dev/infiniband and rdma-core, load nvidia_peermem or
 use DMA-BUF, name the NICs (NVSHMEM_HCA_LIST); IBGDA also needs the driver's PeerMappingOverride=1 or GDRCopy
bootstrap_uid|ncclSocket|bootstrap (?:connect|init|allgather|preinit) ; NVSHMEM's processes do not find each other over
 sockets (bootstrap) ;
 NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME names the interface that all hosts share; all ports open between them; every rank
 started with the same unique id, or NVSHMEM_BOOTSTRAP=MPI or PMI
""",
    "ib-async": r"""
health compromised|miss count|assert_var|handling bad device|Health issue|device fatal|internal error|load_one|init_one
 ; the firmware of an mlx5 NIC failed or no longer answers ;
 reset it (mlxfwreset -d DEVICE reset, or a cold reboot), update its firmware (mlxfwmanager --online -u) and driver;
 leave the node out where it returns, and replace the NIC
""",
    "mpi-network": r"""
no (?:active messages|remote memory access|remote registered|atomic|auxiliary|copy across|\S{0,12} ?am) ?\S{0,20}
 ?\S{0,20}transport
 to|no usable transports ; UCX has no transport left that reaches the peer: UCX_TLS or UCX_NET_DEVICES leaves out the
 network that both hosts share ;
 unset both, or name a network in them: UCX_TLS=rc,ud,sm,self,cuda_copy,cuda_ipc (tcp without RDMA),
 UCX_NET_DEVICES=mlx5_0:1, alike on all hosts; ucx_info -d lists what each host has; containers need /dev/infiniband
pkey ; the port has no full membership in the InfiniBand partition (P_Key) that is asked for ;
 unset UCX_IB_PKEY and NCCL_IB_PKEY or set them to a key of /sys/class/infiniband/*/ports/1/pkeys; on a cloud the
 index of the tenant's key; have the subnet manager give full membership
accepted a TCP connection|cannot find a corresponding|unexpected process identifier|dropped inbound ; MPI's processes
 meet others than they expect over TCP: an address is the same on several hosts (docker0, virbr0), or another job is
 there ;
 name the network that the hosts share: mpirun --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 (or
 btl_tcp_if_exclude lo,docker0,virbr0); end the rest of older jobs
invalid value was given for (?P<name>\w+)|Unknown interface name ; the interface that MPI is told to use does not exist
 on this host ({name}) ;
 correct btl_tcp_if_include and oob_tcp_if_include: an interface that every host has, or a network (10.0.0.0/16)
mm_(?:posix|sysv|ep|xpmem)|xpmem|Shared memory error ; UCX cannot share memory between processes of one host: their
 containers have namespaces or users of their own ;
 run the ranks of a host in one container or with --ipc=host --pid=host and as one user; or UCX_POSIX_USE_PROC_LINK=n,
 or leave it out: UCX_TLS=^posix,sysv
selected PML ; MPI's processes chose different transports (PML): UCX or its devices are missing on some hosts ;
 name one on all: mpirun --mca pml ob1 --mca btl tcp,self (or --mca pml ucx where every host has it)
memory allocat|Cannot allocate|ibv_\w+.{0,60}memory ; UCX cannot get memory for RDMA: the limit on locked memory ;
 ulimit -l unlimited (memlock=-1 in the container, LimitMEMLOCK=infinity for slurmd), then start again
""",
    "nccl-internal": r"""
Failed to determine (?:intra proc|local) ranks ; NCCL takes ranks of different containers or hosts for one: equal host
 ids and process ids ;
 give each container or VM its own NCCL_HOSTID (or host name and /proc/sys/kernel/random/boot_id)
lib wrapper not initialized ; libibverbs or GDRCopy could not be loaded before NCCL used it ;
 install rdma-core (libibverbs.so.1) in the image, or NCCL_IB_DISABLE=1
""",
    "nccl-hint": r"""
cross-rail ; NICs of different rails cannot reach each other (NCCL's own hint) ;
 set NCCL_CROSS_NIC=0, or connect the rails of the fabric; test with ib_write_bw between the two NICs
GID index ; a wrong GID index is forced (NCCL's own hint) ;
 unset NCCL_IB_GID_INDEX or set it to -1, so that NCCL chooses
ACS ; PCIe's access control (ACS) breaks GPU Direct RDMA (NCCL's own hint) ;
 switch ACS off on the bridges (setpci or the BIOS); NCCL_NET_GDR_LEVEL=0 to be sure
same instance ; NICs of one host cannot reach each other (NCCL's own hint) ;
 let the fabric route between the ports of one host, or NCCL_CROSS_NIC=0; test with ib_write_bw on one host
IB_TIMEOUT ; the time that RDMA waits for an answer is too short for this fabric (NCCL's own hint) ;
 raise NCCL_IB_TIMEOUT (20 by default, 22 is four times as long), and look for what delays the peer
topology file ; the topology file that is set lacks parts of this machine (NCCL's own hint) ;
 compare NCCL_TOPO_FILE with what NCCL_TOPO_DUMP_FILE=topo.xml writes, or unset it
""",
    "duplicate-gpu": r"""
NCCL_NVLS_ENABLE has been set ; several ranks share a GPU, and NVLS is forced on ;
 unset NCCL_NVLS_ENABLE, or give each rank its own GPU
""",
    "no-interface": r"""
OOB_NET_IFNAME ; NCCL_OOB_NET_IFNAME names no interface of this host ;
 correct or unset NCCL_OOB_NET_IFNAME (ip -br addr shows what there is)
same subnet as remote address ; no interface of this host is in the subnet of rank 0's address ;
 give rank 0's address in a network that all hosts share (NCCL_COMM_ID, MASTER_ADDR), and name its interface in
 NCCL_SOCKET_IFNAME
""",
    "no-route": r"""
\bfe80:|(?<![\w:=])(?=[\da-f:]*[\da-f]{3})(?:(?:[\da-f]{1,4}:){4,7}|(?:[\da-f]{1,4}:){1,6}:)[\da-f]{1,4}(?![\w:]) ;
 an IPv6 address of the peer cannot be reached: it is link-local, or IPv6 is not routed between the hosts ;
 take IPv4: NCCL_SOCKET_FAMILY=AF_INET, and name the interface that all share (NCCL_SOCKET_IFNAME)
""",
    "crash-in-library": r"""
(?P<what>lib(?:mlx\d|ibverbs|efa|bnxt_re|irdma|rdmacm)[\w.-]*) ; a process crashed inside of the NIC's library {what} ;
 use the rdma-core or OFED of the host's release in the container; set RDMAV_FORK_SAFE=1 where the program forks, or
 start workers by spawn. NCCL_IB_DISABLE=1 shows whether RDMA is at fault
(?P<what>libnccl\.so[\w.]*) ; a process crashed inside of NCCL ({what}) ;
 run with NCCL_DEBUG=INFO and look at the last lines of that rank, load one NCCL alone, and try the next patch release;
 then NCCL_NVLS_ENABLE=0, NCCL_CUMEM_ENABLE=0 and NCCL_PROFILER_PLUGIN=none in turn
(?P<what>libcuda\.so[\w.]*|libnvidia\S*) ; a process crashed inside of the driver's library ({what}) ;
 use the driver's own libraries in the container (no libcuda of an image or of cuda-compat), look for Xid in dmesg, and
 update the driver
(?P<what>libuc[pst]\S*) ; a process crashed inside of UCX ({what}) ;
 leave UCX out: mpirun --mca pml ob1 --mca btl tcp,self, or use the UCX of one HPC-X on all hosts
""",
    "loopback-interface": r"""
Using the loopback address as fallback|[Gg]loo ; Gloo talks over the loopback interface, as the host's name cannot be
 resolved: other nodes cannot reach it ;
 set GLOO_SOCKET_IFNAME (and NCCL_SOCKET_IFNAME) on every host to the interface between the nodes; give each host's name
 an address of that interface in /etc/hosts or DNS, and not 127.0.1.1
""",
    "bad-shm-attach": r"""
/dev/shm/nccl-(?:["', :]|$)|\(size 0\) ; ranks do not agree on how they share host memory: one takes cuMem, another
 /dev/shm, so that the name of the segment is empty ;
 set NCCL_CUMEM_HOST_ENABLE=0 on all ranks; or let all have cuMem host memory: start each container with
 --cap-add SYS_NICE, so that it may use NUMA
""",
    "disk-full": r"""
[Dd]isk quota|Errno 122|EDQUOT ; the job's user or group may not store more there: a quota is reached (EDQUOT), though
 the file system has room ;
 show it (quota -s, lfs quota -h -u $USER PATH, mmlsquota), delete old checkpoints, or write to another file system; ask
 for more. `df` does not show quotas
pyxis|enroot|squashfs|output filesystem ; no space is left where enroot makes the container's image (/run, or
 ENROOT_TEMP_PATH, ENROOT_CACHE_PATH, ENROOT_DATA_PATH) ;
 point these variables in /etc/enroot/enroot.conf at a local disk with room (/raid, /scratch), remove old images
 (enroot list, enroot remove), or import once to a .sqsh file and start that
[Ee]victed|low on resource|ephemeral-storage ; the node evicted the pod: its local disk (ephemeral storage) is full ;
 write checkpoints and caches to a volume, set requests and limits of ephemeral-storage, and clean images and logs of
 that node
(?P<path>/[\w.+-]+(?:/[\w.+-]+)+)\W{0,4} No space left|No space left on device\W{1,4}(?P<other>/[\w./+-]+) ; no space is
 left where the job writes: {path}{other} ;
 free that file system (df -h, df -i), or write elsewhere: TMPDIR for sessions of MPI and logs of torchrun
""",
    "cuda-not-supported": r"""
host alloc ; memory of the host cannot be had for GPUs (pinned): it is full, limited, or its NUMA node is closed to the
 container ;
 look at free memory and at the container's limit (cgroup), set ulimit -l unlimited, start the container with --cap-add
 SYS_NICE, or set NCCL_CUMEM_HOST_ENABLE=0
\b800\b|not permitted ; CUDA refuses an operation to this process: no IMEX channel (fabric handles of an NVLink domain),
 or limits of the container ;
 on GB200 and GB300 give the container /dev/nvidia-caps-imex-channels and set IMEX up (else NCCL_MNNVL_ENABLE=0).
 Elsewhere start it with --cap-add SYS_NICE, or set NCCL_CUMEM_HOST_ENABLE=0, then NCCL_CUMEM_ENABLE=0
""",
    "ib-connect-timeout": r"""
local GID index (?P<index>\d+), local GID fe80 ; the address that the NIC was given for RoCE (GID index {index}) is
 link-local, and the peer's network does not carry it ;
 unset NCCL_IB_GID_INDEX, or set it to the RoCE v2 entry with an IPv4 address (show_gids, often 3) on all nodes; on
 InfiniBand look for the peer's port instead
Network is unreachable|\b101\b ; the NIC has no route to the address of the peer's NIC (RoCE) ;
 give both NICs addresses of one subnet, or routes for each rail (ip route, ip rule); NCCL_CROSS_NIC=0 where rails are
 apart; NCCL_IB_GID_INDEX of the RoCE v2 address (show_gids)
No such device|\b19\b ; the NIC has no address (GID) at that index in this container: its interface is elsewhere ;
 give the pod the NIC's interface (Multus, SR-IOV, hostNetwork), or unset NCCL_IB_GID_INDEX; leave NICs without an
 interface out by NCCL_IB_HCA
""",
    "subnet-manager": r"""
TIMEOUT|[Tt]imed? ?out|completed (?:with|in) error|MAD Error|[Nn]o response|not respond|Remote
 error|SubnGet|SubnSet|recv
 error|light sweep|Failure initiating|(?:Sending|Setting) \S.{0,60}failed|Request for \w+ failed ; the subnet manager
 gets no answer from a node or switch ;
 the line names node and port (GUID, LID, path): ibtracert and ibnetdiscover find it; reseat its cable, reset that NIC
 or switch, look at its temperature and firmware. A node that reboots says this once and it is no fault
[Dd]uplicat\w+ (?:node |port |alias )*GUID|duplicated node ; two devices of the fabric have one GUID ;
 find both by ibnetdiscover; give one its own by the maker's tool (flint), or take a looped cable out
umad|bind|register class|agent|CA guid|port guids|IS_SM|issm|Unable to open port ; the subnet manager cannot use the
 port that it should manage ;
 modprobe ib_umad and mlx5_ib, give it a port that is there (opensm --guid, nvlsm --guid) and no second manager on it;
 containers need /dev/infiniband/umad* and issm*
routing engine|dfsssp|torus|NUE\d|\bAD\d\d\b|fat-?tree|[Rr]out(?:e|ing)|hops?\b|spanning tree|deadlock|\bVLs?\b
 ; the subnet manager cannot compute routes as configured ;
 look which links or switches are missing (ibdiagnet, iblinkinfo); choose the routing engine that fits the topology
 (-R ftree, updn, minhop), with root and node files of this fabric
[Pp]_?[Kk]ey|partition|MGID|MLID|multicast|\bMC\b|mcast|join|\bgroup\b ; a partition or multicast group is refused by
 the
 subnet manager ;
 partitions.conf must name the port's GUID, its membership, rate and MTU; compare with ibstat and with
 /sys/class/infiniband/*/ports/1/pkeys; NCCL_IB_PKEY is an index into these
QoS|qos|\bSL\b|service level ; the subnet manager's quality of service is set up wrongly ;
 correct qos-policy.conf and the SLs in opensm.conf; NCCL_IB_SL must be one of these
file|\bdb\b|conf\w*|option|parse|syntax|directory|console|permission ; a file or setting of the subnet manager is
 wrong ;
 correct the file or line that is named (opensm.conf, partitions.conf, the cache in /var/cache/opensm), then restart it
LIDS?\b ; the subnet manager has no address (LID) to give, or its stored ones do not fit ;
 stop it, remove guid2lid in /var/cache/opensm, start it again while no job runs; lower lmc
""",
    "plugin-not-loaded": r"""
version `(?P<what>GLIBC\w*_[\d.]+)' ; the network plugin is there and cannot be loaded: it needs a newer C library than
 this image has ({what}) ;
 take an image of a newer distribution (ldd --version), or a plugin that was built for this one; NCCL_NET=Socket
 until then
undefined symbol|ELF|too short ; the network plugin is there and cannot be loaded: it was built for other libraries or
 another processor ;
 install the plugin of the release of NCCL and libfabric that the image has; ldd libnccl-net.so shows what is missing
""",
    "ib-port-down": r"""
[Cc]able error|Bus stuck|[Bb]ad or shorted|EEPROM|[Hh]igh (?:[Tt]emp|power)|unsupported (?:cable|module) ; a cable or
 transceiver is broken or not supported: its NIC cannot read it ;
 clean and reseat the module at both ends, then replace cable or transceiver with one on the NIC's list; mlxlink -d
 DEVICE -m shows it. Leave the port out by NCCL_IB_HCA=^mlx5_N meanwhile
State: *Initializing|PORT_INIT|: INIT\b|[Nn]o (?:SM|subnet manager)|SM lid 0 ; the InfiniBand port waits for a subnet
 manager, which gives it no address ;
 start a subnet manager: on one switch (ib sm), by UFM, or opensm on one host of the fabric; then ibstat shows Active
Polling ; the port finds nothing at the other end of its cable ;
 seat or replace cable and transceiver, enable the switch's port, set both ends to the same speed
Disabled|PORT_DOWN.{0,20}admin ; the port is switched off ;
 enable it: ip link set dev NAME up, ibportstate LID PORT enable, or mlxlink -d DEVICE -p 1 -a UP
""",
    "library-not-found": r"""
(?P<library>libcudart\.so[\w.]*|libcublas\S*\.so[\w.]*|libnvrtc\S*\.so[\w.]*) ; a library of the CUDA runtime cannot be
 found: {library} ;
 install the CUDA runtime of that major version (or pip's nvidia-*-cuNN), and put its folder into LD_LIBRARY_PATH
(?P<library>lib(?:mpi|open-pal|open-rte|pmix|prrte)\w*\.so[\w.]*) ; a library of MPI cannot be found: {library} ;
 install or load the MPI that the program was built with (module load, mpirun -x LD_LIBRARY_PATH) on all hosts
(?P<library>lib(?:fabric|efa)\w*\.so[\w.]*) ; libfabric cannot be found: {library} ;
 install the provider's installer (EFA: aws-efa-installer) and add /opt/amazon/efa/lib to LD_LIBRARY_PATH
""",
    "undefined-symbol": r"""
(?P<symbol>\bfi_\w+|FABRIC_[\d.]+) ; libfabric is older than the plugin that uses it: {symbol} is missing ;
 install the libfabric that the plugin was built with (EFA installer) and let LD_LIBRARY_PATH find it first
(?P<symbol>\b(?:ibv|mlx5dv|rdma)_\w+|IBVERBS_[\d.]+|MLX5_[\d.]+) ; rdma-core is older than what uses it: {symbol} is
 missing ;
 update rdma-core (libibverbs, libmlx5) in the image to the release of the host's driver
(?P<symbol>GLIBC(?:XX)?_[\d.]+|CXXABI_[\d.]+) ; the program was built for a newer system than this: {symbol} is
 missing ;
 run it in the image that it was built for, or build it here; conda: install a newer libstdcxx-ng
(?P<symbol>\b(?:ucp|uct|ucs)_\w+|\b(?:MPI|ompi|opal|PMIx|prte)_\w+) ; libraries of two releases of MPI or UCX are
 mixed: {symbol} is missing ;
 leave one MPI and UCX in LD_LIBRARY_PATH: of HPC-X or of the system, not both
(?P<symbol>\bncclProfiler\w*|\bncclTuner\w*|\bncclNet\w*) ; a plugin was made for another version of NCCL: {symbol} is
 missing ;
 use the plugin's release for this NCCL, or unset NCCL_NET_PLUGIN, NCCL_TUNER_PLUGIN and NCCL_PROFILER_PLUGIN
""",
    "shm-full": r"""
(?i:data ?loader) ; /dev/shm has no room for the batches of the data loader's workers ;
 start the container with --shm-size=16g or more or --ipc=host (Kubernetes: an emptyDir of medium Memory at /dev/shm);
 fewer workers, or torch.multiprocessing.set_sharing_strategy("file_system")
""",
    "gpu-too-new": r"""
ptxas|PTXAS|gpu-name|Triton|triton ; Triton's assembler (ptxas) does not know this GPU ;
 TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas of a CUDA toolkit that knows the GPU, or a newer Triton and PyTorch; empty
 ~/.triton/cache
""",
    "illegal-access": r"""
device-side assert|Assertion .{2,120} failed ; a kernel's own check failed (device-side assert): mostly an index outside
 of its table ;
 compare the largest token id with the vocabulary (resize_token_embeddings) and labels with the number of classes; run
 once with CUDA_LAUNCH_BLOCKING=1, or on the CPU, to see the line
misaligned address ; a kernel used an address that is not aligned ;
 pass contiguous tensors that start at multiples of 16 bytes; run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer to
 find the kernel, and update the extension it is of
unspecified launch failure ; a kernel failed while it ran: mostly an access outside of its memory ;
 run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer to find the kernel; look for an Xid of that GPU in dmesg; update
 the extension that the kernel is of
""",
    "rank-count": r"""
(?i:batch.{0,120}(?:world|gradient|micro)|train_batch_size) ; sizes of batches do not fit the number of ranks ;
 global batch = micro batch * gradient accumulation * data parallel ranks; correct one of the three in the config
""",
}
