"""Rows of clues (as `clue_rows` has them) of schedulers, containers and hosts: folders, images, drivers, firewalls."""

from __future__ import annotations

_NO_UVM = r"[Mm]odule nvidia[-_]uvm not found"
_VGPU_HOST = r"\bnvidia_vgpu_vfio\b|: Host VGPU|\bnvidia-vgpu-mgr\b|vgpu-kvm"
_VGPU_CURE = (
    "for CUDA and its containers install the data-centre driver in its place (in a virtual machine the guest driver of "
    "vGPU). Is the node to serve virtual machines, label it nvidia.com/gpu.workload.config=vm-vgpu, with "
    "sandboxWorkloads.enabled in the GPU operator. No package adds nvidia-uvm to a host driver, and dkms does not help"
)
_TOOLKIT = r"\bnvidia-(?:container-toolkit|container-runtime|docker2?)\b"
_NO_PACKAGE = (
    r"Unable to locate package nvidia-(?:container-(?:toolkit|runtime)|docker2)\b"
    r"|Package '?nvidia-(?:container-\w{3,10}|docker2)'? has no installation candidate"
    r"|(?:No match for argument:|Unable to find a match:|No package) nvidia-(?:container-(?:toolkit|runtime)|docker2)\b"
)
_ABSENT = "NVIDIA's container toolkit is not installed, so that containers get no GPUs"
_INSTALL = (
    "Then apt-get update and install nvidia-container-toolkit, nvidia-ctk runtime configure --runtime=docker, "
    "systemctl restart docker. The driver is not at fault"
)
_RIGHT_LIST = (
    "write the list that serves all distributions: curl -fsSL "
    "https://nvidia.github.io/libnvidia-container/stable/deb/nvidia-container-toolkit.list (rpm: stable/rpm, .repo), "
    f"in place of the one in /etc/apt/sources.list.d, with its key in Signed-By. {_INSTALL}"
)
"""How the toolkit's repository is set up, and what follows it."""

CLUSTER_CLUE_ROWS = {
    "command-not-found python-exception": r"""
couldn't chdir to [`'](?P<folder>/[^'\n]{1,160})': [^\n]{3,60}: going to /tmp instead && /tmp/ ; the job's folder
 {folder} is not there on that node, so that Slurm started the tasks in /tmp, where their files are missing ; see there
 why it is not mounted (srun -N1 -w NODE ls -d PATH, mount, df -h), and leave the node out until then (--exclude). Or
 give --chdir a folder that all nodes have
""",
    "gpu-not-visible container-start command-not-found": rf"""
\bUnsupported distribution! && {_TOOLKIT} ; {_ABSENT}: its server has no list of packages for this distribution
 (Unsupported distribution!) ; {_RIGHT_LIST}
E: Type '<!doctype' is not known [^\n]{{0,40}} source list (?P<file>\S{{0,100}}nvidia\S{{0,60}}) ; {_ABSENT}: {{file}}
 holds a web page (not found) in place of a list of packages ; {_RIGHT_LIST}
Conflicting values set for option Signed-By regarding source \S{{0,60}}nvidia\.github\.io ; {_ABSENT}: two lists of apt
 name its repository with different keys, so that apt reads none ; grep -l nvidia.github.io /etc/apt/sources.list.d/*
 shows both: remove the older one (often nvidia-docker.list or libnvidia-container.list). {_INSTALL}
(?:nvidia\.github\.io[^\n]{{0,160}}(?:not signed|NO_PUBKEY|couldn't be verified)|NO_PUBKEY DDCAE044F796ECB0)
 && {_TOOLKIT} ; {_ABSENT}: apt does not know the key of its repository ;
 curl -fsSL https://nvidia.github.io/libnvidia-container/gpgkey | gpg --dearmor -o the file
 that Signed-By names in the list. {_INSTALL}
{_NO_PACKAGE} ; {_ABSENT}: the package manager knows no package of that name, as its repository is not set up ;
 {_RIGHT_LIST}
could not select device driver && nvidia-(?:container-(?:cli|toolkit|runtime)|ctk): (?:command )?not found ; {_ABSENT} ;
 {_RIGHT_LIST}
""",
    "driver-not-loaded": r"""
can't stat gres\.conf file (?P<file>/dev/nvidia\d{1,2}): ; gres.conf of Slurm names {file}, which is not on that node,
 and slurmd does not start by it ; compare ls /dev/nvidia* and nvidia-smi -L there with File= in gres.conf. Fewer cards:
 correct File= and Gres=, or look for the lost one (dmesg, Xid 79). None of them: the driver came later than slurmd:
 nvidia-modprobe -c 0 -u or nvidia-persistenced before it (After= in its unit). Then restart slurmd
""",
    "amd-gpu-error": r"""
MES (?:failed to respond|might be in unrecoverable)|REMOVE_QUEUE && ^\s{0,8}MES feature version: \d{1,4},
 (?:firmware|fw) version: 0x0{6}83\b && gfx115\d|Strix Halo|Ryzen AI Max ; an AMD GPU hangs: its scheduler (MES) has
 firmware 0x83, which is known to stop on these chips (gfx1151) ; take another linux-firmware: 20251021 before it, or a
 later one that mends it, and hold it. Then build the initramfs anew (dracut -f, update-initramfs -u) and reboot
""",
    "container-start": r"""
ldconfig\S{0,8} terminated with signal (?P<signal>11|7|4)\b ; programs of the container crash on that node (ldconfig,
 signal {signal}): its unpacked files are damaged there, or the node's disk or memory is bad ; on that node: enroot
 remove (docker rmi), empty ENROOT_DATA_PATH and ENROOT_CACHE_PATH of it, and unpack anew; df -h, dmesg, and sha256sum
 of the image as on a sound node. Drain a node that crashes again, and test its memory. Do all nodes crash, the image
 is for another processor (uname -m), or too old for the kernel (vsyscall=emulate). Driver and Slurm's options are
 right
Segmentation fault {1,12}(?:\(core dumped\) {1,4})?\|? ?(?P<program>enroot-\w{2,20}|pwck|ldconfig) ; programs crash
 while the container starts on that node ({program}): its unpacked files are damaged there, or the node's disk or
 memory is bad ; on that node: enroot remove, empty ENROOT_DATA_PATH and ENROOT_CACHE_PATH of it, and unpack anew; df
 -h, dmesg, and sha256sum of the image as on a sound node. Drain a node that crashes again, and test its memory. Driver
 and Slurm's options are right
ldcache error: open failed: (?P<path>/\S{3,80}): no such file ; the container toolkit looks for ldconfig at {path},
 which is not on that host: its configuration is that of another distribution ; ldconfig = "@/sbin/ldconfig" in
 /etc/nvidia-container-runtime/config.toml (@ stands for the host's path; ldconfig.real is Ubuntu's alone). Then start
 the container anew. Driver and image are right
file creation failed: \S{1,400}/(?P<file>lib[\w.+-]{2,60}|nvidia-[\w-]{2,40}): file exists ; the image itself holds a
 file of the driver ({file}), where the container toolkit puts the host's ; rm it in the image, and build that without
 driver packages (nvidia-utils, libnvidia-compute, cuda-drivers). No docker commit of a container that ran with GPUs:
 the driver always comes from the host
(?:create|unshare) (?:a )?user namespace: No space left ; the host's limit of user namespaces is reached, so that no
 container starts: no disk is full ; sysctl -w user.max_user_namespaces=28633 (and in /etc/sysctl.d) on all nodes; lsns
 -t user shows what ended containers left behind
nvidia-container-cli: device error: [^\n]{0,40}unknown device ; a GPU that the container asks for is not on that host
 (--gpus, NVIDIA_VISIBLE_DEVICES) ; nvidia-smi -L there: name its numbers, or UUIDs of this host (those of MIG change
 when it is set up anew); --gpus all takes all. Driver and container toolkit are right
""",
    "master-unreachable connection-timeout no-route": r"""
(?:errno: 113|No route to host) && ^\d{1,3} bytes from \d|, 0% packet loss && !\b100% packet loss|Destination Host
 Unreachable ; a firewall on rank 0's host rejects the port of its store: the host itself answers (ping), and the port
 gets "No route to host" ; let the nodes' network through on all hosts: systemctl stop firewalld, or firewall-cmd
 --zone=trusted --add-source=NET, or iptables -I INPUT -s NET -j ACCEPT. All ports must be open between them, not only
 MASTER_PORT. Routes and addresses are right
""",
    "driver-not-loaded gpu-not-visible cuda-not-supported": rf"""
{_NO_UVM} && {_VGPU_HOST} ; the driver on this host is that of a vGPU host (vGPU manager), which has no nvidia-uvm and
 no CUDA: it serves virtual machines, and no containers ; {_VGPU_CURE}
{_VGPU_HOST} && CUDA Version: N/A ; the driver on this host is that of a vGPU host (vGPU manager), which has no CUDA: it
 serves virtual machines, and no programs of the host ; {_VGPU_CURE}
{_NO_UVM} && CUDA Version: N/A && Driver Version: \d ; the driver is loaded without CUDA: its module nvidia-uvm is not
 installed, as with the driver of a vGPU host, or where only a part was installed ; find /lib/modules/$(uname -r) -name
 'nvidia*' and lsmod: without
 nvidia_vgpu_vfio there, install all of the driver. With it, it is a vGPU host's driver: {_VGPU_CURE}
{_NO_UVM} && ^\| NVIDIA-SMI \d|^GPU 0: NVIDIA|^nvidia {{4,24}}\d{{4,}} ; the driver is loaded, and its module
 nvidia-uvm, which CUDA needs, is not among this kernel's modules ; find /lib/modules/$(uname -r) -name 'nvidia*' shows
 what there is: install the driver's whole package of modules for this kernel (depmod -a, modprobe nvidia-uvm). The
 driver of a vGPU host has no such module: take the data-centre driver. The GPUs are not at fault
""",
    "driver-not-loaded container-start": r"""
nvidia-driver-ctr[^\n]{0,800}nvidia-container-(?:cli|runtime) ; the driver's own container is started through NVIDIA's
 hook, which needs a driver that is not there yet: that node's default runtime is nvidia, mostly left by an earlier
 setup ; make runc the default again: default-runtime in /etc/docker/daemon.json, default_runtime_name in containerd's
 config.toml (also conf.d), and restart it. Remove what is left in /usr/local/nvidia and /run/nvidia, then delete the
 pod of the driver. The operator sets its runtime itself, once the driver is up. No driver need be installed by hand
""",
}
