"""What `particulars` knows of Slurm, PBS, LSF and SGE: what they refuse, and why. Rows as in particular_rows.py."""

from __future__ import annotations

_NO_PYXIS = r"""
(?:unrecognized|unknown|invalid) option\W{1,4}(?:--)?(?P<what>(?:no-)?container-\w[\w-]*) ; srun does not know
 --{what}: pyxis is not loaded on this host ; install pyxis (spank_pyxis.so) and name it in plugstack.conf on the
 login, submit and compute nodes alike; srun --help | grep container-image shows it. A module or another srun in PATH
 may be without it
"""
_NO_WAY_BACK = r"""
slurmstepd: error: .{0,20}(?:connect io|IO setup failed) ; the compute node cannot connect back to srun, which carries
 the tasks' output: a firewall or a wrong address on the host that srun runs on ; let the compute nodes connect to that
 host on srun's ports (SrunPortRange in slurm.conf), and see that they resolve its name to an address that they reach.
 With sbatch srun runs on a compute node, which avoids a login node's firewall
"""

SCHEDULER_ROWS = {
    "connection-refused": rf"""
\bby sbatchd/res\b|blaunch: .{{0,80}}(?:refused|cannot|failed) ; LSF's daemons do not answer on a host of the job, so
 that blaunch cannot start its tasks there ; on that host: lsadmin resstartup, badmin hstartup (bhosts must show ok),
 and LSF's ports open between the hosts. Or leave the host out: bsub -R "select[hname!=HOST]"
{_NO_WAY_BACK}""",
    "connection-timeout": _NO_WAY_BACK,
    "no-route": _NO_WAY_BACK,
    "host-memory": r"""
LSF memory usage limit|TERM_MEMLIMIT ; LSF ended the job: it used more memory than its limit ; ask for more: bsub -M
 and -R "rusage[mem=...]", counted for each host or each slot as the cluster is set up (bjobs -l). Fewer data loader
 workers and less pinned memory need less
PBS: job killed: (?:v?mem|pmem|pvmem) (?P<used>\d+kb) exceeded limit (?P<limit>\d+kb) ; PBS ended the job: it used
 {used} of memory, and its limit is {limit} ; ask for more: -l select=N:ncpus=C:mem=500gb. Fewer data loader workers
 and less pinned memory need less
""",
    "slurm-setup": r"""
unable to change to home directory (?P<home>\S+) ; PBS cannot start the job on that host: the user's home {home} is not
 there ; mount the file system with the homes on that host and see that ls shows it; pbsnodes -o takes the host out
 until then
User not found on host|look up username|(?:uid|user|gid) \S{1,40} (?:not found|unknown|does not exist) on ; the user is
 not known on a node of the job: its accounts (LDAP, sssd) are not reached there ; id USER on that node must answer:
 restart sssd or nslcd there, mend the network to the directory. Leave the node out until then. enable_nss_slurm
 (LaunchParameters) lets Slurm itself tell the nodes who the user is
""",
    "slurm-resources": r"""
Illegal attribute or resource value|Unknown resource ; PBS does not know a resource of -l, or not that value ; qmgr -c
 "list resource" and pbsnodes -a show their names: often -l select=N:ncpus=C:ngpus=G:mem=M in place of -l ngpus=G
qsub: .{0,20}(?:violates|would exceed|exceeds) ; the job asks for more than its queue allows ; qstat -Qf QUEUE shows
 the limits (resources_max, max_run): ask for less, or take another queue
Unknown queue|Access to queue|Unauthorized Request|cannot use the queue|User cannot use|Bad UID ; the queue is not
 there, or this user may not use it ; qstat -Q, bqueues or qconf -sql lists queues: correct -q, and have the user
 allowed
Job not submitted|Unable to run job ; the scheduler refuses the job's options ; correct the option that the line names
 (bsub -h, qsub -help): resources by the names and in the form of this cluster (bsub -gpu num=N, -R "rusage[mem=M]")
step for job \S+ Requested node configuration is not available ; the step asks for what its job was not given: nodes
 (-N, -w), GPUs or processors ; scontrol show job -d JOB shows what it has: the same -N, --gres, --cpus-per-task in
 srun as in sbatch; env | grep SLURM_ shows what an outer script set
[Mm]emory specification can ?not be satisfied|[Mm]emory required by task is not available ; the job asks for more
 memory than a node, or the job itself, has to give (--mem, --mem-per-cpu, --mem-per-gpu) ; sinfo -o '%P %N %m' shows
 what nodes have: lower --mem (it is of each node), or --mem=0 for all of it. In a step ask for no more than the job
 has: --mem-per-cpu times --cpus-per-task counts
step creation still disabled|step for job \S+: Requested nodes are busy ; another step of this job holds the
 processors, memory or GPUs that this srun asks for, so that it waits ; end that step (sacct -j JOB, scontrol show
 step), or share with it: srun --overlap. For steps side by side give each its part: --exact with -n, -c, --gres and
 --mem of its own
Task distribution specification invalid|hostlist specified ; the list of hosts (SLURM_HOSTFILE, -w,
 --distribution=arbitrary) does not fit the number of tasks ; name a host as often as it is to run tasks, as many lines
 as tasks (-n); or unset SLURM_HOSTFILE and leave --distribution=arbitrary out
[Cc]pu binding outside|satisfy cpu bind|layout tasks on given cpus ; the processors that --cpu-bind or -c names are not
 those that the step was given on that node ; leave masks and maps out (--cpu-bind=cores, unset SLURM_CPU_BIND, which a
 step within a step inherits), or take whole nodes (--exclusive). srun needs the same --cpus-per-task as sbatch
[Rr]equested time limit|time limit (?:is )?invalid|\(job submit limit|time limit specification required ; the job asks
 for more time, nodes or jobs than its partition, account or quality of service allows ; sinfo -o '%P %l %s' and
 sacctmgr show assoc user=$USER, show qos: a shorter --time, fewer nodes or jobs at once, or another partition or --qos
group not permitted|Access/permission denied|Access denied to requested reservation ; this user or account may not use
 that partition or reservation ; scontrol show partition NAME (AllowAccounts, AllowGroups, AllowQos) or show
 reservation; another --partition or --account, or have it allowed
Invalid feature specification ; no node has the feature that --constraint names ; sinfo -o '%N %f' lists the features;
 correct --constraint (names are exact, & for all of several, | for one)
Required node not available|Required partition not available|Invalid node name|nodes not in this partition ; a node or
 partition that the job names (-w, -p) is down, drained, reserved, or not there ; sinfo -R and scontrol show node NAME
 tell why; leave -w out or name other nodes, or have it resumed (scontrol update nodename=NAME state=resume) once its
 fault is mended
[Jj]ob dependency problem|[Cc]ircular job dependency ; the job that --dependency names is not there any more, or waits
 for this one ; sacct -j ID of that job; correct or drop --dependency (afterany instead of afterok, where it may have
 failed)
Insufficient GRES|RestrictedCoresPerGPU ; the step asks for more GPUs, or more processors beside them, than its job was
 given ; the same --gres or --gpus in srun as in sbatch, and no more processors than belong to these GPUs (scontrol
 show job -d)
Requested node configuration is not available ; no node of the partition has together what the job asks for:
 processors, memory, GPUs, features ; sinfo -N -o '%N %c %m %G %f' shows what each has: lower --cpus-per-task, --mem or
 --gres until one row fits, or take another partition
""",
    "bad-arguments": _NO_PYXIS,
    "slurm-error": _NO_PYXIS
    + r"""
gres\.conf duplicate records for (?P<kind>[\w-]{1,30}) ; gres.conf holds the same record for {kind} more than once, and
 slurmd does not start by it ; leave one line Name=gpu, or none beside AutoDetect=nvml, which finds the devices.
 Without AutoDetect each line needs its own File= (Name=gpu File=/dev/nvidia0). Mend the template that writes a line
 for each GPU. Then restart slurmd and scontrol update nodename=NODE state=resume. The GPUs need no repair
gres\.conf for (?P<kind>[\w-]{1,30}), some records have \W{0,2}(?P<key>\w{3,10}) ?=?\W{0,2} ?specification ; records of
 {kind} in gres.conf are of two forms: some have {key}= and others do not, and slurmd does not start by it ; give it
 to all of these records or to none; beside AutoDetect=nvml leave the bare Name=gpu out. NodeName= on a line keeps
 it to those nodes. Then restart slurmd and scontrol update nodename=NODE state=resume. The GPUs need no repair
BPF load error|[Mm]emlock.{0,40}BPF ; Slurm cannot load its program that gives a job its devices (BPF): slurmd's limit
 on locked memory is too small, or BPF is forbidden ; LimitMEMLOCK=infinity in slurmd.service (systemctl daemon-reload,
 restart slurmd), and no container or lockdown around slurmd that takes CAP_BPF away
scope directory|dbus system daemon|system_bus_socket ; Slurm's daemon cannot make its group of resources (cgroup v2),
 as it does not reach systemd (dbus) ; start dbus and systemd on that node. In a container IgnoreSystemd=yes in
 cgroup.conf, with /sys/fs/cgroup writable. Then restart slurmd
Task launch for \S+ failed on node (?P<node>[\w.-]+): (?P<why>(?:Socket timed out|Communication|Connection|Unable to
 contact |No route|Unexpected).{0,60}) ; Slurm's daemon on node {node} does not answer ({why}), so that its tasks did
 not start ; on that node: systemctl status slurmd, its log, load and dmesg; from another one nc -zv NODE 6818. Leave
 it out until then (--exclude=NODE). Where all nodes say so: a firewall, or names that resolve otherwise there
SLURM_MEM_PER_\w+,? .{0,80}mutually exclusive ; the job's memory is given in two ways at once: --mem, --mem-per-cpu and
 --mem-per-gpu exclude each other, also as variables of the sbatch around it ; give one of them, the same in sbatch and
 srun. Within a script or shell of Slurm: unset SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE before srun
 --mem=...
set by two different environment variables (?P<one>\w+=\S+) != (?P<other>\S+) ; two variables of Slurm contradict each
 other: {one}, {other} ; unset one of them before srun (the allocation or an outer script set it), or ask for the same
 in sbatch and srun
DOS line breaks|\^M\b|\\r\\n ; the script has the line ends of Windows (CR LF), which Slurm and the shell do not take ;
 dos2unix SCRIPT, or sed -i 's/\r$//' SCRIPT; let the editor and git keep LF (core.autocrlf=input)
pyxis: .{0,30}source path does not exist: (?P<path>\S+)|[Ii]nvalid --container-mounts argument: (?P<other>[^:\s]+) ; a
 folder that --container-mounts names is not on that node: {path}{other} ; ls it there (srun -N1 -w NODE ls PATH):
 create or mount it on all nodes, or correct the path, which is SOURCE:TARGET with the host's folder first
""",
    "node-lost": r"""
Node bootstrap error|protected mode ; new nodes of the cluster (ParallelCluster) fail while they come up, so that it
 stops starting more ; their own log tells why: /var/log/cloud-init-output.log and chef-client.log in CloudWatch (a
 script of OnNodeConfigured, no way to S3 or the internet, an image). Then pcluster update-compute-fleet --status
 START_REQUESTED
(?P<job>\[Auto Resume\]).{0,200}(?:[Rr]eplace|RETRYSTEP|requeue|new node) ; HyperPod found a node of the job unfit,
 replaces it, and starts the step again ; let the job go on from its last checkpoint. /var/log/aws/clusters and the
 cluster's events tell what the health check found there (GPU, EFA); sinfo -R shows the node's reason
Host EC2 \(instance \S+\) terminated ; AWS ended the instance below the job: a spot machine was taken back, or it
 failed ; look at the instance's state reason (aws ec2 describe-instances, spot requests). On-demand or reserved
 capacity, or a retry strategy of the job queue (attempts, evaluateOnExit on "Host EC2*") and checkpoints
""",
    "job-cancelled": r"""
Auto Resume ; HyperPod found a node of the job unfit, replaces it, and starts the step again ; let the job go on from
 its last checkpoint; the cluster's events tell what the health check found on that node
""",
    "job-pending": r"""
MISCONFIGURATION:(?P<why>[\w ]{3,60}\w) ; AWS Batch will never start the job as it is set up: {why} ; compare the job's
 vCPUs, memory and GPUs with the types of its compute environment (some memory of each goes to the agent). Look at its
 largest size and the instance role, too, and submit the job anew
PartitionTimeLimit|PartitionNodeLimit ; the job waits for ever: it asks for more time or nodes than its partition
 allows ; sinfo -o '%P %l %s', then scontrol update jobid=JOB TimeLimit=... (or NumNodes=...), or another partition
maintenance ; the job waits for the end of a maintenance: with its time limit it would run into it ; scontrol show
 reservation tells when: a shorter --time that ends before lets it start now
launch failed requeued held|user env retrieval ; the job was put back and held, as it could not be started on a node ;
 sinfo -R and slurmd's log of the node it was given (prolog, home folder, user unknown there): mend or drain that node,
 then scontrol release JOB
ReqNodeNotAvail|DOWN, DRAINED|NodeDown|Specified host ; the job waits for nodes that are down, drained or reserved ;
 sinfo -R tells why they are out: mend and resume them, or ask for other and fewer nodes (no -w, a smaller -N)
DependencyNeverSatisfied ; the job waits for ever: the job that it depends on failed or was cancelled ; sacct -j of
 that job; scancel this one, or scontrol update jobid=JOB Dependency= (afterany in place of afterok)
BadConstraints ; the job waits for ever: no nodes fulfil its constraints together (features, GPUs, memory) ; sinfo -N
 -o '%N %c %m %G %f'; correct --constraint, --gres, --mem or -w: scontrol update jobid=JOB Features=...
AccountNotAllowed|Invalid(?:Account|QOS)|QOSNotAllowed ; the job waits for ever: its account or quality of service may
 not use that partition ; sacctmgr show assoc user=$USER and scontrol show partition: correct --account, --qos or
 --partition
JobHeldUser|JobHeldAdmin ; the job is held, by its user or by an administrator ; scontrol release JOB (JobHeldUser);
 ask who runs the cluster for JobHeldAdmin
Partition(?:Down|Inactive)|ReservationDeleted ; the job's partition or reservation is closed or gone ; sinfo -s,
 scontrol show reservation: another --partition or --reservation
Can Never Run: (?P<why>.{3,110}) ; no host of the queue will ever fit the job: {why} ; qstat -f JOB and pbsnodes -aSj:
 ask for what one host has (R: asked for, A: free, T: in all), or more chunks of less
GPU resources|not satisfied ; LSF finds no host with the GPUs that the job asks for ; bhosts -gpu and lshosts -gpu show
 what there is and is free: fewer GPUs for each host (-gpu num=N, span[ptile=N]), or another model or mode
 (j_exclusive)
chdir to (?P<folder>\S+?):? (?:No such|Permission) ; SGE put the job into error: its folder {folder} is not on the host
 that it was given ; mount it there, or submit from a folder that all hosts have (-wd, -cwd); then qmod -cj JOB clears
 the error
""",
    "ssh-launch": r"""
pam_slurm_adopt|no active jobs on this node ; Slurm allows ssh only to nodes on which the user's own job runs: it does
 not run on that one (pam_slurm_adopt) ; start ranks by srun within the job, which needs no ssh. Or correct the
 hostfile: scontrol show hostnames $SLURM_JOB_NODELIST, while the job runs
kex_exchange_identification ; a host's sshd closes connections before it asks for a key: too many at once
 (MaxStartups), a ban, or a list of hosts ; raise MaxStartups (200:30:400) in its sshd_config, or start fewer at once
 (mpirun --mca plm_rsh_num_concurrent 16, pdsh -f 16, srun). Where one connection fails, too: fail2ban, hosts.deny, and
 sshd's log there
""",
}
