"""Links between findings of jobs, launchers and networks: what stands first explains the others."""

from __future__ import annotations

import re

from busbw.doctor.clues.links.link import Link

OF_JOBS = (
    # The peers of a process that the kernel or the scheduler ended get no answer from it, or are refused.
    Link(
        "host-memory",
        re.compile(r"oom[-_ ]?kill|OOM ?Killed|Out of memory: Kill|Killed process|emory cgroup|signal: Killed"),
        frozenset({"ib-retry", "ib-completion-error"}),
    ),
    Link("host-memory", re.compile(r"oom[-_ ]?kill|OOM ?Killed"), frozenset({"connection-refused"}), first=True),
    Link(
        "job-cancelled",
        re.compile(r"PREEMPT|higher priority"),
        frozenset({"ib-retry", "ib-completion-error", "connection-refused", "nccl-error"}),
        first=True,
    ),
    # Ranks that are there twice leave others that never come.
    Link("rank-count", re.compile(r"already checked in"), frozenset({"init-incomplete"})),
    Link("init-incomplete", re.compile(r"get no answer"), frozenset({"nccl-error"})),
    Link("connection-timeout", re.compile(r"get no answer"), frozenset({"init-incomplete", "nccl-error"})),
    # The pods that run wait for the one that does not.
    Link(
        "slurm-resources",
        re.compile(r" Pending, so that the job is not complete"),
        frozenset({"rendezvous-timeout", "master-unreachable", "store-lost", "dns"}),
    ),
    # Where rank 0 finds its port taken, it listens nowhere.
    Link(
        "port-in-use",
        re.compile(r"failed to listen on any local network address"),
        frozenset({"connection-refused"}),
        re.compile(r"client socket has failed to connect"),
    ),
    *(
        Link(name, re.compile("devices of the NVSwitches within"), frozenset({"ib-async"}))
        for name in ("ib-remote-error", "ib-retry", "ib-completion-error", "ib-connect-timeout")
    ),
    # What takes all connections of a pod keeps ranks from each other.
    *(
        Link(name, re.compile("^a service mesh stands"), frozenset({"init-incomplete", "nccl-error"}))
        for name in ("kubernetes-event", "remote-error", "connection-refused", "connection-timeout", "socket-failed")
    ),
    Link(
        "machine-check",
        re.compile("upon which its kernel stopped"),
        frozenset({"node-lost", "kernel-hang", "ib-retry", "ib-completion-error", "watchdog-timeout", "remote-error"}),
    ),
    # UCX and NCCL meet the same limit.
    Link(
        "memlock", re.compile(""), frozenset({"mpi-network"}), re.compile(r"locked memory|memlock|ibv_\w+\(\) failed")
    ),
    Link("driver-not-loaded", re.compile(r"cannot be built for"), frozenset({"build-failed"})),
    # Without GPUs a container would start: what it is refused is why it does not.
    Link(
        "container-start",
        re.compile(r"container creation failed|could not open image|user namespace"),
        frozenset({"driver-not-loaded"}),
        re.compile(r"nv files"),
    ),
    Link("disk-full", re.compile("pyxis writes"), frozenset({"container-start"})),
    # What the plugin of a node drops it does not offer to the scheduler.
    Link("ib-devices-missing", re.compile(r"RDMA device plugin drops"), frozenset({"slurm-resources"})),
    # A stranger's connection ended the init; the launcher ended the rest.
    Link(
        "remote-error",
        re.compile("no host of this job"),
        frozenset({"init-incomplete", "killed-by-launcher", "nccl-error", "rank-ended"}),
    ),
    Link("library-versions", re.compile("NCCL"), frozenset({"message-truncated"})),
    # A host without an active port takes sockets, and what the others send it over RDMA is refused.
    Link(
        "ib-port-down",
        re.compile("^no RDMA port of"),
        frozenset({"networks-differ", "ib-invalid-gid", "ib-connect-timeout", "no-gdr", "network-interface"}),
    ),
    # Over the others' RDMA the second interface of its sockets carries nothing.
    Link(
        "ib-port-down",
        re.compile("^no RDMA port of"),
        frozenset({"wrong-interface"}),
        re.compile(r"NET/Socket : Using \[0\](?!docker|br-|virbr|veth|cni|cali|flannel)"),
    ),
    Link("networks-differ", re.compile("chose different"), frozenset({"ib-invalid-gid", "ib-connect-timeout"})),
    # The listener of one network does not know the first bytes of another one.
    *(
        Link(name, re.compile(words), frozenset({"stranger"}), re.compile(r"\bwrong type \d{1,3} != \d"))
        for name, words in (("ib-port-down", "^no RDMA port of"), ("networks-differ", "chose different"))
    ),
    # One NIC's setting breaks transfers in several ways.
    *(
        Link(
            name,
            re.compile("forces relaxed ordering"),
            frozenset({"message-truncated", "ib-local-error", "ib-remote-error", "wrong-results"}) - {name},
        )
        for name in ("ib-local-error", "ib-remote-error", "wrong-results")
    ),
    # Who knows which rank calls what knows why sizes do not fit.
    Link("calls-differ", re.compile("^ranks call different"), frozenset({"message-truncated"})),
    Link(
        "collective-mismatch",
        re.compile("^ranks? .{0,60}(?:calls|never came|of different shape)"),
        frozenset({"message-truncated"}),
    ),
    Link(
        "ras-mismatch",
        re.compile("took another branch"),
        frozenset({"watchdog-timeout", "stuck-in-collective", "flight-recorder"}),
    ),
    # A node throws pods out to save itself.
    Link("disk-full", re.compile(r"low on resource|DiskPressure"), frozenset({"job-cancelled"}), re.compile("Evicted")),
    Link("host-memory", re.compile("low on resource"), frozenset({"job-cancelled"}), re.compile("Evicted")),
    # The fault names the GPU whose transfers to another one are refused.
    Link("iommu-fault", re.compile(r"\bnvidia\b.{0,60}IO_PAGE_FAULT"), frozenset({"p2p-matrix"})),
    # Who waits for a lock comes to no collective.
    Link(
        "build-lock",
        re.compile(r"\block\b"),
        frozenset({"watchdog-timeout", "rendezvous-timeout", "stuck-in-collective", "server-waits", "init-incomplete"}),
    ),
    # What a host keeps to itself, and memory that would have been there; the address that all were given.
    Link(
        "connection-refused", re.compile("rpc-server"), frozenset({"gpu-memory-full"}), re.compile(r"llama\.cpp|ggml")
    ),
    Link("wrong-interface", re.compile("gives to all nodes is"), frozenset({"master-unreachable"})),
    Link("master-unreachable", re.compile("gives to all nodes is"), frozenset({"watchdog-timeout"})),
    # The switch tells of the same link at its other end; other GPUs' kernels wait for the one behind it.
    Link(
        "nvlink-error",
        re.compile(r"\): ?(?:74|14[4-9]|15[0-36])\b|NVLink uncorr|uncorrectable NVLink|NvlinkUncorr|NVLINK_UNCORR"),
        frozenset({"nvswitch-error", "gpu-firmware", "illegal-access", "process-crashed"}),
        re.compile(
            r"SXid|Xid[^\n]{0,40}: 1(?:19|20)\b|unspecified launch|LaunchFailure|[Gg][Ss][Pp]|[Ss]egfault|^thrown at"
            r"|^called in"
        ),
        first=True,
    ),
    # Peers read memory of a GPU that stopped its own channel: links and switches say that no answer came.
    Link(
        "gpu-memory-error",
        re.compile(r"uncorrectable ECC error|\bUncontained\b|\bContained: |\): (?:48|95)\b"),
        frozenset({"nvlink-error", "nvswitch-error", "gpu-exception"}),
        re.compile(
            r"Invalid access of peer GPU memory over nvlink|CUDA_ERROR_CONTAINED|cudaErrorContained|^thrown at"
            r"|SXid[^\n]{0,60}\): 12028\b|Xid[^\n]{0,40}: 137\b"
        ),
        never=re.compile(r"Xid (?:74|14[4-9]|15\d)\b"),
    ),
    # Windows warns of each name of its own host that it tries first.
    Link(
        "library-not-found",
        re.compile("^PyTorch for Windows has no NCCL"),
        frozenset({"master-unreachable"}),
        re.compile(r"system error: 10049\b"),
    ),
    # A kernel on another GPU that read memory of the one that failed.
    Link(
        "gpu-memory-error",
        re.compile(r"uncorrectable ECC error|\bUncontained\b|\bContained: |\): (?:48|64|95)\b"),
        frozenset({"illegal-access"}),
        re.compile(r"unspecified launch|LaunchFailure|^thrown at|^called in"),
        first=True,
    ),
    # A device that cannot be used is none for NCCL, whatever name was asked for.
    Link(
        "ib-devices-missing",
        re.compile(r"does not fit the kernel's module|does not fit its libibverbs|has no driver \(provider\)"),
        frozenset({"hca-not-found"}),
    ),
    Link("ib-port-down", re.compile(r"^the virtual function"), frozenset({"hca-not-found"})),
    # A node whose credential is refused starts no task, and the others wait for it.
    Link(
        "slurm-setup",
        re.compile(r"Job credential expired|Task launch for|Application launch failed|REQUEST_LAUNCH_TASKS"),
        frozenset({"rendezvous-timeout", "master-unreachable"}),
    ),
    # A task waits in the kernel for what broke before.
    *(
        Link(name, re.compile(""), frozenset({"kernel-hang"}), re.compile(r"blocked for more than"), first=True)
        for name in ("gpu-firmware", "gpu-off-bus", "iommu-fault")
    ),
    Link("file-system", re.compile(r"lost its connection"), frozenset({"file-system-stall"})),
    # A GPU that does not answer keeps its containers from an end, and new ones from a start.
    Link(
        "gpu-firmware",
        re.compile(r"\): (?:119|120)\b|GSP"),
        frozenset({"driver-not-loaded", "container-start"}),
        re.compile(r"nvml error|Unknown Error|nvidia-container|Error response from daemon"),
    ),
    # Ranks of a host without a driver never join.
    *(
        Link(name, re.compile(""), frozenset({"rendezvous-timeout"}))
        for name in ("driver-mismatch", "driver-not-loaded")
    ),
    # Whoever gives GPUs to jobs finds one less.
    *(
        Link(
            name,
            re.compile(""),
            frozenset({"slurm-resources"}),
            re.compile(r"UnexpectedAdmissionError|Allocate failed|count (?:reported lower|too low)"),
        )
        for name in ("gpu-off-bus", "driver-not-loaded", "driver-mismatch")
    ),
    # The list of interfaces for sockets is not what the side channel of RDMA lacks.
    Link("no-interface", re.compile(r"for its side channel"), frozenset({"wrong-interface", "nccl-error"})),
    # Without a service for the job the NIC gives no domain.
    Link(
        "slingshot",
        re.compile(r"\(VNI\)"),
        frozenset({"efa-error", "init-incomplete", "proxy-failure"}),
        re.compile(r"access domain|RC: -38|Function not implemented|Init START|fi_domain|[Rr]anks? "),
    ),
    # What is said of a job that stands still, and of where it stands.
    Link("p2p-hangs", re.compile(""), frozenset({"stands-still", "watchdog-timeout"})),
    Link("p2p-hangs", re.compile(r": the IOMMU refuses them"), frozenset({"iommu-fault"})),
    Link("p2p-broken", re.compile(r"did not reach the workers"), frozenset({"p2p-disabled"})),
    Link("collective-mismatch", re.compile(r"^rank \d+ failed with an error of"), frozenset({"gpu-permission"})),
    # Where a second run passes without P2P, its setting is the way around, and the first one's end a sequel.
    Link(
        "p2p-hangs",
        re.compile("the same job passes without them"),
        frozenset({"rank-ended", "server-waits", "p2p-disabled", "process-crashed", "killed-by-launcher"}),
    ),
    # Workers lose the leader that the kubelet ended.
    Link(
        "probe-failed",
        re.compile(r"while the server still loads its weights"),
        frozenset({"node-lost", "remote-error", "store-lost", "rank-ended", "connection-refused", "ray-error"}),
    ),
    # Who asks a GPU that is busy with its own memory waits, and is ended for it.
    Link(
        "gpu-memory-storm",
        re.compile(""),
        frozenset({"probe-failed"}),
        re.compile(r"dcgm|health|monitor|nvidia|[Ll]iveness", re.IGNORECASE),
    ),
    Link(
        "host-memory",
        re.compile("was killed at its own limit of memory"),
        frozenset({"node-lost", "mpi-launch", "efa-error", "remote-error", "ib-retry", "connection-refused"}),
        re.compile(
            r"lost communication|daemon|completed with error|unresponsive|closed|reset by peer|Broken pipe"
            r"|refused|status=12"
        ),
    ),
    # Who was killed answers no more; Ray says it later than those who notice.
    Link(
        "host-memory",
        re.compile("Ray killed workers"),
        frozenset({"connection-refused"}),
        re.compile(r"socket\w{4,16}:? |NCCL|[Gg]loo|\bConnect to\b"),
    ),
    # A rank that NCCL cannot connect hands no tensor to Horovod.
    *(
        Link(
            name,
            re.compile("NCCL WARN"),
            frozenset({"collective-mismatch"}),
            re.compile(r"[Ss]talled (?:ops|ranks)|were submitted to be reduced|missing ranks"),
        )
        for name in ("connection-refused", "connection-timeout", "no-route", "wrong-interface", "ib-connect-timeout")
    ),
    # Of a link with bit errors, or of a queue that drops, transfers get no answer in the end.
    Link(
        "roce-loss",
        re.compile(
            r"^RoCE's packets go in priority|BER above its limit|port between two switches$|is not set for RoCE"
        ),
        frozenset({"ib-retry", "ib-completion-error"}),
        never=re.compile(r"^(?!RDMA packets get no answer|an RDMA transfer failed)"),
    ),
    # A firewall that refuses NCCL's port refused those of mpirun before.
    *(
        Link(
            name,
            re.compile(r"^a firewall (?:on|of) "),
            frozenset({"mpi-launch"}),
            re.compile(r"TCP conn|to reliably start|lost commun|HYDU_sock_c|unable to conn|active\)$|^Status: act"),
        )
        for name in ("no-route", "connection-timeout", "connection-refused")
    ),
    # A ping between the pair that lost each other is no second fault.
    *(
        Link(
            name,
            re.compile(r"ping gets no answer|ARP gets no answer"),
            frozenset({"no-route"}),
            re.compile(r"packets transmitted|Unreach"),
        )
        for name in ("ib-retry", "ib-connect-timeout", "ib-completion-error")
    ),
    # A switch that stops the job is not told again as one that slows it.
    *(
        Link(
            name,
            re.compile(r"^CUDA_LAUNCH_BLOCKING=1 lets the job stand still"),
            frozenset({"slow-settings"}),
            never=re.compile(r"^(?!CUDA_LAUNCH_BLOCKING)"),
        )
        for name in ("watchdog-timeout", "stuck-in-collective", "stands-still")
    ),
    # RDMA's packets are as large as the port's MTU, and lost where those of ping are.
    Link(
        "mtu-path",
        re.compile(r"^packets of \d{4,5} bytes do not get through"),
        frozenset({"ib-retry", "ib-completion-error", "ib-connect-timeout", "watchdog-timeout"}),
        never=re.compile(r"\blags\b|still saves|had ended"),
    ),
    # Settings that were tried to find what is wrong slow no job.
    Link(
        "wrong-results",
        re.compile(r"^NCCL \S{4,12}(?: NVLS)? computes wrong sums here"),
        frozenset({"forced-algorithm", "forced-protocol", "slow-settings", "p2p-disabled", "shm-disabled"}),
    ),
    # NCCL refused the plugin, and then missed its network.
    Link("network-not-found", re.compile(r"is missing because its plugin"), frozenset({"old-plugin"})),
    # A host whose disk is full starts no rank that others wait for.
    Link("disk-full", re.compile(r"ranks of that host never joined"), frozenset({"rendezvous-timeout"})),
    # A program that cannot load its libraries on one node starts no rank there, and the others wait for it.
    *(
        Link(
            name,
            re.compile(r"ImportError|OSError|symbol lookup error|error while loading shared libraries"),
            frozenset({"rendezvous-timeout"}),
            never=re.compile(r"^(?!only \d+ of \d+ processes)"),
        )
        for name in ("undefined-symbol", "library-not-found")
    ),
    # No node finds the others again whose store is gone.
    Link(
        "node-lost",
        re.compile(r"also had the rendezvous store"),
        frozenset({"rendezvous-timeout", "master-unreachable", "store-lost", "connection-refused", "dns"}),
    ),
    # The node's loss tells of the sizes that do not fit those left.
    Link("node-lost", re.compile(r"torchrun started again with"), frozenset({"rank-count"})),
    # A few channels use a few ports.
    Link("few-channels", re.compile(r"^NCCL_M(?:AX|IN)_\w{3,12}=\d"), frozenset({"one-rail"})),
    # Distances and links are those of the file.
    Link(
        "topology-file",
        re.compile(r"^the topology file is of another machine type"),
        frozenset({"no-gdr", "nic-far", "one-rail", "few-channels"}),
    ),
    # The pods' own pings go the same way as their connections.
    Link(
        "connection-timeout",
        re.compile(r"packets of the overlay network"),
        frozenset({"no-route"}),
        re.compile(r"packets transmitted|Unreach|packets of the overlay"),
    ),
    Link("ib-connect-timeout", re.compile(r"ARP gets no answer"), frozenset({"init-incomplete"})),
    # Connections that used an address which is gone get no answer.
    Link(
        "ib-invalid-gid",
        re.compile(r"changed while the job ran \("),
        frozenset({"ib-retry", "ib-completion-error", "watchdog-timeout"}),
    ),
    Link("ib-port-down", re.compile(r"^the link of .{4,80} is bad"), frozenset({"roce-loss"}), re.compile("BER")),
    # What UCX says of a connection that a device, or the interface of another network, did not carry.
    Link("ib-connect-timeout", re.compile("UCX"), frozenset({"mpi-network"}), re.compile("ibv_create_ah|QP connect")),
    Link(
        "wrong-interface",
        re.compile("UCX"),
        frozenset({"mpi-network"}),
        re.compile(r"dest_addr=|pml_ucx\.c|ucp_ep_create|UCX endpoint|\bMPI_I?[SR]end\b"),
    ),
    # Slurm's plugin tells that a task went away: whatever ended it before.
    *(
        Link(name, re.compile(""), frozenset({"pmi"}), re.compile(r"_errhandler: .{0,80}Error handler invoked"))
        for name in ("container-start", "command-not-found", "library-not-found", "host-memory", "python-exception")
    ),
    # Runs that stand still at sizes whose values are wrong over the same way.
    Link(
        "wrong-results", re.compile("over the network between"), frozenset({"job-cancelled"}), re.compile("TIME LIMIT")
    ),
)
