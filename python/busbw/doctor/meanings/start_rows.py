"""Rows of clues (as `clue_rows` has them) of starts: EFA's own codes, MPI and PMIx in containers, late names."""

from __future__ import annotations

_GROUP_CURE = (
    "give the security group of these instances rules that allow all traffic (protocol all, not only TCP) from and to "
    "the group itself, in both directions. EFA's packets are neither TCP nor UDP: ssh and sockets work without it. "
    "Both nodes belong in one subnet (zone). Then fi_pingpong -p efa between them. Where one side alone reports it, "
    "its peer ended first"
)
_HIP_IPC = r"hipIpc(?:Get|Open)MemHandle\b[^\n]{0,40}(?:fail|invalid)"
_HIP_CURE = (
    "install amdgpu-dkms of the release that the program's ROCm has (amd-smi version; ls /dev/kfd), and boot with "
    "amd_iommu=on iommu=pt. Then export HSA_FORCE_FINE_GRAIN_PCIE=1, and switch Above 4G and Resizable BAR on in the "
    "BIOS. As a test, and until then, NCCL_P2P_DISABLE=1: data goes through the host's memory. RCCL need not be built "
    "anew"
)
_TX_ERROR = r"(?:rxr|efa_rdm)_\w{2,30}error\w{0,20}\b[^\n]{0,60}\berr: \d{1,3}, prov_err: "
_EFA_CODE_21 = r"err: 21, prov_err: Unknown error 21|\bcompleted with error\. RC: 21\."
_HERE = r"(?:posix|sysv|self|mm|cma|knem|xpmem|sockcm|rdmacm|tcp_cm|cuda_copy|cuda_ipc|gdr_copy|rocm_\w{2,8})"
_NOT_BETWEEN = rf"transport to [^:\n]{{1,80}}: (?:{_HERE}/[\w:.-]{{1,24}} - [^,\n]{{3,60}}(?:, |$)){{2,16}}$"
"""UCX tells of each transport that it has why it does not serve: here none that leads to another host."""
_BETWEEN = r"Transport: (?:rc|ud|dc|tcp\b(?!_cm)|ib|srd|gga|ugni)"
_WITH_NETWORK = (
    "install UCX's RDMA part (ucx-ib, or MLNX_OFED/DOCA's ucx), or build UCX --with-verbs beside rdma-core and its "
    "headers. ucx_info -d must list rc, ud or tcp on all hosts. There ibv_devinfo must show an active port, and "
    "containers need /dev/infiniband. Until then do without UCX: FI_PROVIDER=verbs or tcp (Intel MPI), --mca pml ob1 "
    "(Open MPI). UCX_TLS cannot bring what is not built in"
)
_NESTED = r"\bsrun\b(?P<srun>(?:[^\n|;\\]|\\\n){1,600}?)\s(?P<mpirun>mpirun|mpiexec|prterun)\s"
_ONE_TASK = (
    r"\bsrun\b(?:[^\n|;\\]|\\\n){0,400}?\s(?:-n|--ntasks)[ =]?1\s(?:[^\n|;\\]|\\\n){0,400}?"
    r"\b(?:mpirun|mpiexec|prterun)\s"
)
_SSH_FAILS = (
    r"Host key verification failed|Permission denied \(publickey|ssh: (?:command )?not found|ssh: connect to host"
    r"|reliably start one or more daemons"
)
_LACKS = r"requested component was not found(?:[^\n]{0,200}\n){1,10}[^\n]{0,40}Framework: +"
_COMPONENT = r"[^\n]{0,20}\n[^\n]{0,40}Component: +(?P<component>\w{1,30})"
_DOCKER_URI = r"(?:;|uri[^\n]{0,40})tcp://(?P<ip>172\.17\.\d{1,3}\.\d{1,3}):\d"
_IN_DOCKER = r"\bdocker\b|\bcontainers?\b|@[0-9a-f]{12}:|\[[0-9a-f]{12}:\d"
_C10D_END = r"--rdzv[-_]endpoint[= ](?P<end>\"?[\w.${}\[\]-]{1,80}:(?P<port>\d{2,5})\b)"

START_ROWS = {
    "efa-error": rf"""
remote rails for dev (?P<dev>\d{{1,3}})\. Expected (?P<own>\d{{1,3}}) but got (?P<other>\d{{1,3}}) ; the other node
 offers {{other}} EFA devices for device {{dev}}, and this one {{own}}: a NIC is missing there, or its plugin is of
 another release ; count the devices on all nodes (fi_info -p efa | grep -c domain; ls /sys/class/infiniband), and
 look at the peer of the rank that reports it. Drain the node that has fewer, and see dmesg there. Where all have as
 many, install one release of aws-ofi-nccl and libfabric on all
{_TX_ERROR}Not a directory|\bcompleted with error\. RC: 20\. ; EFA's packets do not reach the other node (its code
 20: the peer gives no answer), which the log shows as `Not a directory`: mostly the security group lets no EFA through
 ; {_GROUP_CURE}. The number is none of errno: no path or folder is at fault
{_TX_ERROR}Permission denied ; the other end of EFA takes no messages (EFA's code 13: receiver not ready), which the log
 shows as `Permission denied` ; look for the first error, or the slow rank, at the other end: its process stands still
 or is busy. The number is none of errno: no rights are missing
{_TX_ERROR}Block device required ; the other end of EFA is gone (EFA's code 15: no such queue pair there), which the log
 shows as `Block device required` ; look for the first error of the rank at the other end: it ended, or started anew.
 The number is none of errno: no device is missing
{_EFA_CODE_21} && direction: SEND|via NET/AWS Libfabric ; a message over EFA to the other node fails (code 21, an error
 without a name), though sockets reach it: mostly its security group lets no EFA through ; {_GROUP_CURE}. If it still
 fails, install the newest EFA installer and plugin on all nodes. To go on without EFA: FI_PROVIDER=tcp, or
 NCCL_NET=Socket. The number is none of errno: no setting is refused
Failed to process command (?P<command>ALLOC_PD|CREATE_(?:QP|CQ|AH|EQ)|ALLOC_UAR)\b[^\n]{{0,60}}\berr -12\b ; the EFA
 device refuses its driver's command {{command}} for want of room (err -12, ENOMEM, in the kernel's log): what libfabric
 then says follows from it ; end processes that are left of earlier jobs (fuser -v /dev/infiniband/uverbs*). Then
 unload and load the driver (modprobe -r efa; modprobe efa) or reboot, and install the newest EFA installer on all nodes
 (kernel module, libfabric and plugin of one release). If it returns, stop and start the instance. Security groups, GID
 and NCCL's settings have no part in it
""",
    "fabric-manager": r"""
transport/nvls\.cc:\d{1,5}[^\n]{0,60}Cuda failure 802 && \bMNNVL\b[^\n]{0,120}\bstate 3\b ; NVLink multicast (NVLS)
 cannot be set up: the GPUs have joined the NVLink fabric (state 3), and its manager has not made it ready for
 multicast (error 802) ; on racks such as GB200 NVL72 look at the switch trays: their fabric manager and NVLSM (NMX-C)
 must run, in one release, with all switches and this node's partition. On the nodes nvidia-smi -q shows the state of
 the fabric, and nvidia-imex-ctl -N that of IMEX. On HGX machines restart nvidia-fabricmanager, of the driver's version.
 Until then NCCL_NVLS_ENABLE=0
transport/nvls\.cc:\d{1,5}[^\n]{0,60}Cuda failure 802 && !Error 802 ; NVLink multicast (NVLS) cannot be set up: the
 fabric manager has not made the NVLink fabric ready for it (error 802) ; {fix}. Until then NCCL_NVLS_ENABLE=0
""",
    "pmi mpi-other": rf"""
{_LACKS}psec{_COMPONENT} ; the PMIx of this image has no component {{component}} (psec: how a process proves who it
 is), which the launcher's PMIx told it to use ; export PMIX_MCA_psec=native before srun (with pyxis add
 --container-env=PMIX_MCA_psec), so that both sides take what each PMIx has. Or put {{component}} into the image: its
 library (libmunge), a PMIx built with it, and its socket (/run/munge) as a mount. The host's Slurm, PMIx and the
 network are right
{_LACKS}(?P<framework>gds|pcompress|bfrops|ptl|preg|psquash){_COMPONENT} ; the PMIx of this image has no component
 {{component}} ({{framework}}), which it was told to use: the launcher's PMIx is another build or release ; unset
 PMIX_MCA_{{framework}} where it is set (env | grep PMIX_MCA). Where the launcher sets it: PMIX_MCA_{{framework}} with
 what both have (for gds: hash). Or build the image with the PMIx of the hosts
""",
    "efa-missing memlock": r"""
ibv_create_(?P<what>qp|cq)\b[^\n]{0,40}(?:Cannot allocate memory|Invalid argument) && ^\S{0,4}\s?\d{1,3}:
 (?P<nic>\w{4,16}): [^\n]{0,120}\bctx (?P<ctx>[1-9]\d{3,6})\b ; the NIC or its driver has no room for more users:
 {nic} has {ctx} contexts open (rdma res), and the next one gets no queue pair (ibv_create_{what}) ; fewer
 processes per NIC, or let them share one endpoint; have each open one device alone and not all. Compare the limits of
 the firmware (contexts, UAR, log_max_qp) with the vendor, and update firmware and driver. Neither max_qp nor locked
 memory is what is full
""",
    "efa-missing": r"""
\bFI_PROVIDER\W{1,5}(?P<name>verbs|psm[23]?|cxi|opx|mlx|ucx|tcp|sockets) && !provider: efa|Elastic
 Fabric|vpc\.amazonaws|\bp[345]\w{0,3}\.\d{1,2}xlarge|/opt/amazon/efa ; libfabric's provider {name}, which FI_PROVIDER
 asks for, offers nothing here (-61): it finds no device or address that it may use ; fi_info -p {name} on that host,
 with FI_LOG_LEVEL=info, tells why. It must be built in; verbs needs an active port with an IP address (ibv_devinfo, ip
 addr) and /dev/infiniband; psm3 and cxi their own devices. Correct FI_VERBS_IFACE, FI_VERBS_DEVICE_NAME and
 FI_TCP_IFACE, or unset FI_PROVIDER to see what is there (fi_info)
""",
    "mpi-network mpi-other": rf"""
transport to [^\n]{{1,600}}?\b(?P<end>(?:tcp|rc|ud|dc)\w{{0,8}}/[\w.:-]{{1,40}}) - no peer failure handler ; UCX has
 {{end}}, but it cannot tell when a peer fails, which this endpoint asks for (error handling): the program and this UCX
 do not fit ; take UCX and what calls it (ucx-py, UCXX, NIXL) of releases that belong together; in newer UCX tcp has
 it. Or make the endpoints without error handling (UCP_ERR_HANDLING_MODE_NONE; ucx-py: endpoint_error_handling=False),
 or allow RDMA that has it (rc in UCX_TLS). Network and firewall are not at fault
{_NOT_BETWEEN} && ^[^\n]{{0,8}}# {{1,8}}Transport: (?:posix|self|sysv)\b && !{_BETWEEN} ; this UCX has no transport
 between hosts at all: ucx_info -d lists memory of one host (posix, sysv, self, cma), and neither rc, ud, dc nor tcp ;
 {_WITH_NETWORK}
transport to [^:\n]{{1,80}}: (?:{_HERE}/[\w:.-]{{1,24}} - [^,\n]{{3,60}},
 ){{0,16}}?(?:posix|sysv|cma|knem|xpmem)/[\w:.-]{{1,24}} - no peer failure handler && {_NOT_BETWEEN} ; UCX was left
 shared memory alone, which cannot tell when a peer fails, and the endpoint asks for that (error handling) ; add a
 network to UCX_TLS (tcp, or rc with RDMA), or unset it: shared memory still carries the data where it may
{_NOT_BETWEEN} && !\bUCX_TLS(?:=| ?: ?)(?!all)\w|{_BETWEEN} ; UCX has no transport that leads to another host: it names
 memory of one host alone (posix, sysv, cma), and neither RDMA nor tcp ; {_WITH_NETWORK}
OFI Libfabric library call \((?P<call>fi_(?:domain|endpoint|enable|av_open|cq_open)) && Error: (?:Function not
 implemented|Operation not permitted|No such device|Permission denied|Required key)[^\n]{{0,30}} &&
 [Ss]lingshot|\bcxi\d?\b|\bCray\b ; the ranks that mpirun starts itself, on its own host, have no right to the
 Slingshot NIC (no VNI): they run outside a step of Slurm, and {{call}} fails ; start with srun
 (--mpi=pmix). Or export PRTE_MCA_ras_base_launch_orted_on_hn=1 before mpirun, so that its daemon there starts by
 Slurm, too (Open MPI 5). Ranks on other hosts come by Slurm and are right. Else the site may open the default CXI
 service (cxi_service). Memory and the link are not at fault
connect\(\) to (?P<ip>172\.1[78]\.\d{{1,3}}\.\d{{1,3}}|192\.168\.122\.\d{{1,3}}):\d{{1,5}} failed ; MPI's ranks
 connect over an address of a bridge ({{ip}}, docker0 or virbr0), which every host has for itself ; name the network
 that the hosts share: --mca btl_tcp_if_include 10.0.0.0/8 (or btl_tcp_if_exclude lo,docker0,virbr0), the same for
 oob_tcp_if_include (PRRTE: prte_if_include). NCCL_SOCKET_IFNAME for NCCL itself
{_LACKS}(?P<framework>pml|mtl|btl|osc|coll|smsc){_COMPONENT} ; MPI is told to use its component {{component}}
 ({{framework}}), which this installation does not have, or whose libraries are not found on that host ; ompi_info |
 grep {{component}} shows whether it was built with it, and ldd of its mca_{{framework}}_{{component}}.so what is
 missing (LD_LIBRARY_PATH, mpirun -x). Or take that name out of the command, OMPI_MCA_{{framework}} and
 openmpi-mca-params.conf
""",
    "network-not-found efa-error": r"""
hwloc failed detecting PCI|create NCCL OFI topology ; the plugin for EFA (aws-ofi-nccl) could not read how NICs and GPUs
 are connected (hwloc) ; give the container the host's /sys as it is (no gVisor, no masked /sys/bus/pci), and the
 plugin the hwloc
 that it was built with. There lspci must list NICs and GPUs
""",
    "nvshmem-init": r"""
Multiple PEs per (?:GPU|PU) \(MPG\)|PEs are sharing the GPU ; several processes of NVSHMEM (PEs) use one GPU, for
 which it needs MPS ; let each choose a GPU of its own before nvshmem_init (cudaSetDevice of its local rank), and
 start no more per host than it has GPUs. Where they are to share: start MPS (nvidia-cuda-mps-control -d)
""",
    "process-crashed": r"""
BAD TERMINATION[^\n]{0,80}\n(?:[^\n]{0,160}\n){0,4}[^\n]{0,60}(?:KILLED BY SIGNAL: 9\b|EXIT CODE: (?:9|137)\b) ; a
 rank was killed (signal 9): most often its host or container ran out of memory ; dmesg | grep -i -e oom -e killed on
 that host; ask for more memory (--mem, the pod's limit), fewer ranks or workers there. Where memory was left,
 somebody or the scheduler ended it (sacct -j JOB -o State,MaxRSS)
""",
    "python-exception": r"""
OverflowError: [^\n]{0,60}does not fit in 'int'|Negative size passed to PyBytes && mpi4py ; a message of more than 2^31
 bytes or elements was given to MPI (mpi4py), whose counts have 32 bits ; send it in parts, or as a buffer of a larger
 type (comm.Bcast of float32 arrays, not comm.bcast of an object), or by mpi4py.util.pkl5. No such limit has
 mpi4py 4 with an MPI of version 4
""",
    "ssh-launch mpi-launch": rf"""
{_NESTED} && --container-(?:image|name)|\b(?:singularity|apptainer|enroot) && {_SSH_FAILS} && !{_ONE_TASK} ; each task
 of srun starts {{mpirun}} once more, within the container: that one tries to reach the other nodes by ssh, which fails
 there ; leave {{mpirun}} out: srun --mpi=pmix --container-image=... PROGRAM, with as many tasks as ranks (srun
 --mpi=list shows what Slurm has; the MPI of the image needs PMIx). Or call mpirun once, outside of srun and the
 container. Keys and known_hosts in the container would only start each rank many times
{_NESTED} && {_SSH_FAILS} && !{_ONE_TASK} ; each task of srun starts {{mpirun}} once more, and that one tries to reach
 the other nodes by ssh, which fails ; leave {{mpirun}} out: srun --mpi=pmix PROGRAM with as many tasks as ranks, or
 mpirun alone in the batch script. Keys for ssh would only start each rank many times
""",
    "mpi-launch": rf"""
unable to find the specified executable && ^[^\n]{{0,20}}Executable: {{1,8}}(?P<word>-[\w-]{{1,40}})\s*$ ; mpirun took
 {{word}} for the program: an option before it has a word too few or too many, or is none of this mpirun ; look at the
 words before {{word}} (--mca takes two, -x one, -H one), and at line ends of the script (a space behind a backslash)
{_DOCKER_URI} && {_IN_DOCKER} && reliably start one or more daemons|tcp_peer_send_blocking|complete a TCP connection
 && !\bdocker run [^\n]{{0,400}}--net(?:work)?[ =]host ; mpirun's container is on Docker's default bridge, and it tells
 the other hosts to connect back to {{ip}}: there that address leads nowhere, or to their own container ; start the
 containers on all hosts with --network=host (sshd there on a port of its own: plm_rsh_args -p 8022). Then name the
 hosts' network: --mca oob_tcp_if_include 192.168.0.0/24 (this connection) and btl_tcp_if_include (the ranks). Or an
 overlay network. ssh works already, and btl_tcp_* alone does not change the address
""",
    "dns": r"""
host not found: (?:Name or service|Temporary failure) && (?:nc|wget|ping): bad address '(?P<host>[\w.-]{1,120})' &&
 ^[^\n]{0,4}(?P<open>[\w.-]{1,120}) \([\d.]{7,15}:\d{1,5}\) open$ ; a host name cannot be resolved to an address at the
 start: {host}, and some seconds later it can, as its pod and service come up beside this one ; let each worker wait
 before init_process_group until the master's port answers (init container: until nc -z -w 2 NAME PORT). One nslookup
 that succeeds is too early. Or try again some times, as newer torch does; publishNotReadyAddresses: true for the
 headless service
host not found: (?:Name or service|Temporary failure) && (?:nc|wget|ping): bad address '(?P<host>[\w.-]{1,120})' ; a
 host name cannot be resolved to an address: {host} ; {fix}
""",
    "iommu-fault": rf"""
{_HIP_IPC} && Missing .{{1,3}}(?P<what>amd_iommu=on|iommu=pt).{{1,3}} from kernel ; processes cannot open the memory of
 each other's AMD GPUs (hipIpcGetMemHandle fails): the kernel's driver or its settings do not give it, and {{what}} is
 missing ; {_HIP_CURE}
Missing .{{1,3}}(?P<what>amd_iommu=on|iommu=pt).{{1,3}} from kernel &&
 !IO_PAGE_FAULT|DMAR:|AMD-Vi|ACSCtl ; the kernel was started without {{what}}, which RCCL
 asks for: transfers between GPUs may stand still or arrive wrong ; boot with amd_iommu=on iommu=pt (on Intel
 intel_iommu=on iommu=pt). Until then NCCL_P2P_DISABLE=1 as a test; ACS off on the PCIe switches where there are any
""",
    "cuda-ipc": rf"""
{_HIP_IPC} && !expandable_segments|docker run|--pid ; processes cannot open the memory of each other's AMD GPUs
 (hipIpcGetMemHandle fails): the kernel's driver, its settings or the containers do not give it ; {_HIP_CURE}
peer mapping resources exhausted|Cuda failure 711 && NCCL_P2P_DISABLE(?:=| set by environment to )1 ; {{title}} ; let
 each process see at most eight GPUs: CUDA_VISIBLE_DEVICES (and -g 8), or several processes with GPUs of their own. The
 buffers of this process are mapped for all GPUs that it sees (ncclMemAlloc, cudaDeviceEnablePeerAccess), and
 NCCL_P2P_DISABLE=1, which is set here, does not change that
""",
    "python-exception p2p-broken": r"""
enable access between nodes (?P<one>\d{1,3}) and (?P<two>\d{1,3}) ; GPUs {one} and {two} have no peer access (P2P),
 which the program's own all-reduce needs: what it calls nodes are GPUs of this host ; build or start without that
 all-reduce (TensorRT-LLM: trtllm-build --use_custom_all_reduce disable; newer: allreduce_strategy NCCL), so that NCCL
 goes through host memory. In a VM, and between cards without NVLink or P2P (A10, L4, GeForce), that is as it must be.
 The command nvidia-smi topo -p2p r shows the pairs. Where they should have it: IOMMU and ACS off
""",
    "ssh-launch": r"""
Authentication refused: bad ownership or modes for (?P<what>directory|file) (?P<path>\S{1,120}) ; sshd refuses the key
 for the owner or rights of the {what} {path} (StrictModes) ; on that host: chown it to the user who logs in, chmod 700
 the folder and 600 authorized_keys; /root itself may not be writable for others. A Secret that is mounted there needs
 defaultMode 0600 and a folder of its own. Or StrictModes no in its sshd_config. The key itself is right
""",
    "bad-arguments": r"""
Using IP address of {1,4}for node (?P<node>\S{1,80}) ; DeepSpeed found no address of the first node ({node}): it
 starts its launchers with an empty --master_addr= ; give it: deepspeed --master_addr=ADDRESS. It takes the first word
 of `ssh NODE hostname -I`: see what that prints. A banner or an empty line of the shell's start (.bashrc) spoils it
""",
    "rank-count": r"""
world_size \((?P<world>\d{1,5})\) is less than (?:than )?max local gpu count \((?P<gpus>\d{1,3})\) ; vLLM starts its
 workers on this host alone (executor mp), where {gpus} of {world} ranks
 find a GPU: a Ray cluster over hosts is not used
 ; give --distributed-executor-backend ray, and start vLLM where ray status shows all nodes. On one host: a tensor
 parallel size of at most {gpus}
""",
    "gpu-memory-full": r"""
GPU (?P<gpu>\d{1,3}) has a total capacity[^\n]{0,160}?(?:Process \d{1,9} has \d{1,4}\.\d{1,2} GiB memory in use\. ){3} ;
 GPU {gpu} is full, as three or more processes use it at once (the error lists them) ; are they ranks of this job,
 start as many as GPUs are visible (--num_processes, --nproc-per-node). Each chooses its own GPU by its local rank
 before it loads anything: a model that all load to cuda:0 is a usual slip. Where they are others', end them or take a
 free GPU
""",
    "cuda-call-failed": r"""
Failed to set cuda device ; a rank chooses a GPU that its host does not have: more ranks run there than GPUs, mostly ;
 give mpirun the hosts and as many ranks on each as it has GPUs (-H a:4,b:4 or --map-by ppr:4:node). Without a list of
 hosts all ranks start on the first one. In a container nvidia-smi -L shows which GPUs it has
""",
    "port-in-use": rf"""
{_C10D_END} && \[c10d\]|torch/distributed|torch\.distributed && !--standalone ; {{title}} ; end the left-over process on
 the first node (ss -ltnp | grep {{port}}), or give another port in --rdzv-endpoint, alike on all nodes:
 --master-port does not count beside it. Where jobs share nodes, make it of the job's id: $((20000 + SLURM_JOB_ID %
 20000))
""",
}
