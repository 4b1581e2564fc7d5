"""Variables that may slow a run: name, whether on one node, on many or any, values that do, and what they do."""

from __future__ import annotations

ROWS = r"""
NCCL_P2P_LEVEL         ; one  ; LOC|PIX|PXB|[0-2]      ; GPUs that are farther apart do not reach each other directly
NCCL_SHM_DISABLE       ; any  ; [1-9].*                ; pairs without P2P go over the network instead of shared memory
NCCL_ALGO              ; any  ; [^,;]+                 ; one algorithm is forced at every size
NCCL_CUMEM_ENABLE      ; one  ; 0                      ; without cuMem there is no NVLS and no registration of buffers
NCCL_LAUNCH_MODE       ; one  ; GROUP|group            ; all GPUs of a process are launched as one group
NCCL_TOPO_FILE         ; any  ; (?!.*(?:ofi|microsoft|nd\w*-topo|gib|tcpx)).+ ; a file tells where GPUs and NICs are
NCCL_GRAPH_FILE        ; any  ; .+                     ; a file, perhaps of another machine, forces the channels
NCCL_IGNORE_CPU_AFFINITY ; any ; [1-9].*               ; threads may run far from their GPU
NCCL_NVB_DISABLE       ; one  ; [1-9].*                ; ways over a third GPU's NVLinks are not used
NCCL_LL_BUFFSIZE       ; any  ; \d{1,5}                ; the buffers of the protocol LL are smaller than usual
NCCL_LL128_BUFFSIZE    ; any  ; \d{1,6}                ; the buffers of the protocol LL128 are smaller than usual
NCCL_CTA_POLICY        ; any  ; [12].*|EFF.*|ZERO.*    ; NCCL takes fewer blocks of the GPU than it could
NCCL_CGA_CLUSTER_SIZE  ; any  ; 0                      ; blocks of one channel are not placed together
NCCL_THREAD_THRESHOLDS ; any  ; .+                     ; sizes at which NCCL takes more threads are moved
NCCL_TUNER_PLUGIN      ; any  ; (?!none|.*(?:ofi|gcp|gib|google)).+ ; a plugin chooses algorithm, protocol and channels
NCCL_TUNER_CONFIG_FILE ; any  ; .+                     ; a file of a tuner chooses algorithm, protocol and channels
NCCL_NVLS_NCHANNELS    ; one  ; [1-8]                  ; NVLS takes fewer channels than usual
NCCL_HOSTID            ; any  ; .+                     ; NCCL takes its word for which ranks share a host
NCCL_NET               ; many ; [Ss]ocket              ; nodes talk over sockets though RDMA may be there
NCCL_NET_PLUGIN        ; many ; none                   ; no network plugin is loaded: EFA, TCPXO and gIB need theirs
NCCL_NET_GDR_READ      ; many ; 0                      ; GPUs' data is not read by NICs directly but through host memory
NCCL_DMABUF_ENABLE     ; many ; 0                      ; without DMA-BUF, GPU Direct RDMA needs nvidia_peermem
NCCL_IB_CUDA_SUPPORT   ; many ; 0                      ; GPU Direct RDMA is off
NCCL_IB_HCA            ; many ; (?:=\w+?|\w+?_)\d+(?::\d+)? ; one NIC is named where hosts have several as a rule
NCCL_IB_PCI_RELAXED_ORDERING ; many ; 0                ; NICs write in strict order, which is slow in virtual machines
NCCL_IB_ADAPTIVE_ROUTING ; many ; 0                    ; all traffic of a connection takes one way through the fabric
NCCL_IB_MERGE_NICS     ; many ; 0                      ; the ports of one NIC are not used together
NCCL_NCHANNELS_PER_NET_PEER ; many ; 1                 ; one channel carries all messages to a peer
NCCL_MAX_P2P_NCHANNELS ; many ; [1-4]                  ; few channels carry the messages between pairs
NCCL_P2P_NET_CHUNKSIZE ; many ; \d{1,5}                ; messages between nodes are cut into small pieces
NCCL_MNNVL_ENABLE      ; many ; 0                      ; NVLinks between hosts are not used
NCCL_PXN_DISABLE       ; many ; [1-9].*                ; GPUs cannot use a neighbour GPU's NIC
NCCL_CROSS_NIC         ; many ; [01]                   ; which NICs a ring may join is forced
NCCL_SOCKET_NTHREADS   ; many ; 1                      ; one thread serves the sockets of a connection
NCCL_NSOCKS_PERTHREAD  ; many ; 1                      ; one socket carries a connection
NCCL_IB_QPS_PER_CONNECTION ; many ; (?:1|\d{2,}).*     ; how many queue pairs share a connection is forced
NCCL_IB_TC             ; many ; 0                      ; RoCE's traffic goes into the queue that may drop packets
NCCL_NETDEVS_POLICY    ; many ; MAX:1                  ; each GPU uses one NIC alone
"""
