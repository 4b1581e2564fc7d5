"""What `particulars` knows of drivers, fabrics and starts: rows of words of the evidence, the cause, and its cure."""

MACHINE_ROWS = {
    "driver-too-old": r"""
\b804\b|forward compatibility|non supported HW|CompatNotSupported ; libraries for CUDA's forward compatibility are
 loaded
 on a GPU that has none (GeForce, workstation), or beside a driver that they do not fit ;
 remove cuda-compat-* from the image and /usr/local/cuda/compat from LD_LIBRARY_PATH and /etc/ld.so.conf.d; then update
 the host's driver, or use an image of the CUDA version that nvidia-smi shows
unsupported toolchain|UNSUPPORTED_PTX|\b222\b ; a kernel was compiled by a newer CUDA toolkit than this driver knows ;
 update the driver, or build with the CUDA version that nvidia-smi shows (nvcc, Triton's ptxas, NVRTC)
""",
    "driver-mismatch": r"""
\b803\b|unsupported display driver|SYSTEM_DRIVER_MISMATCH ; the process loads a libcuda of another driver than the
 kernel
 module (error 803): the container brings its own, or the driver was updated without a reboot ;
 ldconfig -p | grep libcuda in the same container: remove cuda-compat and nvidia-driver packages from the image; on the
 host reboot or reload the nvidia modules
""",
    "p2p-broken": r"""
P2P is disabled between ; {title}, though their links would allow it ;
 switch IOMMU and ACS off (BIOS, kernel command line), update the driver, in a VM ask the provider.
 NCCL_IGNORE_DISABLED_P2P=1 only silences it
RTX \d000 series doesn't support ; the program does not start on these cards, which have no direct access to each
 other (P2P): it asks for NCCL_P2P_DISABLE=1 and NCCL_IB_DISABLE=1 first ;
 export NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1 before the start, or newer accelerate, which sets them itself; each in its
 own export, on all hosts. Nothing is to be mended at the machine
ipcUtils|cudaIpc|[Ii]pcMemory|custom_all_?reduce|tensorrt_llm|TensorRT-LLM ; these GPUs have no peer access (P2P), which
 the program's own all-reduce needs ;
 build or start without it (TensorRT-LLM: --use_custom_all_reduce disable, allreduce_strategy NCCL; servers:
 --disable-custom-all-reduce), so that NCCL goes through host memory; nvidia-smi topo -p2p r shows the pairs. Where the
 GPUs should have it: IOMMU and ACS off
""",
    "sharp": r"""
\bSAT tree|[Tt]ree lock ; another job holds the fabric's tree for streaming reductions (SHARP), which serves one at a
 time ;
 wait for that job, or end it (squeue, and sharp_am's log of jobs); clear what ended jobs left (sharp_manager). Until
 then NCCL goes on without SHARP
must bind to port with master SM|sharp_am\.service\b.{0,60}(?:fail|exited) ; SHARP's aggregation manager (sharp_am) has
 ended, or does not run on the host that is the master subnet manager now, so that no SHARP job can be made ;
 start and enable sharp_am on that host (sminfo names the master; systemctl enable --now sharp_am), on both hosts that
 may take it over. Until then NCCL_COLLNET_ENABLE=0, and no NCCL_ALGO that allows CollNet alone
create SHARP job|No resources|service record|AM not reachable|Aggregation Manager|connect ; SHARP's aggregation manager
 (sharp_am) is not reached, or has no tree left for this job ;
 on the subnet manager's host: systemctl status sharp_am, its log and reservations; sharp_hello on a node. Until then
 NCCL_COLLNET_ENABLE=0
""",
    "fabric-manager": r"""
Pre-NVL5|NV_WARN_NOTHING_TO_DO|NVSwitch device information ; the fabric manager finds no NVSwitch through the driver:
 the
 machine has none, or those of NVLink 5 (B200, GB200), which it reaches by nvlsm and RDMA devices ;
 B200 and newer: modprobe mlx5_ib ib_umad (linux-modules-extra), install nvlsm of the fabric manager's release, restart
 nvidia-fabricmanager; nvidia-smi -q must show Fabric State Completed. Without NVSwitches disable the service: nothing
 needs it
config file item|invalid value ; the fabric manager refuses its configuration ;
 take the fabricmanager.cfg of the installed package; the folders that it names (log, topology, database) must exist and
 be writable
NVLSM|nvlsm ; the subnet manager of NVLink (nvlsm), which the fabric manager needs on B200 and newer, does not run ;
 install nvlsm of the fabric manager's release, modprobe ib_umad mlx5_ib, read /var/log/nvlsm.log, then restart
 nvidia-fabricmanager
\bStatus *: *Insufficient Resources|fabric\.status: Insufficient ; the GPUs have not joined the NVLink fabric: its
 manager refused them (Status: Insufficient Resources), so they get no CliqueId ;
 drain that host, and reset its GPUs or power-cycle it. The log of its fabric manager says what it lacks: a port or
 switch, its partition, the same firmware. On racks such as GB200 NVL72 that is the log of the switches (NMX-C, NVOS).
 NCCL goes over NICs until then
State *: *(?:In Progress|Not Started)|fabric\.state ; the GPUs wait to be registered with the NVLink fabric: the fabric
 manager (on B200 and newer its nvlsm too) does not run ;
 systemctl status nvidia-fabricmanager and its log; install it in the driver's exact version and start it; in a VM the
 provider's host runs it
""",
    "rank-count": r"""
mpiSize|MPI (?:world )?size|tp \* ?pp|tp_size ?\* ; the number of MPI processes is not what the engine was built for ;
 mpirun -n (srun -n) as many as tp_size * pp_size * cp_size, one GPU each, or build the engine for that number
""",
    "rendezvous-timeout": r"""
tasks? that reached the barrier|Wait_for_all_tasks|coordination.{0,40}[Bb]arrier ; not all processes of a JAX job
 reached
 its start ;
 read the logs of the tasks that are named: never started, crashed while they loaded, or another coordinator address.
 All take one num_processes and coordinator_address, whose port is open. Where starts are slow set
 initialization_timeout=SECONDS
etcd|no leader ; etcd, over which the processes find each other, does not answer ;
 etcdctl endpoint health; give every process its address (--rdzv-endpoint); a full disk or a lost majority stops it. The
 c10d backend needs none
RendezvousClosedError ; the rendezvous was closed: another node ended this run before ;
 start all nodes again with a new --rdzv-id; look at the node that ended first
quorum ; replicas of the job did not reach a quorum ;
 see that the lighthouse and as many replica groups as --min_replicas run; raise the quorum's timeouts where starts
 differ
waiting for group|to be resolved ; not all workers of a TensorFlow job joined its group ;
 one TF_CONFIG on all workers, differing in the index alone; every worker started and its port open; the same number of
 GPUs on each
""",
    "ib-invalid-gid": r"""
No such device|errno 19\b ; the RDMA device or port of that queue pair is gone, or its GID belongs to an interface that
 the process does not see ;
 ibv_devinfo in the same container: the port must be Active and its interface in this network namespace (RoCE: host
 network, or the RDMA plugin's own). Name the devices that work (NCCL_IB_HCA)
No data available|(?:error|errno:?|with|code:?) \(?-?61\b|GID\b.{0,60}(?:zero|null|empty) ; the
 entry of the GID table that is used is empty: the interface has no address of that kind ;
 show_gids on both hosts; unset NCCL_IB_GID_INDEX, or set the index of RoCE v2 with an IPv4 address; give the interface
 its address, in the container too
GID table change|unknown event type \(18\) ; the addresses of an RDMA interface changed while the job ran ;
 keep the interface's addresses fixed (DHCP, NetworkManager, bonding, keepalived); the GID index stays right then
""",
    "network-not-found": r"""
undefined symbol|symbol lookup error|version \S{1,30} not (?:found|defined) ; the network plugin needs another release
 of a
 library (libfabric, libibverbs, NCCL) than the one that is loaded ;
 ldd -r on the plugin's file shows what is missing: put the libraries that came with the plugin (EFA:
 /opt/amazon/efa/lib)
 before others in LD_LIBRARY_PATH, in the image too
GDAKI ; no NIC of this host can be driven by GPU kernels (GIN over GDAKI) ;
 ConnectX-6 Dx or newer with DOCA and a driver that allows it; NCCL_GIN_TYPE=2 takes the proxy, NCCL_GIN_ENABLE=0 none
NET/OFI|libfabric|fi_getinfo|aws-ofi ; the plugin for libfabric (EFA) found no provider on this host ;
 fi_info -p efa in the same container must list devices. Attach EFA to the instance, give the container
 /dev/infiniband (vpc.amazonaws.com/efa), use the libfabric of the EFA installer before others in LD_LIBRARY_PATH.
 Outside of AWS: NCCL_NET_PLUGIN=none
\bgIB\b ; Google's plugin for RDMA (gIB) did not start ;
 mount /usr/local/gib with the plugin of this machine type, source its set_nccl_env.sh, give the pod all RDMA networks
""",
    "slingshot": r"""
(?:valid|default) (?:default )?(?:rgroup|VNI)[\w ]{0,12}(?:and (?:vni|rgroup))? for (?P<nic>cxi\d{1,2}) ;
 Slingshot has no service and network number (VNI) for this job on {nic}: it was started without, or plugin and
 libfabric do not fit each other ;
 start the ranks by srun on a Slurm with HPE's Slingshot plugin (srun --network=job_vni or single_node_vni; cxi_service
 list, env | grep SLINGSHOT_ in the job). In containers hand on /dev/cxi* and the SLINGSHOT_ variables. Then use a
 release of aws-ofi-nccl that fits this libfabric (old ones fail with -38, Function not implemented)
""",
    "gpu-slowdown": r"""
clocks are limited to \d{2,5} MHz(?: by hand| of)|clocks set by hand ; somebody set a GPU's clock low (nvidia-smi -ac or
 -lgc), and nothing set it back ;
 nvidia-smi -rac -i GPU and nvidia-smi -rgc -i GPU, and look for what sets it: a prolog, an epilog, or somebody's test
power\.limit: (?P<cap>\d{2,4})\b.{0,200}power\.default_limit: (?!(?P=cap)\b)\d|power is limited to \d{2,4} W
 of ; somebody lowered a GPU's limit of power, which holds its clock down ;
 nvidia-smi -i GPU -pl DEFAULT (Default Power Limit of nvidia-smi -q -d POWER), and look for what sets it: a service of
 the site, the BMC, DCGM's policy
(?:Power Brake[\w ]{0,12}: *Active|power_brake\w{0,12}\W{1,4}(?:Active|1\b|True)) ; the host's power supply tells
 the GPUs to
 slow down ;
 all power supplies plugged in and healthy (ipmitool sdr type "Power Supply"), both feeds of the rack on, BMC's
 power cap
(?:HW |SW )Thermal Slowdown *: *Active|[hs]w_thermal_slowdown\W{1,4}(?:Active|1\b|True) ; a GPU is too hot and
 slows itself
 down ;
 fans, dust, blanking panels and inlet temperature of that host (ipmitool sdr type Fan, nvidia-smi -q -d TEMPERATURE);
 leave it out until the GPU stays below its limit under load
""",
    "ib-pkey": r"""
different partitions of InfiniBand ; two hosts are in different partitions of InfiniBand (P_Key), so that none of their
 packets reach each other ;
 Azure: make all VMs in one scale set or availability set, of one placement group, which share a key. Elsewhere let the
 subnet manager put the ports of all hosts into one partition, as full members
limited members of one partition: (?P<who>[^;\n]{1,160}) ; hosts are limited members of their partition (P_Key {who}):
 two limited members cannot talk to each other, only to a full one ;
 make all ports of the job full members: UFM's partition, or =full (defmember=full) in opensm's partitions.conf. Each
 pkeys table then shows the key with its high bit (0x8...). No cable, NIC or time limit is at fault
""",
    "mtu": r"""
a packet of \d+ bytes does not reach|pmtu ; packets as large as the interfaces send do not come through: a switch or
 VLAN on the path carries smaller ones (MTU) ;
 set MTU 9000 and more on all switch ports and VLANs of the path, or 1500 on the NICs of all hosts (RoCE then takes
 1024). Then ping -M do -s 8972 must pass
""",
    "efa-error": r"""
4126\b|reachable by EFA device but handshake failed|Unreachable remote|never received a response ; EFA's packets do not
 come through between two instances: their security group has no rule to itself, in or out, or the peer did not start ;
 the security group needs all traffic from itself and, outbound, to itself: 0.0.0.0/0 is not enough for EFA. Both
 instances in one subnet; then fi_pingpong -p efa between them. Else look for the peer's first error
[Uu]nresponsive (?:remote|receiver)|[Uu]nreachable remote|\(41\d\d\).{0,40}(?:never established|peer) ; EFA packets
 get no answer from the peer: its security group lets no traffic in, or its process ended ;
 the security group must allow all traffic from itself and to itself (inbound and outbound rules). Put both hosts into
 one availability zone, and test by fi_pingpong -p efa between the two. Where that runs, the peer died first: read its
 log
""",
    "nvml-missing": r"""
(?:initiali[sz]e NVML|NVMLError_Unknown)\W{1,4}Unknown ; the container has lost its rights to the GPUs (cgroup), as
 after
 `systemctl daemon-reload` or an upgrade on the host ;
 restart the container. So that it does not come again: name the devices (--device /dev/nvidia0 and all others, or CDI),
 or let Docker use the cgroupfs driver. Where it never worked: rights of /dev/nvidia* on the host
""",
    "gpu-memory-error": r"""
Remapp\w+ (?:Occurred|failure\w*) *: *(?:Yes|[1-9])|\bremapped_rows\.failure: (?:Yes|[1-9])|ROW_REMAP_FAIL ; rows of
 GPU memory could not be replaced: no spare ones are left ;
 take the node out and have that GPU replaced; a reset does not mend it
""",
    "imex": r"""
nvidia-caps-imex-channels\S{0,20}\W{1,4}(?:No such|not found)|cannot access \S{0,4}/dev/nvidia-caps-imex ; this host, or
 its container, has no channel of IMEX, without which no memory can be shared over the NVLink domain ;
 make the channel: options nvidia NVreg_CreateImexChannel0=1, nvidia-modprobe -c 0 -s -i 0 or Slurm's
 switch/nvidia_imex,
 and give it to the container (--device /dev/nvidia-caps-imex-channels/channel0; Kubernetes: a ComputeDomain).
 Until then
 NCCL_MNNVL_ENABLE=0
""",
    "gpu-permission": r"""
(?:/dev/nvidia\S{0,12}.{0,40}not permitted|not permitted.{0,40}/dev/nvidia) ; the container has lost its rights to the
 GPUs (cgroup), as after `systemctl daemon-reload` or an upgrade on the host ;
 restart the container. So that it does not come again: name the devices (--device /dev/nvidia0 and all others, or CDI),
 or let Docker use the cgroupfs driver
/dev/kfd|/dev/dri|render|video ; the user may not open AMD's devices (/dev/kfd, /dev/dri) ;
 add the user to the groups that own them (render, video; --group-add in containers), give the container
 --device=/dev/kfd --device=/dev/dri
avc: +denied|apparmor ; SELinux or AppArmor of the host forbids it ;
 label the volume (:z), --security-opt label=disable or apparmor=unconfined, or a policy module (audit2allow)
PermissionError: \[Errno 13\] Permission denied: '(?P<path>(?!/dev/|/sys/|/proc/)[^'\n]{1,160})' ; the program may not
 open or write {path} ;
 see owner and rights of that file and its folders on the rank's host (ls -ld, id), or name another folder. In a
 container: the user it runs as (--user), and how the volume is mounted
""",
    "kv-transfer": r"""
REG|register|memory|memlock|NIXL_ERR_NOT_ALLOWED ; a server cannot register its cache with the NIC ;
 unlimited memlock in the container, nvidia_peermem or DMA-BUF on the host, /dev/infiniband in the container; smaller
 pools where the NIC's limit is met
handshake|endpoint|connection|connect|REMOTE_DISCONNECT|not active|inactive|GID|gid ; the engines of two servers do not
 reach each other over RDMA ;
 name NICs that reach each other on both sides (--disaggregation-ib-device, UCX_NET_DEVICES), the GID of RoCE v2
 (MC_GID_INDEX, UCX_IB_GID_INDEX); see whether the other server died first; open its ports
""",
    "window-mismatch": r"""
overlapping devices ; two ranks of a group for symmetric memory give the same device number. Each sees only its own GPU,
 as device 0 (CUDA_VISIBLE_DEVICES, as Ray and some launchers set it), one GPU was given to both, or they are on
 different hosts ;
 let each rank see all GPUs of its host and choose its own (set_device(LOCAL_RANK); for Ray
 RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES=1). Make such groups of the ranks of one host, or of one NVLink domain with
 IMEX and fabric handles. Other groups do without symmetric memory
""",
    "collective-mismatch": r"""
submitted to be reduced, gathered or broadcasted by subset|Stalled ranks ; only some ranks hand over a tensor to
 Horovod,
 and the others never do ;
 the lines Missing ranks (Stalled ranks) name who: look at their logs and stacks first (crash, data that ran out,
 another
 branch). Every rank must reduce the same tensors in every step; hvd.join() where data is uneven
""",
    "connection-refused": r"""
\b127\.0\.1\.1\b ; ranks connect to 127.0.1.1, which is each host's own: a peer's host resolves its own name to that
 (/etc/hosts); on one host alone the peer's process is gone ;
 getent hosts $(hostname) on every host: take its name off the 127.0.1.1 line of /etc/hosts and give it the address
 between the hosts, or name the interface (GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME). On one host read the log of the rank
 that ended
SocketHandShake|HandShakePlugin|transfer_(?:metadata|engine)|rdma_endpoint|mooncake|nixl ; the transfer engine of the
 peer
 (Mooncake, NIXL) does not listen at the address that it gave ;
 see that the peer's server runs and tells an address that others reach (host name or --host of its own, no
 127.0.0.1). Open its ports; where it was restarted, clear its old entry in the metadata server
/job:worker|grpc|ipv4:|ipv6: ; a worker's server (gRPC) does not listen at its address: not started, ended, or named
 wrongly ;
 read that worker's own log first; the same cluster list (TF_CONFIG, coordinator_address) on all, each worker started,
 its port open
""",
    "kubernetes-event": r"""
Topology\w*Error|Topology locality ; the kubelet's topology manager finds no processors, memory and devices on one NUMA
 node (or on as many as its policy allows) for the pod ;
 ask for whole nodes (all GPUs and their processors), let the node use topologyManagerPolicy best-effort or
 prefer-closest-numa-nodes, or free what other pods hold there
OutOf(?P<what>[\w./-]+) ; the kubelet has less {what} left than the scheduler counted on ;
 kubectl describe node (Allocatable, Allocated); static pods and a restarted device plugin change it; delete the pod, so
 that it is placed again, and cordon the node where it repeats
NodeAffinity|NodeShutdown|NodePorts|PodOSNotSupported|Pod was rejected ; the kubelet of that node refuses the pod ;
 kubectl describe pod (Reason, Message) and node: labels that changed, a node that shuts down, a port that is taken;
 correct that, or let it be placed elsewhere
""",
    "tcpx-error": r"""
rx ctrl timeout ; Google's plugin (TCPX) waits for a control message of a peer: that rank, its receive daemon or the way
 to it is late. Such lines tell of a wait, and of no failure by themselves ;
 look at the peer of each such line (the address behind <-): whether its rank has come to the same collective, and the
 log of its receive daemon (rxdm). Take plugin, daemon, image and NCCL of one release, with the settings that Google
 gives for it. Where only the first start of the day is slow, see what ranks load then
no ctrl interface|SOCKET_IFNAME|interfaces? (?:not|that)|[Nn]o (?:network )?interface ; the plugin of Google's machines
 finds no network interface of the names that it was given ;
 ip -br addr in the pod must show the interfaces of all its networks (annotation networking.gke.io/interfaces,
 hostNetwork); correct NCCL_GPUDIRECTTCPX_SOCKET_IFNAME and _CTRL_DEV (NCCL_FASTRAK_IFNAME, NCCL_FASTRAK_CTRL_DEV)
""",
    "nvswitch-error": r"""
NVLink (?:access|trunk) (?:link )?connection|access NVLink fail|trunk NVLink fail|not trained ; a link between a GPU
 and an
 NVSwitch did not come up, and the fabric manager leaves that GPU or link out ;
 nvidia-smi nvlink -s on the GPU that is named. Reset GPUs and NVSwitches together (a cold reboot), reseat the board or
 tray, and have it replaced where the link stays down
""",
    "nvlink-error": r"""
NVLink (?:access|trunk) (?:link )?connection|access NVLink fail|trunk (?:NVLink|connections? are missing)|not trained
 ; a link
 between a
 GPU and an NVSwitch did not come up, and the fabric manager leaves that GPU or link out ;
 nvidia-smi nvlink -s on the GPU that is named. Reset GPUs and NVSwitches together (a cold reboot), reseat the board or
 tray, and have it replaced where the link stays down
""",
    "gpu-too-new": r"""
ncclMaxSharedMem (?P<needs>\d{3,7}) exceeds .{0,30}maxSharedMem (?P<has>\d{3,7}) ; this release of NCCL does not fit
 this GPU: its kernels want {needs} bytes of shared memory of a GPU that gives {has}, and do not start ;
 NCCL 2.26.2 or newer, which fits such GPUs. It comes with a newer framework, by pip install -U nvidia-nccl-cu12, or
 from the folder in LD_LIBRARY_PATH. 2.25.1 on RTX 50xx is known for this, its build for CUDA 12.8 too. P2P and /dev/shm
 do not matter here
hip|HIP|gfx\d|code object|ROCm ; the program or library has no code for this AMD GPU (gfx) ;
 rocminfo shows its gfx name: take the build of ROCm and framework that lists it, or build with
 PYTORCH_ROCM_ARCH=gfxNNN; HSA_OVERRIDE_GFX_VERSION only for cards of the same family
""",
    "gpu-not-visible": r"""
could not select device driver|capabilities: \[\[gpu ; Docker has no way to give GPUs to containers ;
 install nvidia-container-toolkit, nvidia-ctk runtime configure --runtime=docker, restart docker; then docker run
 --gpus all
not compiled with CUDA|platform CUDA|CPU-only ; the framework that is installed was built without CUDA ;
 install its CUDA build (pip index or conda channel of that CUDA version), and no other build of it before that one in
 PYTHONPATH
""",
    "plugin-not-loaded": r"""
version `(?P<what>FABRIC_[\d.]+)'|(?P<symbol>\bundefined symbol: fi_\w+) ; the network plugin is there and cannot be
 loaded: it was built for a newer libfabric than the one that is found ({what}{symbol}) ;
 update libfabric (EFA: the aws-efa-installer) and let LD_LIBRARY_PATH find it before older ones; or install the
 plugin's release for the libfabric that is there (fi_info --version)
version `(?P<what>(?:IBVERBS|MLX5|EFA|RDMACM|MANA|BNXT_RE)_[\d.]+)'|(?P<symbol>\bundefined
 symbol: (?:ibv|mlx5dv|rdma)_\w+) ; the network plugin is there and cannot be loaded: it was built for a newer rdma-core
 than the one that is found ({what}{symbol}) ;
 update rdma-core (libibverbs, libmlx5) in the image, or install the plugin that fits it
version `(?P<what>(?:GLIBCXX|CXXABI)_[\d.]+)' ; the network plugin is there and cannot be loaded: it needs a newer
 libstdc++ than the one that is found ({what}) ;
 take the image's newer libstdc++ (conda: install libstdcxx-ng, or let LD_LIBRARY_PATH find the system's first), or a
 plugin that was built here
(?P<symbol>\bundefined symbol: (?:ucp|uct|ucs|sharp|nccl)\w+) ; the network plugin is there and cannot be loaded: a
 library that it needs is of another release ({symbol}) ;
 let LD_LIBRARY_PATH find the libraries that came with the plugin first (HPC-X: its folders ucx, sharp and
 nccl_rdma_sharp_plugin, one release); ldd -r on the plugin's file shows what is missing
(?:dlerror=|returned \d+ : )(?!\S{0,200}lib[nr]ccl-net)(?P<library>\S{3,120}): cannot open shared object ; the network
 plugin is there and cannot be loaded: a library that it needs is not found: {library} ;
 install that library in the image of every node and put its folder into LD_LIBRARY_PATH; ldd on the plugin's file shows
 all that are missing
""",
    "ib-retry": r"""
local ?G[Ii][Ds]?\W{0,3}fe80::(?:[\da-f]{1,4}:){0,2}[\da-f]{0,2}ff:fe[\da-f]{2}:[\da-f]{1,4}\b ; the NIC's address for
 RoCE (its GID) is link-local (fe80::), which no router carries to the peer's subnet ;
 unset NCCL_IB_GID_INDEX (NCCL 2.21 and later choose well), or set it to the RoCE v2 entry with an IPv4 address
 (show_gids, often 3) on all nodes
lGid ::ffff:(?P<mine>[\d.]{5,11})\.\d{1,3} remoteGids ?:{2,3} ?ffff:(?!(?P=mine)\.\d{1,3}\b)(?P<peer>[\d.]{5,11})\.\d
 ; a NIC of subnet {mine} sends to one of subnet {peer}, and gets no answer: their rails may have no way to each other ;
 give the NICs of all hosts the same order and cabling, so that each name is on the same rail everywhere (ibdev2netdev,
 ip addr). Set NCCL_CROSS_NIC=0, or route between the subnets. Where they are routed, try the path itself: ping -I,
 ib_write_bw -R
""",
    "gpu-memory-full": r"""
transport/nvls\w*\.cc.{0,60}out of memory ; GPU memory is full where NCCL makes the NVLS buffers of one more
 communicator: each communicator takes its own, often 1 to 3 GiB ;
 make fewer communicators or share their buffers (splitShare=1), leave more of the GPU free (a smaller pool of the
 program); NCCL_NVLS_ENABLE=0 or fewer channels (NCCL_MAX_CTAS) make them smaller
""",
    "roce-loss": r"""
OOO RQ is force enabled but ; NCCL_IB_OOO_RQ=1 asks for receive queues out of order, which this NIC or its peer does
 not offer so ; remove NCCL_IB_OOO_RQ (NCCL's own value is 0), or turn adaptive routing on for these NICs
 (NCCL_IB_ADAPTIVE_ROUTING=1, the fabric must have it) with one firmware and driver on all nodes
""",
    "no-route": r"""
(?:REJECT|DROP|BLOCK|DENY)\w*\W.{0,200}\bSRC=(?P<peer>[\d.]{7,15}) .{0,300}\bDPT=(?P<port>\d{1,5}) ; the firewall of the
 host that is called rejects the connection from {peer} to port {port} ;
 open all ports between the hosts (firewall-cmd --zone=trusted --add-source=SUBNET, ufw allow from SUBNET): NCCL takes
 ports at random. Or let net.ipv4.ip_local_port_range be a range that is open
""",
}
