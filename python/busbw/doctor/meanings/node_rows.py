"""Rows of clues (as `clue_rows` has them) of nodes: drivers that cannot be built or unloaded, runtimes, devices."""

from __future__ import annotations

_NO_NVML = r"non-NVML platform: could not load NVML|could not load NVML library|ERROR_LIBRARY_NOT_FOUND"
_OF_PLUGIN = r"Starting (?:FS|OS) watcher|nvidia-device-plugin|k8s-device-plugin|[Ii]ncompatible (?:platform|strategy)"
_RUNTIME_CURE = (
    "give the plugin's pod runtimeClassName: nvidia (helm --set runtimeClassName=nvidia), and the pods of jobs too. Or "
    "make nvidia the default runtime: nvidia-ctk runtime configure --runtime=containerd --set-as-default "
    "(K3s: --default-runtime=nvidia), then restart containerd or k3s"
)
_NVML_UNKNOWN = r"initiali[sz]e NVML: Unknown|NVMLError_Unknown|NVML_ERROR_UNKNOWN"
_RIGHTS_CURE = (
    "restart the container or pod: its rights come back, driver and GPUs need nothing. So that it does not come again: "
    "nvidia-ctk system create-dev-char-symlinks --create-all on the host, CDI, or a newer container toolkit and runc; "
    "else the cgroupfs driver. Keep automatic upgrades off these hosts"
)
_BUSY = r"NVIDIA driver kernel modules, driver is in use|Module nvidia\w{0,12} is in use|driver is in use"
_BUSY_CURE = (
    "then the driver's pod goes on by itself. Or let the driver manager do it: driver.manager.env "
    "ENABLE_GPU_POD_EVICTION=true, ENABLE_AUTO_DRAIN=true, DRAIN_USE_FORCE=true (DRAIN_DELETE_EMPTYDIR_DATA=true). "
    "Else reboot the node. Where the host has its own driver: driver.enabled=false"
)
_MADE = r"/usr/src/nvidia-(?P<driver>\d{3}[\d.]{2,12})|/dkms/nvidia/(?P<driver_>\d{3}[\d.]{2,12})"
_FOR = r"/lib/modules/(?P<kernel>\d[\w.+-]{3,60})/|[Mm]odule build (?:on|for) kernel:? (?P<kernel_>\d[\w.+-]{3,60})"
_BUILD_CURE = (
    "install a driver that knows this kernel: a newer release of the branch, a newer GPU operator (driver.version), or "
    "the open kernel modules. Or boot the older kernel and pin it. Compiler, headers and the pods that wait in Init "
    "are not at fault"
)
_CLIENT = (
    r"the client has(?: the)? version (?P<new>\d{3}[\d.]{2,12})[^\n]{0,40}\n?[^\n]{0,80}?"
    r"kernel module has(?: the)? version (?P<old>\d{3}[\d.]{2,12}(?<!\.))"
)
_SMI_HOST = r"^(?P<host>[A-Za-z][\w.-]{0,60}): [^\n]{0,60}Driver/library version mismatch"
_REBOOT_CURE = (
    "reboot that host, or unload and load the nvidia modules (no program may use a GPU), then start its part again. "
    "Keep the driver's packages out of automatic updates (apt-mark hold, dnf versionlock)"
)
_IN_CONTAINER = r"\bdocker run [^\n]{0,600}|\bkubectl |\benroot |\bsrun [^\n]{0,300}--container"
_ON_HOST = (
    r"^(?![^\n]{0,300}(?:docker|kubectl|enroot|srun))[^\n]{0,80}[$#] ?fi_info\b[^\n]{0,80}\n"
    r"(?:provider: efa\b|[1-9]\d{0,2}\s{0,4}$)"
    r"|^\[?(?!root@)\w{2,20}@[^\n]{0,60}[$#] ?ls [^\n]{0,40}/dev/infiniband[^\n]{0,40}\n[^\n]{0,80}\buverbs0\b"
)
"""A prompt outside of the container, at which EFA's devices or libfabric's provider are listed."""
_NO_SSHD = (
    r"(?:^|[\s\"'/:])(?P<sshd>(?:/[\w.-]{1,20}){0,4}/?sshd)\"?(?:: (?:No such file|not found|command not found)"
    r"|\"?: (?:stat [^\n]{1,40}: no such file|executable file not found|no such file))"
)
"""How a shell and a container runtime say that a file to be started is not there."""
_WHOLE_FOLDER = (
    r"hostPath\"?:\s{0,40}\{?\s{0,40}\"?path\"?: ?\"?/dev/infiniband\b(?!/)"
    r"|(?:-v|--volume)[ =]/dev/infiniband:/dev/infiniband\b"
)
_NOT_OPENED = (
    r"ibv_open_device\S{0,4} failed[^\n]{0,40}errno:? ?(?P<errno>1|13)\b"
    r"|(?:ibv_open_device|uverbs\d{1,3}|[Cc]ouldn't open)[^\n]{0,80}"
    r"(?P<why>Operation not permitted|Permission denied|EPERM)"
)
_FOLDER_CURE = (
    "take the volume /dev/infiniband out of the manifest (hostPath and volumeMounts): vpc.amazonaws.com/efa in the "
    "limits gives the pod its EFA devices, and only these. Then fi_info -p efa lists the provider. privileged: true "
    "would only hide it. Security groups, plugin and libfabric are right"
)

NODE_ROWS = {
    "libibverbs-missing": r"""
Failed to open libibverbs && \buverbs\d{1,3}\b[^\n]{0,80}$ && !dlv?sym failed ; the image lacks libibverbs, so that
 NCCL uses sockets, though the RDMA devices are in the container (/dev/infiniband) ; install libibverbs1,
 ibverbs-providers and rdma-core in the image (apt-get, dnf), on all nodes; ldconfig -p lists libibverbs.so.1 then, and
 NCCL says NET/IB : Using. Devices, ports and drivers are there; plugin and GPU Direct come after it
""",
    "memlock": r"""
[Cc]all to ibv_create_(?P<what>qp|cq) failed[ \t]*$ && !Cannot allocate memory|errno 12\b|\[12\] ; RDMA's own objects
 could not be made (ibv_create_{what}, without its reason): mostly the limit on locked memory (memlock) is too low for
 RDMA ; {fix}. In containers --cap-add=IPC_LOCK and --device=/dev/infiniband belong to it. The peer and the cables have
 no part in it
""",
    "driver-not-loaded container-start": r"""
load library failed: libnvidia-ml\.so\.1 && ^\| NVIDIA-SMI \d|^GPU 0: NVIDIA|^\|[^\n]{0,60}Driver Version: \d{3} ; the
 container toolkit finds no libnvidia-ml.so.1, though the host has the driver (nvidia-smi works): the loader does not
 know its folder, or Docker runs in a box of its own ; sudo ldconfig, then ldconfig -p must list libnvidia-ml.so.1 (else
 its folder into /etc/ld.so.conf.d). Docker as a snap, or Docker Desktop, does not see the host's driver: take
 docker-ce (docker context use default). The toolkit's version and the GPU are not at fault
load library failed: libnvidia-ml\.so\.1 ; the driver's library libnvidia-ml.so.1 is not on this host, or the loader
 does not find it: NVIDIA's driver is not installed there ; install the driver for this system's kernel (nvidia-smi
 must work on the host), then sudo ldconfig, and try again. The container toolkit brings no driver of its own, and is
 right. In WSL the driver is that of Windows: wsl --update. Docker as a snap does not see the host's driver
""",
    "gpu-memory-error": r"""
^\s{0,24}Pending {2,}: Yes && !\bXid\b|ECC error|Failure Occurred {1,}: Yes|Pending Page Blacklist {1,}: Yes|uncorrected
 ; a row of a GPU's memory had an error and waits to be replaced by a spare one (Pending: Yes): the GPU's next reset
 does it ; {fix}
""",
    "plugin-system-old": r"""
\bprovider: efa\b|\bFI_PROVIDER=efa|^\s{0,40}hca_id:\s{1,8}rdmap|/opt/amazon/(?:efa|ofi-nccl)\b && Using network Socket
 ; {title}. NCCL goes over sockets by it, though EFA is there ; install aws-ofi-nccl within the image (efa_installer.sh
 -y --skip-kmod) in place of files of the host's newer system, or take an image on a newer base (Ubuntu 24.04 has
 GLIBC_2.39). NCCL must say `Selected provider is efa` then. EFA's devices, driver and security groups are right
Using network Socket ; {title}. NCCL goes over sockets by it ; {fix}
""",
    "ssh-launch mpi-launch": rf"""
{_NO_SSHD} && ^\s{{0,40}}"?image"?: {{0,30}}"?(?P<image>[\w.-]{{1,60}}[\w./:@-]{{2,120}}) && Connection refused ; the
 hosts' image {{image}} has no ssh server ({{sshd}}), so that nobody listens for the launcher's ssh ; take an image
 with openssh-server, or install it in this one (apt-get install -y openssh-server, mkdir -p /run/sshd). That sshd is
 called in the args is right. Names, network policies, EFA and MPI's paths need nothing
{_NO_SSHD} ; the hosts have no ssh server ({{sshd}}), so that nobody listens for the launcher's ssh ; install
 openssh-server there and in the image (apt-get install -y openssh-server, mkdir -p /run/sshd), or take an image that
 has it. Names, network policies and MPI's paths need nothing
Missing privilege separation directory:? ?(?P<folder>/\S{{1,60}}) && Connection refused ; sshd ended at its start, as
 the folder {{folder}} is not there, so that nobody listens for the launcher's ssh ; mkdir -p {{folder}} before sshd
 starts (in the image or the pod's command), then start it anew
no hostkeys available && Connection refused ; sshd ended at its start, as it has no host keys, so that nobody listens
 for the launcher's ssh ; ssh-keygen -A before sshd starts (in the pod's command, or when the image is built), then
 start it anew
""",
    "efa-missing efa-error": rf"""
{_WHOLE_FOLDER} && vpc\.amazonaws\.com/efa\"?: && {_NOT_OPENED} ; the pod mounts the host's whole /dev/infiniband
 beside its own EFA devices: libfabric sees NICs there that the pod may not open, and then finds no EFA
 at all ; {_FOLDER_CURE}
{_WHOLE_FOLDER} && vpc\.amazonaws\.com/efa\"?: && fi_getinfo[^\n]{{0,40}}(?:-61|No data available) ; the pod mounts
 the host's whole /dev/infiniband beside its own EFA devices, so that libfabric sees devices there that
 the pod may not open, and finds no EFA ; {_FOLDER_CURE}
""",
    "driver-not-loaded nvml-missing": rf"""
{_NO_NVML} && {_OF_PLUGIN} && ^GPU 0: NVIDIA|^\| NVIDIA-SMI \d|runtimes\.\W{{0,4}}nvidia\b ; the device plugin's
 container sees no driver (NVML), though the host has one: the pod was not started by NVIDIA's container runtime ;
 {_RUNTIME_CURE}. The host's driver needs no repair
{_NO_NVML} && {_OF_PLUGIN} ; the device plugin's container sees no driver (NVML): the pod was not started by NVIDIA's
 container runtime, or the host has no driver ; nvidia-smi on the host first. Where it works: {_RUNTIME_CURE}
{_NVML_UNKNOWN} && systemd\[1\]: Reloading\b|daemon-reload ; the container lost its rights to the GPUs while it ran:
 systemd reloaded on the host (daemon-reload, as an upgrade calls it) and wrote the cgroup's device rules anew ;
 {_RIGHTS_CURE}
{_NVML_UNKNOWN} && ^c 195:\* m\s{{0,4}}$ ; the container has lost its rights to the GPUs: its cgroup allows no more
 than mknod for NVIDIA's devices (195), as after systemctl daemon-reload ; {_RIGHTS_CURE}
{_NVML_UNKNOWN} && ^crw[^\n]{{2,40}} 195, {{1,6}}\d[^\n]{{4,40}}/dev/nvidia0 && CUDA unknown error|error 999|Error 999
 ; the container has lost its rights to the GPUs: the devices are there and cannot be opened, as after systemctl
 daemon-reload or an upgrade on the host ; {_RIGHTS_CURE}
{_BUSY} && cannot delete (?:Pods|Daemon)[^\n]{{0,40}}(?:no controller|local storage|not managed
 by)[^\n]{{0,160}}?override\): (?P<pod>[\w.-]{{1,60}}/[\w.-]{{1,100}}) ; the old driver cannot be unloaded, as pods
 still use GPUs: {{pod}} does, and cannot be evicted (no controller, or local data) ; end that pod: kubectl delete pod
 (namespace and name: {{pod}}); {_BUSY_CURE}
{_BUSY} && driver-manager|driver-daemonset|Draining node|driver kernel modules ; the old driver cannot be unloaded for
 the new one: programs on that node still use the GPUs ; end what holds them: fuser -v /dev/nvidia*, kubectl get pods
 -A with that spec.nodeName, services of the host (nvidia-persistenced, dcgm, display manager); {_BUSY_CURE}
{_BUSY} && rmmod|modprobe|nvidia-uninstall|NVIDIA-Linux|nvidia-installer ; the loaded driver cannot be unloaded:
 programs of this host still use the GPUs ; end what holds them (fuser -v /dev/nvidia*, lsof /dev/nvidia*: jobs,
 nvidia-persistenced, dcgm, the display manager), then modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia; or
 reboot
modpost: GPL-incompatible module nvidia && (?P<symbol>GPL-only symbol '[\w.]{{2,60}}') && {_MADE} && {_FOR} ; NVIDIA's
 driver {{driver}}{{driver_}} cannot be built for kernel {{kernel}}{{kernel_}}: this kernel gives {{symbol}} to GPL
 modules alone ; {_BUILD_CURE}
modpost: GPL-incompatible module nvidia ; NVIDIA's driver cannot be built for this kernel, which gives a symbol to GPL
 modules alone that this driver uses: driver and kernel do not fit ; {_BUILD_CURE}
/nvidia[\w./-]{{0,120}}\.[ch]:\d{{1,6}}:\d{{1,5}}: error: && {_MADE} && {_FOR} ; NVIDIA's driver {{driver}}{{driver_}}
 cannot be built for kernel {{kernel}}{{kernel_}}: its source does not fit the functions of this kernel ;
 {_BUILD_CURE}
""",
    "disk-full": r"""
pyxis: && Creating [\d.]{1,6} filesystem on (?P<path>/[\w./-]{1,160}\.(?:squashfs|sqsh)), ; pyxis writes the
 container's image to {path}, and the file system of that folder is full: too small for this image (/run is a tmpfs, a
 part of memory) ; set runtime_path=/LARGE/LOCAL/DISK/pyxis for spank_pyxis.so in Slurm's plugstack.conf
 (plugstack.conf.d/pyxis.conf) and restart slurmd, or enlarge that tmpfs. Or import once: enroot import -o image.sqsh,
 and --container-image=./image.sqsh. ENROOT_CACHE_PATH and the registry are not what is full
""",
    "driver-mismatch": rf"""
{_CLIENT} && {_SMI_HOST} ; on {{host}} the driver's libraries are {{new}}, and the loaded kernel module is still
 {{old}}: the driver was updated without a reboot ; {_REBOOT_CURE}
{_CLIENT} && ^[^\n]{{0,80}}(?<!\w)Failed to initialize NVML: Driver/library version mismatch && !\bdocker
 (?:run|exec)|kubectl exec|enroot|singularity|apptainer ; the driver's libraries are {{new}}, and the loaded kernel
 module is still {{old}}: the driver was updated without a reboot ; {_REBOOT_CURE}
""",
    "efa-error efa-missing": rf"""
{_IN_CONTAINER} && fi_getinfo: -61|optimal provider|No eligible provider && {_ON_HOST} && !--device[=
 ]\S{{0,20}}/dev/infiniband|--privileged ; the container lacks the EFA devices (/dev/infiniband/uverbs*), which the
 instance has: libfabric finds no EFA in it, and NCCL takes sockets ; docker run --device=/dev/infiniband (or each
 uverbs device), Kubernetes: vpc.amazonaws.com/efa in the pod's limits and the EFA device plugin. Then fi_info -p efa
 inside must list them. Instance and security group are right
""",
    "efa-error": r"""
tuner plugin can ?not be loaded when explicitly && Adding (?P<name>NCCL_(?:PROTO|ALGO))=(?P<value>[\w,^:]{1,40}) to
 environment ; the EFA plugin (aws-ofi-nccl) contradicts itself: it puts {name}={value} into the environment, and its
 own tuner refuses to load beside that, which this NCCL takes for an error ; unset NCCL_TUNER_PLUGIN, so that NCCL's own
 tuner chooses. Or take the release of aws-ofi-nccl before this one, one after 1.16.2 (its tuner steps back), or NCCL
 2.22 and newer. Nobody exported {name}: no script has to change
tuner plugin can ?not be loaded when explicitly ; the tuner of the EFA plugin (aws-ofi-nccl) refuses to load since
 NCCL_PROTO or NCCL_ALGO is set, which this NCCL takes for an error ; unset NCCL_PROTO and NCCL_ALGO (environment,
 /etc/nccl.conf), or unset NCCL_TUNER_PLUGIN to keep them: only one of both may choose. EFA itself is not at fault
""",
    "ib-devices-missing": r"""
missing RDMA device spec[^\n]{0,80}RDMA device \\?"(?:issm|umad)\\?" not found ; the RDMA device plugin drops the
 NICs, as the host has no /dev/infiniband/umad* and issm*: its kernel module ib_umad is not loaded, so that it offers
 0 devices ; on the host: modprobe ib_umad, and its name in /etc/modules-load.d (rdma-core or OFED bring it), then
 delete the plugin's pod so that it starts again. Selectors and vendors are right, as the devices are found
missing RDMA device spec[^\n]{0,80}RDMA device \\?"(?P<what>\w{2,20})\\?" not found ; the RDMA device plugin drops the
 NICs, as the host lacks the device {what} below /dev/infiniband: a kernel module is not loaded, so that it offers 0
 devices ; on the host: modprobe -a ib_uverbs rdma_ucm ib_umad, and their names in /etc/modules-load.d, then delete
 the plugin's pod so that it starts again. Selectors and vendors are right, as the devices are found
""",
    "communicator-misused nccl-error nccl-internal nccl-last-error": r"""
NCCL INFO (?:\w{1,40}/){0,3}\w{1,40}\.cc:\d{1,5} -> (?P<code>[1-9]\d{2,9})\s*$ ; a call of NCCL returned {code}, which
 is none of its results: most likely two versions of NCCL meet in one process, as PyTorch's and that of a plugin ;
 compare torch.cuda.nccl.version() with the NCCL that the other part was built for, and install parts that match.
 `grep libnccl /proc/PID/maps` names each copy that is loaded. NCCL's warnings beside it may be bogus
""",
    "remote-error": r"""
(?:remote process exited or there was a network error|network error or a remote process exiting) &&
 !Connection closed by|reset by peer|closed connection|[Bb]roken pipe ; NCCL lost another rank: its process ended, or
 the network between them failed, and this line leaves both open ;
 look at the ranks of the other hosts for an error that came first (out of memory, exception, lost node). Where all were
 alive, it is the network: NCCL_DEBUG=INFO on all, NCCL_SOCKET_IFNAME with the interface between the hosts. All their
 ports must be open to each other
""",
    "remote-error connection-returned": r"""
Accept failed: Bad file descriptor ; a socket of NCCL's set-up was closed while it waited (accept: Bad file descriptor),
 maybe as another rank or thread failed first. What closed it is not in the log ;
 look for the first rank that failed, and its error above these lines (NCCL_DEBUG=INFO on all). Where there is none:
 a newer NCCL, the limit of open files (ulimit -n), and NCCL_SOCKET_IFNAME with the one interface of the bootstrap.
 GPUs and P2P have no part in it
""",
    "nccl-error": r"""
\b(?:NcclCommunicator\.__init__|ncclCommInitRank\w{0,12}|nccl\.nccl\.init|comm_init_rank|_func_init_nccl)\b &&
 \binvalid usage\b|NCCL_ERROR_INVALID_USAGE && !NCCL WARN |Duplicate GPU|unhandled ; NCCL refused to make the
 communicator (invalid usage), without its reason in the log: most often two ranks have one GPU ;
 give each rank a GPU of its own, and choose it before the communicator is made (CUDA_VISIBLE_DEVICES, set_device by the
 rank on its host). Else the ranks do not have the same id, the same count, or each its own number. NCCL_DEBUG=WARN
 names it
""",
}
