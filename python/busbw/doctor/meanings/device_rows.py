"""What `particulars` knows of accelerators of other makers than NVIDIA, and of programs that run on them."""

from __future__ import annotations

DEVICE_ROWS = {
    "amd-gpu-error": r"""
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
 drain the node and reset that GPU (amd-smi reset -G) or reboot, so that the bad page is retired. amd-smi bad-pages
 (rocm-smi --showretiredpages) counts them: replace the GPU where they grow or the threshold is reached
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
 see
 the links of the NPUs (hccn_tool -i N -link -g, -ip -g, -net_health -g) and ping between them; tls alike on all
 (hccn_tool -i N -tls -g). Where ranks only start late, raise HCCL_CONNECT_TIMEOUT
""",
    "gpu-memory-full": r"""
PT_DEVMEM|HPU out of memory ; the memory of a Gaudi accelerator is full ;
 smaller batches, activation checkpointing, or the model over more devices (DeepSpeed ZeRO, a larger tensor parallel
 size); max_graph_size and PT_HPU_MAX_COMPOUND_OP_SIZE keep graphs smaller. In vLLM lower VLLM_GRAPH_RESERVED_MEM and
 gpu_memory_utilization. End what still holds the device (hl-smi)
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
 HIP_VISIBLE_DEVICES; no partition (amd-smi set --compute-partition SPX) where the program expects whole GPUs. Then a
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
(?:local|global)_topology|cuda:\w{0,20}topology ; not all processes of a JAX job told the devices they have: one did
 not
 start its backend (no GPU, an exception, a slow start) ;
 read the log of the process whose number the key ends with: it crashed before, or still loads. All processes call
 jax.devices() or any computation at the same point, and none falls back to CPU
master connect|http://\S{3,60}:\d{2,5}.{0,40}(?:time|connect)|paddle ; not all nodes reached the master of Paddle's
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
cupy|NcclCommunicator ; CuPy was installed without NCCL, or cannot load it ;
 pip: python -m cupyx.tools.install_library --library nccl --cuda 12.x, or pip install nvidia-nccl-cu12; conda install
 -c conda-forge nccl. python -c "import cupy; cupy.show_config()" must then show a NCCL Runtime Version
(?P<lib>libcud\S{2,40}\.so[.\d]{0,12}) ; cuDNN is not whole here: {lib} is not found, which cuDNN loads only when it
 needs it ;
 pip install --force-reinstall the nvidia-cudnn-cu12 (cu11) that the framework asks for, on all nodes. Or put the
 folder
 of that very release into LD_LIBRARY_PATH, and none of another
""",
    "connection-timeout": r"""
(?:tcp|tls|ucxx?)://(?P<to>[\w.:\[\]-]{3,60}) ; a process of Dask got no answer from {to} ;
 nc -zv of that address and port from the worker's host. Let scheduler and workers name the network that all share
 (--interface ib0 or --host): an address of docker0 (172.17.) reaches no other host. Open the ports, and start the
 scheduler first; distributed.comm.timeouts.connect where it only starts slowly
""",
}
