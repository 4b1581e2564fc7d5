"""What `particulars` knows of accelerators of other makers than NVIDIA, and of programs that run on them."""

from __future__ import annotations

DEVICE_ROWS = {
    "amd-gpu-error": r"""
bad pages?.{0,20}reaches threshold|RAS records.{0,20}exceed\w* threshold|bad.?page.?threshold ; an AMD GPU has
 used up the pages that may
 be retired: the driver no longer takes it into service ;
 take the node out and have that GPU replaced (amd-smi bad-pages shows the count); neither a reset nor another driver
 mends it. bad_page_threshold of the module only hides it
Fatal error during GPU init|hw_init of IP block|device_ip_init failed|PSP (?:firmware loading|load \w{2,8})
 failed|probe
 (?:of|with) .{1,40}failed with error ; the amdgpu driver cannot start a GPU of this host, which is missing since ;
 dmesg names the GPU and the part (IP block) that fails first; psp and smu are its own firmware. Bring amdgpu driver,
 linux-firmware and the board's firmware (IFWI) to one release. Then power the host off and on, as a warm reboot
 does not
 reset the board; replace the GPU where it fails again
not done with your previous command|SMU (?:response timeout|hang)|Failed to (?:export SMU|send message|get current
 clock)
 ; the processor that runs power and clocks of an AMD GPU (SMU) no longer answers ;
 drain the node, then power it off and on: a reset of the GPU goes through that processor and mostly fails. Bring
 amdgpu
 driver and board firmware to one release; replace a GPU where it returns
(?P<pci>[\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.\d)\b.{0,60}(?:RAS poison|uncorrectable hardware errors? ?(?:\(|detected)
 ?in (?:total in )?umc|poison) ;
 memory of an AMD GPU has an error that ECC could not correct (GPU {pci}) ;
 drain the node and reset that GPU (amd-smi reset -G) or reboot, so that the bad page is retired. The list
 of them (amd-smi bad-pages, rocm-smi --showretiredpages) shows the count: replace the GPU where they grow or the
 threshold is reached
XGMI ; a link between AMD GPUs (XGMI) failed ;
 amd-smi xgmi -e and dmesg say which; reset the GPUs (amd-smi reset -G), leave the node out where it returns
ring \S{1,40} timeout|job_timedout|MES |qcm fence|Failed to (?:evict|quiesce) ; a queue of an AMD GPU stood still, and
 the
 driver resets it ;
 update amdgpu driver and firmware together; run the same kernel alone; reset the GPU (amd-smi reset -G) and drain the
 node where it returns under other programs
page fault|PROTECTION_FAULT|MEMORY_(?:FAULT|APERTURE)|ILLEGAL|INVALID_PACKET ; a kernel on an AMD GPU used an address
 that
 it may not ;
 it is a fault of the program or its libraries: AMD_SERIALIZE_KERNEL=3 and HSA_XNACK as needed show which kernel;
 one ROCm for driver and user space; IOMMU with iommu=pt
""",
    "intel-gpu-error": r"""
wedged ; the driver gave an Intel GPU up (wedged): it takes no work until it starts anew ;
 drain the node; unbind and bind the device, load xe (i915) again, or reboot. Keep the devcoredump for Intel; bring
 kernel driver, GuC firmware and compute runtime to one release
""",
    "npu-error": r"""
inconsistent between ranks ; {title}: ranks called collectives that do not fit each other ;
 compare what the ranks call at that point: the parameter that is named (count, type, operation, tag) differs.
 Pad to one
 shape, drop the last batch that is not full, no branch by rank; then restart all
HCCP process|last training process ; a process of the run before still holds the NPU's part for communication (HCCP) ;
 end what is left on that host (npu-smi info lists it by device; kill it by its id), wait ten seconds, start again. In
 containers give a device to one of them alone
bind the IP port|(?:address and |IP )?port have been bound|bound already ; the port of HCCL is taken on this host, by
 another job or by what is left of the last one ;
 see who listens: ss -ltnp | grep 16666. End what is left, or give each job its own ports: HCCL_IF_BASE_PORT,
 HCCL_NPU_SOCKET_PORT_RANGE and HCCL_HOST_SOCKET_PORT_RANGE
dcmi (?:module|model) init|aclInit|Failed to obtain the SOC|davinci_manager|can ?not get device count ; the driver
 of the
 NPUs does not answer here: the container was not given it, or it does not run on the host ;
 npu-smi info on the host first. Give the container /dev/davinciN, /dev/davinci_manager, /dev/devmm_svm and
 /dev/hisi_hdc, and mount /usr/local/Ascend/driver and /usr/local/dcmi (Ascend's runtime does both). Driver, firmware
 and CANN of releases that fit
HBM MULTI BIT ECC|uncorrectable error of the memory ; {title}: memory of that NPU has an error that ECC could not
 correct
 ;
 drain the node, reset the NPU (npu-smi set -t reset -i ID -c 0) or reboot; npu-smi info -t ecc -i ID counts the
 errors.
 Replace the card where they return
(?:Getting socket|socket) times? out|timeout detection|ranktable.{0,40}(?:time|detect) ; {title} ;
 look for the rank whose log has an earlier error, or none: it never started its communicator. Where all are alive,
 see the
 links of the NPUs (hccn_tool -i N -link -g, -ip -g, -net_health -g). Ping between them; tls must be alike on all
 (hccn_tool -i N -tls -g). Where ranks only start late, raise HCCL_CONNECT_TIMEOUT
""",
    "gpu-memory-full": r"""
PT_DEVMEM|HPU out of memory ; the memory of a Gaudi accelerator is full ;
 smaller batches, activation checkpointing, or the model over more devices (DeepSpeed ZeRO, a larger tensor parallel
 size); max_graph_size and PT_HPU_MAX_COMPOUND_OP_SIZE keep graphs smaller. In vLLM lower VLLM_GRAPH_RESERVED_MEM and
 gpu_memory_utilization. End what still holds the device (hl-smi)
HSA_STATUS_ERROR_OUT_OF_RESOURCES ; a queue of an AMD GPU got no memory any more (out of resources): the GPU's memory
 is full, or a kernel's scratch memory does not fit ;
 smaller batches or a smaller cache, so that about 2 GiB stay free; end other processes (rocm-smi --showpids).
 Where much
 is free: a kernel that spills (HSA_SCRATCH_SINGLE_LIMIT lower), too many threads (ulimit -u) or queues
 (GPU_MAX_HW_QUEUES=2)
of kind (?P<kind>GPU_FB_MEM|GPU_DYNAMIC_MEM) ; Legate's share of GPU memory is too small for what its tasks hold ;
 give it more of the GPU (LEGATE_CONFIG="--fbmem N", in MiB, up to nearly all), more GPUs or nodes, or smaller arrays.
 Free arrays that are no longer used, and leave Python's references to them
NPU out of memory|EL0004 ; the memory of an NPU (Ascend) is full ;
 smaller micro batches, recomputation, more sharding; PYTORCH_NPU_ALLOC_CONF=expandable_segments:True where much is
 reserved and unallocated. HCCL_BUFFSIZE (200 MB for each communicator) takes its part; npu-smi info shows other
 processes
Out of memory error on GPU (?P<gpu>\d{1,3})\. Cannot allocate (?P<size>[\d.]{1,12}[KMGT]B) ; GPU {gpu} is full: {size}
 does not fit (Paddle) ;
 end other processes on it (nvidia-smi); smaller batches, recompute, sharding of stage 2 or 3.
 FLAGS_fraction_of_gpu_memory_to_use below 0.92 leaves NCCL its part, FLAGS_allocator_strategy=auto_growth takes no
 more
 than it needs
""",
    "vm-topology": r"""
alt_rsmi|rocm_smi|hipify/.{0,80}reverse path ; RCCL cannot read the links of the AMD GPUs as the kernel tells them:
 the
 container shows only a part of them ;
 give the container all GPUs of the host (--device=/dev/kfd --device=/dev/dri, /sys as it is) and choose among them by
 HIP_VISIBLE_DEVICES. Take no partition (amd-smi set --compute-partition SPX) where the program expects whole GPUs. Then
 a
 newer RCCL. Until then NCCL_P2P_DISABLE=1 to tell
""",
    "gpu-memory-error": r"""
HBM MULTI BIT ECC|NPU function error|ERR00100 PTA ; memory of an NPU (Ascend) has an error that ECC could not
 correct ;
 drain the node, reset the NPU (npu-smi set -t reset -i ID -c 0) or reboot; npu-smi info -t ecc -i ID counts the
 errors.
 Replace the card where they return
""",
    "gaudi-error": r"""
(?:coordinator|bootstrap|unique ?id)\b.{0,80}(?:[Tt]imed? ?out|connect)|while waiting for \d+ of \d+ ranks|ranks to
 connect ; {title}: not all ranks reached the one that leads (HCCL's coordinator) ;
 look for ranks that never started. Name the network between the hosts on all: HCCL_SOCKET_IFNAME=eth0 (an address of
 docker0 reaches no other host), HCCL_COMM_ID=ADDRESS_OF_RANK_0:PORT where it is used; open its ports
[Pp]orts? .{0,40}down|hcclPortDown|link down ; {title} ;
 bring the ports up (manage_network_ifs.sh --up, --status); hl-smi -n link shows which stay down: cable, switch port,
 its speed. Until then leave the host out
""",
    "oneccl-error": r"""
creating worker thread|start worker|start_workers|pthread_create returns 22 ; oneCCL cannot pin its worker
 threads: the
 cores that it wants are not among those of this process ;
 set CCL_WORKER_AFFINITY to cores that each rank has (taskset -cp $$ shows them) or leave it out; give each rank
 a core
 more than it computes on (srun --cpus-per-task, I_MPI_PIN_DOMAIN), CCL_WORKER_COUNT=1
open_nw_provs|suitable provider|open_providers|fi_getinfo ; oneCCL finds no network by libfabric (OFI) that it can
 use ;
 fi_info must list providers in the same shell: set FI_PROVIDER to one of them (cxi, verbs, psm3, tcp) and
 FI_PROVIDER_PATH to their folder, or start over MPI: CCL_ATL_TRANSPORT=mpi under mpirun. For a test
 FI_PROVIDER=tcp. ulimit -l unlimited
kvs|KVS|pmrt_init ; oneCCL's own store of addresses (KVS) was not reached: {title} ;
 see that rank 0 lives and all ranks were started; name the network between the hosts: CCL_KVS_IFACE=IFNAME (and
 FI_TCP_IFACE), the same store for all (CCL_KVS_IP_PORT); open its ports
""",
    "mps": r"""
client has been terminated|MpsClientTerminated|MPS_CLIENT_TERMINATED|failure 810\b ; another program on the same MPS
 server failed, and CUDA's multi-process service ended this one with it ;
 look for the first client that failed (/var/log/nvidia-mps/server.log, its process id): its error is the cause. Then
 end all clients and restart the service (echo quit | nvidia-cuda-mps-control); ranks of jobs that matter do without
 MPS
resources required to create|MpsMax|MPS_MAX_|failure 80[89]\b|maximum number ; more programs use a GPU through MPS
 than
 it takes (clients or connections) ;
 start fewer processes per GPU (48 clients on Volta to Ampere, 60 on newer drivers), end left-over ones (ps aux),
 lower
 CUDA_DEVICE_MAX_CONNECTIONS
""",
    "rendezvous-timeout": r"""
Barrier timed out\. (?:Barrier_)?[Ii]d: ?\W?Shutdown ; some processes of a JAX job came to their end, and others
 did not
 come to the shutdown barrier: they still compute or wait, or had crashed ;
 read the logs of the tasks that the barrier names: what they did last. All processes must run the same computations,
 and end together (jax.distributed.shutdown after the last work of all of them)
Barrier timed out\. (?:Barrier_)?[Ii]d: ?(?!PjRT|\W?Wait_for|\W?Shutdown)(?P<id>[\w:/-]{3,60}) ; not all tasks
 of a JAX
 job came to one barrier in its time ({id}): the ones that it names were slower, or had failed ;
 read the logs of the tasks that it names: an exception, a slow disk or bucket, other work. A barrier
 of orbax waits for the slowest host's writing: see the file system there. Raise that timeout where it is slow alone
 (AsyncOptions(timeout_secs=))
(?:local|global)_topology|cuda:\w{0,20}topology ; not all processes of a JAX job told the devices they have: one did
 not
 start its backend (no GPU, an exception, a slow start) ;
 read the log of the process whose number the key ends with: it crashed before, or still loads. All processes call
 jax.devices() or any computation at the same point, and none falls back to CPU
master connect timeout ; not all nodes reached the master of Paddle's
 launcher ;
 start all nodes with one --master=ADDRESS_OF_FIRST_NODE:PORT and --nnodes; nc -zv ADDRESS PORT from each of them;
 give
 --host where a node has several addresses, and leave http_proxy unset
""",
    "cpu-build": r"""
No OpKernel was registered ; TensorFlow here has no operation for NCCL: it is a build for processors, or it found no
 GPU ;
 tf.config.list_physical_devices("GPU") on that host; pip install "tensorflow[and-cuda]" of the same release, with the
 driver in the container. Without GPUs take CommunicationImplementation.RING, or ReductionToOneDevice
""",
    "library-not-found": r"""
cupy\S{0,20}nccl|NcclCommunicator ; CuPy was installed without NCCL, or cannot load it ;
 pip: python -m cupyx.tools.install_library --library nccl --cuda 12.x, or pip install nvidia-nccl-cu12; conda install
 -c conda-forge nccl. python -c "import cupy; cupy.show_config()" must then show a NCCL Runtime Version
(?P<lib>libcud\S{2,40}\.so[.\d]{0,12}) ; cuDNN is not whole here: {lib} is not found, which cuDNN loads only when it
 needs it ;
 pip install --force-reinstall the nvidia-cudnn-cu12 (cu11) that the framework asks for, on all nodes. Or put the
 folder
 of that very release into LD_LIBRARY_PATH, and none of another
""",
    "heartbeat-lost": r"""
different incarnation|likely restarted ; {title}: it was started again alone, while the others still run ;
 restart all processes of the job together, from the last checkpoint (JobSet, a launcher that ends all when one ends).
 Give each process its own process_id: two with one number look alike. Why it had ended its log before the
 restart says
""",
    "driver-not-loaded": r"""
ROCk module is NOT|amdgpu not found|AMDSMI_STATUS|amdgpu/initstate ; the kernel's driver of AMD GPUs (amdgpu) is not
 loaded on this host ;
 modprobe amdgpu, and see what dmesg says of it. It may be on a blacklist (/etc/modprobe.d), or not be built for this
 kernel (dkms status, amdgpu-install --usecase=dkms). Whether the cards are there shows lspci -d 1002:
stub library|StubLibrary ; the process loads CUDA's stub of libcuda, which only serves to link, and not the driver's ;
 take .../lib64/stubs out of LD_LIBRARY_PATH (and out of ld.so.conf.d and the image). The driver's libcuda.so.1
 must come
 first: ldconfig -p | grep libcuda; in containers it is mounted by --gpus all
cudaErrorInitializationError|CUDA_ERROR_NOT_INITIALIZED ; CUDA could not start in this process (error 3): it was
 forked
 from one that used CUDA, or the driver is not ready ;
 start processes by spawn or forkserver (multiprocessing.set_start_method), and touch no GPU before: data loaders give
 arrays of the host. Where all processes fail, see nvidia-smi and the fabric manager on that host
""",
    "gpu-too-new": r"""
rocBLAS error|TensileLibrary ; rocBLAS was built without kernels for this AMD GPU ;
 rocminfo shows its gfx name: take ROCm and framework that list it, all of one release. A copy of librocblas
 inside the
 framework's package needs its own folder of kernels (ROCBLAS_TENSILE_LIBPATH). HSA_OVERRIDE_GFX_VERSION helps only
 within one family
""",
    "gpu-permission": r"""
ze_\w{2,20}\.cpp|CCL_|level.?zero|xpu|/dev/dri/by-path ; the process may not open the devices of Intel's GPUs
 (/dev/dri) ;
 add the user to the groups that own them (render, video; --group-add in containers), and give the container
 --device=/dev/dri with its folder by-path (-v /dev/dri/by-path:/dev/dri/by-path)
""",
    "illegal-access": r"""
launch timed out|LaunchTimeout|LAUNCH_TIMEOUT|failure 702\b ; a kernel ran longer than the driver allows on a GPU that
 also serves a display (error 702) ;
 run on GPUs without a display (end the X server or Wayland there, no Interactive in xorg.conf), or split the kernel's
 work. On a GPU without a display it is a kernel that does not end
""",
    "port-in-use": r"""
add port to server|No address added out of ; JAX's coordinator cannot listen at its port: another job has it, or the
 address is not this host's ;
 ss -ltnp | grep the port on the host of process 0: end what is left, or give each job its own port
 (coordinator_address=HOST:PORT). It must be an address of process 0's own host, or set coordinator_bind_address
Bind network on ; the store of Paddle's first rank cannot listen at its port ({title}) ;
 end what is left of the last run (ss -ltnp), or start with another --master port
""",
    "plugin-missing": r"""
rccl-anp|amd-?anp ; the network plugin that NCCL_NET_PLUGIN names for AMD's NICs (AINIC) is not found, and RCCL's
 own transport takes its place ;
 install the plugin (amd-anp) in the image of every node, built for this RCCL; put its folder into LD_LIBRARY_PATH or
 give NCCL_NET_PLUGIN its full path. Unset it where no plugin is meant
""",
    "connection-timeout": r"""
Timed out .{0,60}to (?:tcp|tls|ucxx?)://(?P<to>[\w.:\[\]-]{3,60}) ; a process of Dask got no answer from {to} ;
 nc -zv of that address and port from the worker's host. Let scheduler and workers name the network that all share
 (--interface ib0 or --host): an address of docker0 (172.17.) reaches no other host. Open the ports, and start the
 scheduler first; distributed.comm.timeouts.connect where it only starts slowly
""",
}
