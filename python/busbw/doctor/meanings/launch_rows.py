"""What `particulars` knows of launchers: schedulers, MPI, containers, ends of jobs. Rows as in particular_rows.py."""

from __future__ import annotations

LAUNCH_ROWS = {
    "slurm-setup": r"""
[Kk]ill task failed ; processes of an ended job could not be ended on that node, and Slurm took it out: they stand
 still in
 the kernel (a file system, the GPU's driver) ;
 ps -eo pid,stat,wchan:32,cmd | grep " D" on that node and dmesg: what they wait for (Lustre, NFS, nvidia) is the fault.
 Mend it or reboot, then scontrol update NodeName=NODE State=RESUME; raise UnkillableStepTimeout where ends are
 only slow
gres/\w+: count|differs from hardware ; a node has fewer GPUs, processors or memory than slurm.conf says ;
 compare slurmd -C and nvidia-smi -L with gres.conf on that node; repair the GPU, then scontrol update
 nodename=NODE state=resume
SPANK|spank ; a plugin of srun (such as pyxis) is not installed on that node, or of another Slurm ;
 install the plugin for this Slurm on all nodes, name it in plugstack.conf, restart slurmd
munge|credential|authentication ; Slurm's authentication fails between nodes: munge's key, its daemon or the clocks
 differ ;
 give all nodes one /etc/munge/munge.key, start munged, synchronise the clocks (chronyc makestep), restart slurmd
contact slurm controller ; Slurm's controller does not answer ;
 systemctl status slurmctld on its host, open its port (6817), check SlurmctldHost in slurm.conf; scontrol ping
[Pp]rolog|epilog ; Slurm's prolog or epilog failed on a node ;
 run the script of Prolog= by hand on that node as root and look at its exit code; then scontrol update state=resume
plugin_load_from_file ; Slurm cannot load one of its plugins: a library that it needs is not there ;
 install the library that the line names on all nodes (ldd on the plugin), or choose another plugin
Incompatible versions ; Slurm's commands and daemons are of releases that do not fit ;
 use one release of Slurm on login nodes, in containers, and on compute nodes
""",
    "slurm-resources": r"""
gres/gpu count (?:reported lower than configured|too low) ?\(?(?P<seen>\d{1,4}) < (?P<all>\d{1,4}) ; a GPU of that node
 is gone: slurmd counts {seen} of {all}, and Slurm takes the node out ;
 on the node: nvidia-smi -L, lspci | grep -i nvidia, dmesg (Xid 79, RmInitAdapter, pciehp). Power-cycle or reseat what
 is missing, then scontrol update nodename=NODE state=resume; or correct Gres in slurm.conf and gres.conf
devices unavailable for (?P<what>\S+) ; the kubelet can give fewer devices ({what}) than the scheduler counted on: one
 became unhealthy, or the device plugin was restarted ;
 kubectl describe node (Allocatable), the log of the device plugin's pod and dmesg (Xid) on that node. Cordon it and
 reset or replace the device that is unhealthy, then delete the pod so that it is placed again
UnexpectedAdmissionError ; the kubelet can give fewer devices than the scheduler counted on: one became unhealthy, or
 the device plugin was restarted ;
 kubectl describe node (Allocatable), the log of the device plugin's pod and dmesg (Xid) on that node. Cordon it and
 reset or replace the device that is unhealthy, then delete the pod so that it is placed again
Total available GPUs (?P<have>\d{1,6}) is less than total desired GPUs (?P<want>\d{1,6}) ; too few GPUs are free in
 Ray's cluster: {have}, and the job asks for {want} ;
 ray status: where GPUs are in use, end who holds them. Where it counts fewer than nvidia-smi -L lists: ray stop on each
 node, unset CUDA_VISIBLE_DEVICES, ray start --num-gpus=N. Where nodes are missing: ray start --address=HEAD:6379. Or
 set trainer.n_gpus_per_node and trainer.nnodes to what is there
placement group|required GPUs exceeds|fulfill resource request|autoscaler ; more GPUs or nodes are asked for than Ray's
 cluster has free ;
 ray status: nodes, GPUs and who holds them; lower the tensor and pipeline parallel sizes, join more nodes (ray start
 --address=HEAD:6379), end other jobs
Insufficient (?P<what>rdma/[\w.-]*\w|[\w.-]*efa|hugepages\S*|[\w.-]+/[\w.-]*(?:hca|rdma|vf|ib)\w*) ; no node offers
 enough of {what}, which the pod asks for: the device plugin does not run there, names it otherwise, or all are taken ;
 start the RDMA, SR-IOV or EFA device plugin on the GPU nodes, and ask for the resource by the name that
 kubectl describe node shows (Allocatable). Add the toleration of the GPU nodes' taint
Insufficient (?P<what>nvidia\.com/[\w.-]*\w|cpu|memory|ephemeral-storage) ; no node has enough {what} left for the pod ;
 kubectl describe node (Allocatable, Allocated); ask for fewer, end other pods, or add nodes; where a GPU node shows 0
 GPUs, restart its NVIDIA device plugin
taint ; the pod does not tolerate the taint of the nodes that would fit ;
 add the toleration (key nvidia.com/gpu, operator Exists), or choose other nodes
pod group is not ready|PodGroup|minAvailable|gang ; the gang scheduler waits: not all pods of the group find a place ;
 free GPUs or lower minAvailable and the number of workers; kubectl describe podgroup
assign flavors|unused quota|\badmi(?:t|tted|ssion) ; the queue (Kueue) does not admit the job: its quota has too
 little left ;
 kubectl get clusterqueue,workload; wait, ask for fewer, raise the queue's quota, or let it borrow (cohort)
QOS|Assoc\w+ ; a limit of the account or quality of service holds the job back ;
 sacctmgr show assoc and show qos; ask for less, wait for the other jobs to end, or have the limit raised
Invalid generic resource ; the partition has no GPUs of the name or number that the job asks for ;
 sinfo -o '%P %G' shows what there is; ask for --gres=gpu:N without a type, or the type that is shown
More processors requested|layout tasks|cpu bind ; the job asks for more tasks or processors than its allocation has ;
 give srun the same --ntasks-per-node and --cpus-per-task as sbatch, whose product fits a node
(?:qos|account|partition) ; the job names a partition, account or quality of service that it may not use ;
 sacctmgr show assoc user=$USER; sinfo; correct --partition, --account and --qos
quota ; a quota does not allow what the job asks for ;
 kubectl describe resourcequota (cloud: the provider's quota page); ask for less or have it raised
""",
    "ssh-launch": r"""
connect to host (?P<host>\S+) port (?P<port>\d+): Connection refused ; nobody listens for ssh on {host}, port {port} ;
 start sshd there (in the container, too), or name its port: ~/.ssh/config, --mca plm_rsh_args '-p PORT'
connect to host (?P<host>\S+) .{0,20}(?:timed out|No route|unreachable) ; {host} cannot be reached by ssh ;
 correct the host's address, start the host or pod, and open port 22 between the hosts
Host key verification|IDENTIFICATION HAS CHANGED ; the host key of a host is unknown or has changed ;
 ssh-keyscan HOST >> ~/.ssh/known_hosts (first ssh-keygen -R HOST), or StrictHostKeyChecking accept-new in
 ~/.ssh/config
Permission denied|authentication methods ; ssh refuses the user: its key is not on that host ;
 ssh-copy-id to each host (the same ~/.ssh in containers, mode 600), then ssh -o BatchMode=yes HOST true
""",
    "ports-exhausted": r"""
bind|listen|server|gRPC ; the address that the program shall listen at is none of this host's ;
 ip -br addr on this host: name one of its addresses (MASTER_ADDR, TF_CONFIG, --host, coordinator_address; in a
 container
 its own, or the host's network). Every host but the first must connect to that address and not listen at it
""",
    "mpi-error": r"""
GTL library|GPU_SUPPORT_ENABLED ; MPI of Cray is asked to send from GPU memory, and the program was linked without the
 library for that (GTL) ;
 load craype-accel-nvidia90 (or craype-accel-amd-gfx90a) and build anew with cc or CC, or link libmpi_gtl_cuda
 (libmpi_gtl_hsa) itself, for Python mpi4py too; MPICH_GPU_SUPPORT_ENABLED=0 where only NCCL uses GPUs
""",
    "mpi-launch": r"""
HYDU_sock_connect.{0,90} to "(?P<host>[\w.-]{2,60})"|HYDU_sock_connect|unable to get host address|unable to connect to
 server (?P<what>\S{2,60}) ; a host's launcher cannot
 reach mpiexec's host {host}{what}: its name does not resolve there, or a firewall drops the port ;
 getent hosts NAME on each host must give an address that the others reach; mpiexec -iface eth0 (or
 HYDRA_IFACE) names the network; open all ports between the hosts
not enough slots|already filled ; the hosts have fewer slots than processes are asked for ;
 name slots: -H host1:8,host2:8 or slots=8 in the hostfile; --oversubscribe only where GPUs are not counted by slots
run as root ; mpirun refuses to run as root ;
 mpirun --allow-run-as-root (or OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1), or another user
orted: ; MPI is not found on the other host (orted) ;
 install the same MPI at the same place on all hosts and name it: mpirun --prefix /opt/openmpi. Or set PATH and
 LD_LIBRARY_PATH in ~/.bashrc, before the line that leaves it for shells that are not interactive
Exec format error ; the program is none that this machine can start: a script without its first line #!, or built for
 another processor ;
 file PROGRAM on that host; build it there, or give the script its first line (#!/bin/bash)
unable to locate|could not access|unable to (?:launch|find) the ; a host does not have the program at that path, or not
 the folder in which it shall start ;
 build or mount the program and the folder that the next lines name at the same path on all hosts, or give the full path
complete a TCP connection|lost communication|does not know ; mpirun and its daemons on the other hosts cannot reach
 each other, or a daemon ended ;
 open all ports between the hosts and name the network: --mca oob_tcp_if_include eth0 (PRTE: --prtemca
 prte_if_include eth0); look on the named host for why its daemon ended (memory, node)
(?:mpiexec|proxy:[\d:]+)@[^)]{1,200}\): .{0,160}(?:working directory|wdir|chdir) ; a host does not have the folder in
 which the job shall start ;
 mount it on all hosts, or mpiexec -wdir with a folder that all have
(?:mpiexec|proxy:[\d:]+)@[^)]{1,200}\): .{0,160}(?:executable|execvp|exec of|No such file) ; a host does not have the
 program at that path ;
 build or mount the program at the same path on all hosts, or give its full path
(?:mpiexec|proxy:[\d:]+)@[^)]{1,200}\): .{0,160}(?:\bssh|\brsh|launcher|bootstrap|RMK|node list|nodefile|no
 nodes|tm_|\bLL\b|pbs) ; MPICH's
 launcher cannot start its helpers on the hosts: the scheduler's list of nodes, or ssh ;
 ssh HOST true without a password; mpiexec -launcher ssh -f HOSTFILE (HYDRA_LAUNCHER, HYDRA_RMK); inside Slurm srun
 --mpi=pmi2
(?:mpiexec|proxy:[\d:]+)@[^)]{1,200}\): .{0,160}(?:bind|topology|hwloc|cpuset|map) ; MPICH's launcher cannot bind
 processes as asked ;
 leave -bind-to and -map-by out, or name what that host has (lstopo); hwloc sees the cores of the container alone
(?:mpiexec|proxy:[\d:]+)@[^)]{1,200}\):
 .{0,160}(?:token|argument|option|setting|unrecognized|parse|duplicate|field|environment) ;
 MPICH's launcher refuses an option or setting ;
 correct the option that is named (mpiexec -help of this MPICH); options of Open MPI do not work here: another mpirun
 may stand first in PATH
(?:mpiexec|proxy:[\d:]+)@[^)]{1,200}\):
 .{0,160}(?:write|read|sock|closed|connect|poll|fd\b|proxy|HUP|event|assert|signal) ; the launcher lost
 one of its helpers on a host: a rank or the host ended, or the connection was cut ;
 look for the first error of that host's ranks (exit code, out of memory, dmesg); mpiexec -iface names the network
 that hosts share; ports open between them
(?:mpiexec|proxy:[\d:]+)@[^)]{1,200}\): .{0,160}(?:kvs|\bPMI\w*|spawn) ; the processes and MPICH's launcher do not
 speak one PMI ;
 start with the mpiexec of the MPI that the program was built with (which mpiexec; ldd PROGRAM | grep mpi), or srun
 --mpi=pmi2
hostfile ; the hostfile is missing or cannot be read ;
 correct the path of --hostfile; a line for each host: NAME slots=8
""",
    "container-start": r"""
unable to (?:setup runtime|load config)|configure the Docker daemon|load TOML|config\.toml|daemon\.json ; the file of
 settings of the container runtime is refused, so that it does not know the GPUs' runtime, or does not start ;
 mend the line that is named in /etc/containerd/config.toml (Docker: /etc/docker/daemon.json): valid TOML or JSON,
 and no braces that a template left. Then restart the runtime, and the GPU operator's toolkit pod of that node
executable file not found|exec: \S{1,60}: (?:stat|no such|permission)|fork/exec|exec args ; the image does not have the
 program that is to be started, or it may not be run ;
 correct the command or entrypoint (full path, PATH in the image), chmod +x, #! line and line ends of scripts; install
 it in the image
hook #|running (?:prestart |createRuntime |startContainer )?hook|nvidia-container-runtime-hook ; a hook of the container
 runtime failed, mostly the one that adds the GPUs ;
 run nvidia-smi and nvidia-container-cli info on the host; load or repair the driver there, the container toolkit of
 this year, then nvidia-ctk runtime configure and restart the runtime
no runtime for|runtime handler|[Rr]untimeClass|unknown or invalid runtime ; the container runtime of that node does not
 know the runtime that is asked for (nvidia) ;
 nvidia-ctk runtime configure --runtime=containerd (or docker) and restart it; the GPU operator's toolkit pod must run
 there; kubectl get runtimeclass
FailedCreatePodSandBox|setup network|\bCNI\b|multus ; the pod's network cannot be set up (CNI, Multus, SR-IOV) ;
 kubectl describe pod names the plugin: restart its pod on that node, and free devices of ended pods. The
 NetworkAttachmentDefinition and the SR-IOV resource (VF) that it names must exist, and the pod must ask for them
unresolvable CDI|CDI devices ; the container runtime does not know the GPUs by CDI ;
 nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml after each update of the driver, then restart the runtime
40[13]\b|nauthorized|pull access denied|authentication|no basic auth ; the registry refuses the image: no login, or no
 right to it ;
 log in on that node (docker login; an imagePullSecret in the pod's namespace; ~/.config/enroot/.credentials)
manifest (?:unknown|for)|404\b|tag .{0,40}not found ; the registry does not have that image or tag ;
 correct the image's name and tag, and that it exists for this processor
exec format error ; the image is made for another processor ;
 use an image of this architecture (arm64 on Grace, amd64 else): docker manifest inspect IMAGE
ErrImagePull|ImagePullBackOff ; the image cannot be pulled ;
 kubectl describe pod names the reason: correct the image's name, add an imagePullSecret, or reach the registry
newuidmap|sub[ug]id ; this user may not make namespaces: no ids are set aside for it ;
 add the user to /etc/subuid and /etc/subgid on that node and install uidmap
\.sqsh|acquire rootfs ; the container's image file is not there or cannot be unpacked ;
 correct the path of --container-image, import it again (enroot import), free the folder of ENROOT_DATA_PATH
error mounting|mount (?:destination|source|target|point)|mountpoint|to rootfs|bind mount|not a directory ; a mount of
 the
 container cannot be made: the path is not on that host, or file and folder are mixed ;
 ls the source on that node, create or export it there (a parallel file system may not be mounted), file to file and
 folder to folder
cgroup|\bdbus\b|systemd unit|resource control ; the runtime cannot set up the container's group of resources (cgroup) ;
 one cgroup driver for runtime and kubelet (systemd), cgroup v2 alone; systemctl daemon-reload, restart the runtime;
 remove what is left of ended containers
seccomp|apparmor|selinux|\blabel ; a profile of security cannot be applied to the container ;
 load the profile on that node, or start with --security-opt seccomp=unconfined (apparmor=unconfined) to tell; runtime
 and libseccomp of the kernel's age
namespace|userns|[ug]id_?map|setgroups|unshare ; the kernel gives the container no namespaces of its own ;
 sysctl user.max_user_namespaces and kernel.unprivileged_userns_clone; ids in /etc/subuid and /etc/subgid; the other
 container whose namespace is shared must run
session key|keyring|rlimit|oom_score|capabilit ; a limit of the host stops the container ;
 sysctl kernel.keys.maxkeys and maxbytes, limits of the runtime's service (LimitNOFILE, LimitMEMLOCK), and rights that
 a rootless runtime does not have
nvidia-container-(?:cli|runtime).{0,80}(?:driver|nvml|initialization|ldcache) ; the container cannot be given the GPUs:
 the
 driver on the host does not answer ;
 run nvidia-smi on the host; load or repair the driver there, then restart the container runtime
exit status 32|mount\.nfs|mount\.lustre|NFS|access denied by server ; a network volume (NFS, Lustre) of the pod cannot
 be
 mounted on that node ;
 mount it by hand on the node: the server must export it to that node's address (exportfs, its firewall) and answer.
 The node needs nfs-common or the file system's client
FailedMount|MountVolume|AttachVolume ; a volume of the pod cannot be mounted ;
 see that the claim, secret or config map exists in this namespace and the storage's driver runs on the node
""",
    "kubernetes-event": r"""
\.go:\d+\] .{0,120}(?:ClusterPolicy|GPUCluster|NVIDIADriver|operand|DaemonSet|validation pod|node ?selector|CRDs?\b|OS
 version) ;
 the GPU operator cannot put its parts on a node ;
 kubectl get clusterpolicy,pods -n gpu-operator and the logs of the pod that is not ready; one ClusterPolicy, CRDs of
 the
 operator's release (helm upgrade), labels of node-feature-discovery on the node
\.go:\d+\] .{0,120}(?:\bMIG\b|\bmig\b) ; MIG of that node is not as the plugin expects ;
 nvidia-smi mig -lgi; one strategy (mig.strategy) that fits; label nvidia.com/mig.config, end GPU pods before it changes
\.go:\d+\] .{0,120}(?:NVML|nvml|health ?check|XID|not enough available devices|allocat) ; the device plugin cannot use
 or
 give GPUs of that node ;
 nvidia-smi on the node and in the plugin's pod (runtime class nvidia), dmesg for Xid; restart the plugin after the
 driver; ask for as many GPUs as are free
\.go:\d+\] .{0,120}\bMPS\b ; the plugin's sharing by MPS did not start ;
 the MPS control daemon's pod on that node must run (kubectl logs), with /dev/shm and /run/nvidia/mps mounted; no MIG
 beside it
OOMKill ; a container of the pod was killed for its memory limit ;
 raise resources.limits.memory, or use fewer data loader workers; /dev/shm of medium Memory counts as well
Evicted|evict ; the node evicted the pod (memory, disk, or taint) ;
 kubectl describe pod (Message) and node (Conditions); free disk or memory of the node, set requests as limits
FailedCreatePodSandBox ; the pod's network could not be set up (CNI, Multus, SR-IOV) ;
 kubectl describe pod: which network failed; restart the CNI or SR-IOV plugin's pod of that node, free its devices
FailedMount|MountVolume|AttachVolume ; a volume of the pod cannot be mounted ;
 see that the claim, secret or config map exists in this namespace and the storage's driver runs on the node
""",
    "process-crashed": r"""
\bDataLoader worker|Pin memory thread ; a worker of the data loader died ;
 run with num_workers=0 to see its error; mostly /dev/shm is too small or the host's memory is full (dmesg)
EngineDead|[Ee]ngine core ; the server's engine process died ;
 read the engine's own traceback, which stands before this line (EngineCore pid=...)
Signal 11 \(SIGSEGV\)|exitcode *: *-11\b ; {title} ;
 get the stack of the crash: run it again with PYTHONFAULTHANDLER=1 (python -X faulthandler), or under gdb --args. With
 one process first, python SCRIPT without the launcher. Most often it is native code of a package that was not built for
 this PyTorch or GPU (flash-attn, xformers, deepspeed, own extensions): reinstall it to fit. Errors of other ranks
 follow
""",
    "job-cancelled": r"""
SPOT|Spot|nstance will be (?:interrupted|terminated|stopped)|REBALANCE|Soft Off|HOST_MAINTENANCE ; the cloud took the
 instance back (spot) or stopped it for maintenance ;
 go on from the last checkpoint on other nodes; take on-demand or reserved capacity. Save a checkpoint at the notice,
 which comes two minutes before on AWS and 30 s before on Google Cloud and Azure
Evict.{0,200}(?:ephemeral|local storage|disk) ; the node evicted the pod: it used more disk than it may, or the node's
 disk was full ;
 request ephemeral-storage in the pod, put checkpoints, caches (HF_HOME, TMPDIR) and logs on a volume; free the node's
 disk
Evict.{0,200}memory ; the node evicted the pod: the node's memory ran out ;
 raise the pod's memory request and limit to what it uses, fewer data loader workers; no other pods on that node
Evict.{0,200}(?:taint|NoExecute|unreachable|not-ready) ; the node was taken out of use (taint), and the pod with it ;
 kubectl describe node: why it is tainted or not ready; start again on other nodes, from the last checkpoint
(?i:preempt) ; a job of higher priority took the nodes ;
 start again from the last checkpoint (--requeue), in a partition, QOS or priority class that is not preempted
TIME LIMIT|RUNLIMIT|walltime|wall ?clock|DeadlineExceeded|activeDeadline|longer than|execution time|timeout: send ;
 the job's time limit was reached ;
 ask for more time (--time, -l walltime, activeDeadlineSeconds), write checkpoints before it and go on in the next job
Signals\.SIGHUP|got signal: ?1\b ; the terminal or ssh session was closed, and the launcher took its signal (SIGHUP) ;
 start it under tmux or screen, by setsid, or by sbatch. nohup does not protect torchrun: it sets a handler of its own
 for SIGHUP
KeyboardInterrupt|SIGINT|SIGHUP|signal: ?[12]\b|Signal 1 ; somebody or a closed terminal interrupted the job ;
 start it by sbatch, or under tmux, screen or nohup; where nobody did, the login node or scheduler ended it
""",
    "file-system": r"""
StreamWriter failed|inline_container.{0,80}(?:writing|write) ; a checkpoint could not be written: the disk or quota is
 full, or the storage did not take it ;
 df -h and quota -s of that folder; free space or write elsewhere; mend the mount where it has space. The file is
 broken: use the checkpoint before
""",
    "build-failed": r"""
Python\.h ; kernels cannot be compiled: the headers of Python are missing ;
 install python3-dev (python3.12-dev, python3-devel) of that Python in the image of all nodes; until then
 TORCH_COMPILE_DISABLE=1 or --enforce-eager
""",
    "bad-shm-attach": r"""
TL_SHM ; UCC, by which MPI does collectives, cannot share memory between ranks of one host: their containers have an IPC
 namespace each. It is MPI's start that fails, and not NCCL ;
 leave UCC out: mpirun --mca coll_ucc_enable 0 (or UCC_TLS=ucp, without shm). Or give the containers of a host one IPC
 namespace: --ipc=host, hostIPC in Kubernetes, one container for all ranks of a host. UCX_TLS does not reach UCC; size
 of /dev/shm, network and NCCL's settings have no part in it
""",
    "command-not-found": r"""
(?:^|[\s:"'(])torchrun\b ; {title} ;
 python3 -m torch.distributed.run with the same options does the same where torchrun is not on PATH, as in modules and
 containers that wrap python alone. Else load the environment in which PyTorch is installed in that step, on every
 node
""",
    "pmi": r"""
PMIX_ERR\w* in file|PMIX ERROR: ; MPI's helper for its processes (PMIx) failed in one of them: a folder or file of its
 own,
 or another PMIx than the launcher's ;
 space and rights in TMPDIR on that host, and no rest of older jobs there (rm -rf /tmp/prte.* /tmp/ompi.*);
 PMIX_MCA_gds=hash;
 one PMIx for launcher and program (in containers too)
collective timeout|COLL_FENCE|pmixp_coll|_errhandler|reset_if_to ; Slurm's daemons of some hosts did not answer in the
 exchange by which MPI's processes find each other (PMIx) ;
 look for hosts of the job whose tasks did not start or ended (sacct, slurmd's log, dmesg there). Let slurmstepd reach
 slurmstepd on all ports (firewall). To tell: SLURM_PMIX_DIRECT_CONN=false or srun --mpi=pmi2; SLURM_PMIX_TIMEOUT where
 starts are only slow
(?P<library>lib\w+\.so[\w.]*): cannot open ; Slurm's plugin for MPI (PMIx) lacks a library on this host: {library} ;
 install PMIx on all nodes (libpmix of the release that Slurm was built with), or start with srun --mpi=pmi2
 (srun --mpi=list shows what there is), or with mpirun
plugin name for mpi|create (?:mpi )?context|Unable to load any ; Slurm was built without the MPI plugin that is asked
 for ;
 srun --mpi=list, then take one of these (--mpi=pmi2), or install Slurm's PMIx plugin (slurm-libpmi, libpmix)
""",
}
