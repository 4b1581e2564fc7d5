"""What `particulars` knows of MPI, its launchers and its transports, and of NVSHMEM. Rows as in particular_rows.py."""

from __future__ import annotations

MPI_ROWS = {
    "mpi-setup": r"""
mutually-exclusive MCA ; two variables of MPI are set that rule each other out, as a list to include and one to
 exclude ; leave one: the box names both and where they come from. Look also into openmpi-mca-params.conf, ~/.openmpi
 and the environment (env | grep -E 'OMPI_MCA|PRTE_MCA'), which an image may set
Both TCP interface include ; MPI's launcher is given interfaces to use and others to leave out, and takes one list
 only ; keep oob_tcp_if_include (PRRTE: prte_if_include) and remove the list to exclude, which is often set in
 openmpi-mca-params.conf or in the environment
directive is not recognized|mapping request contains ; a word of --map-by, --rank-by or --bind-to is none that this
 mpirun knows ;
 correct the word that the box shows: --map-by ppr:8:node, core, numa, package; --bind-to core, numa or none. Open MPI 5
 says package where release 4 said socket
Conflicting directives|contradict each other ; options that place the ranks contradict each other (--map-by, -N,
 --npernode, or variables beside them) ; keep one: --map-by ppr:8:node alone. Remove -N, --npernode and rmaps_* of
 openmpi-mca-params.conf or the environment
cpus-per-proc ; a rank is to get more cores than the object has by which ranks are mapped ; fewer cores for each
 (--map-by numa:PE=4), or a larger object (--map-by package:PE=16 or ppr:4:node:PE=16).
 The command lstopo shows how many cores
 each has, of which a container or Slurm may give a part
unknown option \W?(?P<option>[\w-]{1,40}) ; mpirun does not know the option {option}: it is of another MPI's mpirun,
 or of another release ; which -a mpirun; mpirun --version. MPICH's and Intel's words are -ppn, -genv, -hosts and
 -iface; Open MPI's are --map-by ppr:8:node, -x and -H. Call the mpirun of the MPI that the program was built with, by
 its full path
variable file \W?(?P<file>[^\s"]{1,100}) ; the file of MPI's variables that --tune or --am names is not on that host:
 {file} ; correct its path, or put it at the same place on all hosts; files without a path are looked for in
 share/openmpi/amca-param-sets of the installation
mpi_cuda_support ; MPI is told to support CUDA, and this build of Open MPI cannot ;
 remove mpi_cuda_support (command, OMPI_MCA_mpi_cuda_support, openmpi-mca-params.conf), or load an Open MPI that was
 built --with-cuda (ompi_info | grep -i cuda). NCCL itself needs no CUDA in MPI
invalid value was supplied ; a variable of MPI has a value that it does not take ;
 the box names variable and value: correct it, also in openmpi-mca-params.conf and the environment (OMPI_MCA_*);
 ompi_info --all lists the values that it takes
multiple different ; the place where MPI is installed is told in two ways that differ ;
 name one: call mpirun by its full path, and unset PRTE_PREFIX, PMIX_PREFIX, OPAL_PREFIX and --prefix, or give them
 that same path; one MPI at the same place on all hosts
negation operator ; a list of MPI's components mixes names to use and names to leave out ;
 one ^ at the start leaves all of them out (--mca btl ^openib,uct); without it only those that are named are used
couldn't open the help file ; MPI does not find its own files: the installation was moved or copied from where it was
 built, or a part of another one is loaded ; export OPAL_PREFIX (and PMIX_PREFIX, PRTE_PREFIX for Open MPI 5) with the
 folder where it lies now, on all hosts (mpirun -x). Else install it where it was built for; LD_LIBRARY_PATH and PATH
 of one MPI only
underlying prterun ; Open MPI 5 finds no prterun, which its mpirun calls: the installation is not whole, or was moved
 ; install PRRTE with it (packages split them: openmpi-bin, prrte), or export OMPI_PRTERUN with its full path; after a
 move OPAL_PREFIX, PRTE_PREFIX and PMIX_PREFIX
SLURM process starter ; mpirun sees that it is in a job of Slurm, and finds no srun: mostly within a container ;
 start the ranks from outside: srun --mpi=pmix with the container; or call mpirun on the host. On one host, or with ssh,
 within it: --mca plm ^slurm --mca ras ^slurm (Open MPI 5: --prtemca plm ^slurm --prtemca ras ^slurm)
resource allocator expects ; mpirun sees that it is in a job of Slurm, and lacks the variables that tell of its nodes ;
 start it in the allocation itself (sbatch, salloc), with SLURM_* passed on to the container. Where it shall not use
 Slurm: unset SLURM_JOBID SLURM_JOB_ID, or --mca ras ^slurm --mca plm ^slurm, with a hostfile
configured without support for ; hosts of different kinds (such as x86 and Arm) are in one job, for which this Open
 MPI was not built ; take hosts of one kind (--hostfile, -w, --constraint), each with a program built for it. An Open
 MPI with --enable-heterogeneous would start, and NCCL joins such hosts only where both run the same release
mismatch in versions ; the hosts start different releases of Open MPI (PRRTE): another one comes first in the PATH of
 that host ; ssh HOST 'which prted orted; mpirun --version' on each. Name one by mpirun --prefix /opt/openmpi (the
 full path to mpirun does the same), in containers by the same image on all hosts
No usable network interfaces ; MPI's launcher has no network interface left on that host: its list leaves none ;
 name an interface or network that is up on every host (ip -br addr): --prtemca prte_if_include 10.0.0.0/8, or unset
 prte_if_include and prte_if_exclude (command, openmpi-mca-params.conf, PRTE_MCA_*)
too long for ; the path of MPI's temporary folder is too long for a UNIX socket (107 characters) ;
 export TMPDIR=/tmp (short, and on a local disk) before mpirun, and on all hosts (-x TMPDIR)
mkdir was unable ; MPI cannot make its temporary folder on that host: no right there, no space, or a rest of another
 user ; df -h and ls -ld of the folder that the box names. Remove the rest
 (/tmp/ompi.*, /tmp/prte.*), or export
 TMPDIR with a local folder that you may write, on all hosts
than the ppr for|rankfile that was used claimed ; more ranks are to be placed on hosts than the mapping (ppr,
 rankfile) or their slots allow ; ppr:N:node times the hosts must be at least -np; leave -np out, or name more hosts.
 Names in a rankfile must be those of the hostfile or allocation (short or full alike), and their slots enough
prohibited locations ; MPI's temporary folder lies where this site forbids it, mostly on a network's file system ;
 export TMPDIR=/tmp (a local disk) before mpirun, or --prtemca prte_tmpdir_base /tmp
missing libz ; a host lacks the library zlib (libz), which MPI's daemons there need ;
 install zlib on that host and in its image (zlib1g, zlib), at the release of the others
made to bind ; ranks are to be bound to more cores than the host, its cgroup or its container gives them ;
 --bind-to none (NCCL needs no binding; numa is better where there is room), or fewer ranks there. Slurm gives more by
 --cpus-per-task or --exclusive; with hardware threads --use-hwthread-cpus. :overload-allowed lets ranks share cores
parse error in the hostfile ; a line of the hostfile is written in words that mpirun does not know ; the box names
 file, line and word. A line is: NAME slots=8 (not slot= or NAME:8, as MPICH has it), comments begin with #
srun returned non-zero ; mpirun starts its daemons by srun in a job of Slurm, and that srun failed ;
 read what srun says above it. Mostly: prted is not at that path on the other nodes, the step gets no cores or memory
 (unset SLURM_CPU_BIND, SLURM_MEM_*; --overlap), or mpirun
 runs within srun. Then srun --mpi=pmix PROGRAM does without mpirun
fork\(\) ; a process started another one (fork, system, subprocess) after MPI had registered memory with the NIC,
 which may corrupt memory ; start children before MPI_Init, or workers by spawn or forkserver (DataLoader,
 multiprocessing). With rdma-core and a kernel of 5.13 or newer it does no harm, then --mca mpi_warn_on_fork 0; else
 RDMAV_FORK_SAFE=1
""",
    "mpi-misused": r"""
intercepted a call to free memory ; the program frees memory that MPI still sends from or receives into ;
 wait for the request (MPI_Wait, MPI_Test) before the buffer is freed or goes out of scope; look for it under valgrind
more than once|multiple times ; the program starts or ends MPI twice in a process ;
 mpi4py does both by itself when MPI is imported, and libraries may too: ask MPI_Initialized and MPI_Finalized first,
 or mpi4py.rc.initialize = False. One MPI_Init and one MPI_Finalize in each process
(?:\*\*\* The|routine \()\s?(?P<call>(?:MPI|internal)_\w{2,40})?.{0,40}before ; the program calls MPI ({call}) before
 MPI_Init ; call MPI_Init (or import mpi4py's MPI) first in every process, also in those that fork made; a library
 that uses MPI when it is loaded needs that, too
after (?:MPI_)?finaliz ; the program calls MPI after MPI_Finalize, and MPI cannot be started again in a process ;
 move the call before MPI_Finalize: destructors, atexit and Python's end come later (mpi4py.rc.finalize = False). Free
 communicators, windows and NCCL's communicators before
""",
    "mpi-error": r"""
MPI_ERR_RANK\b ; {title}: it names a rank that its communicator does not have. Mostly fewer ranks run than the program
 counts on, or each rank is a world of its own ;
 print rank and size in the program: size 1 everywhere means that mpirun is of another MPI. Else start as many ranks as
 its grid (tensor, pipeline, data parallel) needs, and count from 0
MPI_ERR_COMM\b ; {title}: its communicator is none: freed, MPI_COMM_NULL on ranks outside of a split, or a handle
 of another MPI ;
 use communicators only on ranks that got one, and not after MPI_Comm_free. Build program, mpi4py and libraries with the
 MPI that is loaded (ldd PROGRAM | grep mpi): headers of MPICH do not fit Open MPI
MPI_ERR_(?:WIN|RMA\w{0,20}|BASE|DISP)\b ; {title}: one-sided communication (a window) could not be made or used ;
 all ranks must make the window alike. Choose how it works: --mca osc ucx, or --mca osc rdma --mca btl tcp,self;
 --mca osc sm only on one host. Memory of GPUs needs an MPI built for it
MPI_ERR_TAG\b ; {title}: its tag is negative, or larger than this transport takes (MPI_TAG_UB) ;
 keep tags small (below 32768 is always right), and ask MPI_Comm_get_attr for MPI_TAG_UB; UCX and libfabric allow fewer
 bits than TCP
MPI_ERR_COUNT\b ; {title}: its count is negative, mostly as it is more than 32 bits hold (2^31) ;
 send in parts of less than 2^31 elements, a larger type, or the calls of MPI-4 that end in _c
""",
    "mpi-network": r"""
failed an OFI Libfabric library call \((?P<call>\w{3,40}) ; MPI's network (libfabric) fails in {call} on that host ;
 the line `Error` below tells why: for `Cannot allocate memory` end left-over processes on that NIC, start fewer ranks,
 and ulimit -l unlimited. FI_LOG_LEVEL=warn tells more. To go on over TCP: --mca pml ob1 --mca btl tcp,self
OFI MTL was not able ; a rank on another host could not open its NIC by libfabric, so that this one has no address of
 it ; look at the host that the box calls `Remote host`: fi_info there (the same provider as here), /dev/infiniband in
 its container, ulimit -l. To go on: --mca pml ob1 --mca btl tcp,self
av insert failed ; the address that another rank gave is none that this host's libfabric can use: hosts took different
 providers or networks ;
 name both on all hosts alike: FI_PROVIDER=tcp (verbs;ofi_rxm, psm3, efa), FI_TCP_IFACE=eth0, FI_VERBS_IFACE=ib0; one
 libfabric on all. FI_LOG_LEVEL=info shows what each host took
PSM3 can't open|open PSM3 endpoint ; PSM3, which libfabric took, finds no NIC there that it can use ;
 FI_PROVIDER=verbs;ofi_rxm or tcp to go without it. Else PSM3_NIC names a NIC (ibv_devices) whose port is active and has
 an IPv4 address, and the container needs /dev/infiniband
PSM2 was unable to open|assign_context.{0,80}(?:busy|No such)|no free (?:hfi )?contexts ; no context of the Omni-Path
 adapter (hfi1) can be had on that host: all are in use, or its link is down ;
 opainfo shows the link. End left-over processes (fuser -v /dev/hfi1_0), share contexts (PSM2_SHAREDCONTEXTS=1,
 PSM2_RANKS_PER_CONTEXT=2), or raise num_user_contexts of the module hfi1
(?:fi_getinfo|addrinfo)\(\) failed.{0,120}No data available ; libfabric offers MPI no provider on that host that fits
 what it asks for ; fi_info there must list one. Intel MPI: FI_PROVIDER=mlx (with UCX), verbs, psm3, efa or tcp, and
 FI_PROVIDER_PATH of its own libfabric. Unset FI_PROVIDER and I_MPI_OFI_PROVIDER of other machines; give the container
 /dev/infiniband
vni_context.{0,160}not permitted ; the job has no right to use the Slingshot network: no virtual network (VNI, CXI
 service) was given to it ; start with srun (not mpirun or ssh): Slurm's switch plugin gives the VNI, and
 SLINGSHOT_VNIS and SLINGSHOT_SVC_IDS must reach the container. --network=single_node_vni for jobs of one node
devx_obj_create\((?P<what>[\w ]{1,20})\) failed, syndrome (?P<code>0x\w{1,8}) ; the NIC's firmware refuses to make an
 object that UCX asks for ({what}, syndrome {code}) ; keep to what it has: UCX_TLS=rc_v,ud_v,sm,self (with
 cuda_copy,cuda_ipc), or UCX_IB_MLX5_DEVX=n; then update firmware and rdma-core (DOCA). In virtual functions DC and
 DEVX may be switched off; dmesg tells of mlx5 errors
remote memory is unreachable ; UCX has no way to read or write the memory of that rank, which one-sided calls need ;
 let UCX take RDMA or shared memory for it: unset UCX_TLS and UCX_NET_DEVICES, or add rc and cma; or do without: --mca
 osc ^ucx. In containers it needs --ipc=host and /dev/infiniband
TL_NCCL\s+ERROR ; NCCL failed within UCC, which uses it for collectives: NCCL's own warning tells why ;
 NCCL_DEBUG=WARN, and mend what it says. To do without: UCC_TLS=^nccl, or --mca coll_ucc_enable 0
""",
    "mpi-launch": r"""
unrecognized argument (?P<option>[\w-]{1,40}) ; MPICH's launcher (Hydra) does not know the option {option}: it is of
 another MPI's mpirun, or misspelled ; mpiexec -help of this MPICH lists its options (-ppn, -hosts, -genv, -bind-to).
 Those of Open MPI (--mca, -x, --map-by, --bind-to-none) do not work here: which -a mpirun, and call the one of the
 MPI that the program was built with
unable to run (?:bstrap_)?proxy on (?P<host>[\w.-]{1,60}) \(pid \d{1,8}, exit code (?P<code>\d{1,6}) ; Intel MPI's
 launcher could not start its helper on {host} (exit code {code}; 65280 is 255, as ssh ends that cannot log in) ; ssh
 HOST true without a password, and the same Intel MPI at the same path there (setvars.sh). In Slurm: -bootstrap slurm
 or I_MPI_HYDRA_BOOTSTRAP=slurm. I_MPI_HYDRA_IFACE names the network; open its ports
not part of the current allocation|requested hosts? (?:is|are) not included|that match the requested mapping|no
 allocated resources ; a host that mpirun is asked for is not in its allocation or hostfile ; write hosts as the
 allocation does (scontrol show hostnames; short or full names alike), ask for them there, or leave -H and --hostfile
 out. Outside of the scheduler: unset SLURM_* and PBS_NODEFILE
""",
    "job-cancelled": r"""
time limit for job execution has been reached|APPLICATION TIMED OUT ; mpirun ended the job at its own limit (--timeout
 or MPIEXEC_TIMEOUT): too short, or the job stood still ; look at what the ranks wrote last: where they wait for each
 other, find that first (py-spy dump, NCCL_DEBUG=INFO). Else raise the limit or leave it out
""",
    "ib-devices-missing": r"""
network devices? (?P<what>'[^']{1,40}'(?:, ?'[^']{1,40}')*) (?:is|are) not available, please use one or more of:
 (?P<have>.{1,160}) ; UCX_NET_DEVICES names what this host does not have ({what}); it has {have} ;
 unset UCX_NET_DEVICES, or name devices that every host has in its container (ucx_info -d; names may differ by host).
 Is the NIC there on the host (ibv_devinfo), give the container /dev/infiniband
""",
    "network-not-found": r"""
ofi_init\.c:|MPIDI_OFI|find_provider ; libfabric offers MPI no provider on that host that fits what it asks for ;
 fi_info there must list one. Intel MPI: FI_PROVIDER=mlx (with UCX), verbs, psm3, efa or tcp, and FI_PROVIDER_PATH of
 its own libfabric. Unset FI_PROVIDER and I_MPI_OFI_PROVIDER of other machines; give the container /dev/infiniband
""",
    "message-truncated": r"""
MPI_ERR_TRUNCATE ; a message of MPI is longer than the buffer of the rank that receives it: counts or types of
 the two calls differ, or another message was meant ;
 compare count, type, tag and communicator of send and receive (print them on both ranks), and that all ranks call
 the same collectives in one order. MPI_Probe or comm.probe tells a length before
""",
    "slingshot": r"""
LE resources|RX_MATCH_MODE ; the Slingshot NIC has no room left to match messages in hardware (LE resources): many
 small or unexpected messages at once ;
 export FI_CXI_RX_MATCH_MODE=software (or hybrid) on all ranks, and FI_CXI_RDZV_THRESHOLD=16384 with larger
 FI_CXI_DEFAULT_CQ_SIZE=131072. aws-ofi-nccl also wants FI_CXI_DISABLE_HOST_REGISTER=1
""",
    "vm-topology": r"""
too many (?:XML|Topo|NICs|nodes|DEV) ; the topology that NCCL reads is larger than this release has room for ;
 take the newest NCCL, which has more room. Else leave out what is not needed: NCCL_IB_HCA, fewer virtual NICs or
 functions (SR-IOV) in the container, and no NCCL_TOPO_FILE of another machine
""",
    "nvshmem-init": r"""
nvshmem malloc failed|SYMMETRIC_SIZE|symmetric heap memory ; NVSHMEM's symmetric heap is too small for what the program
 asks of it ;
 raise NVSHMEM_SYMMETRIC_SIZE (such as 4G; 1 GiB is its default), alike on all ranks, and leave that much memory of the
 GPU free. DeepEP and others name what they need for their buffers
""",
}
