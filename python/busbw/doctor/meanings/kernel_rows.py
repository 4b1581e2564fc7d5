"""Rows of clues (as `clue_rows` has them) of what kernels, drivers, switches and checks of machines say themselves."""

from __future__ import annotations

_BLOCKED = r"blocked for more than \d{1,7} seconds"
_IN = r"^[^\n]{{0,100}}\+0x[\da-f]{{1,8}}/0x[\da-f]{{1,8}} \[(?:{modules})\]"
_NVIDIA = _IN.format(modules=r"nvidia(?:_uvm|_modeset)?")
_LUSTRE = _IN.format(modules=r"lustre|ptlrpc|obdclass|mdc|osc|lov|lmv|ldlm|fid|llite|ksocklnd|ko2iblnd|lnet")
_GPFS = _IN.format(modules=r"mmfs\w{0,6}|tracedev")
_NFS = _IN.format(modules=r"nfsv?[34]?|sunrpc|lockd")
_NIC = _IN.format(modules=r"mlx[45]_\w{2,6}|ib_\w{2,8}|rdma_\w{2,6}|irdma|bnxt_\w{2,4}|efa")
_GUEST = (
    r"Hardware name: (?:QEMU|Red Hat (?:KVM|oVirt)|OpenStack|VMware|Xen|Nutanix|oVirt|Microsoft Corporation Virtual"
    r"|Google Google Compute|Alibaba Cloud)"
)
_STANDS = "The processes cannot be killed: drain the host and reboot it, or power it off and on where that hangs"
_ANY_XID = r"NVRM: Xid \("

KERNEL_ROWS = {
    "kernel-hang": rf"""
{_BLOCKED} && {_LUSTRE} ; a process stands in the Lustre client (its stack is of lustre): the file system's servers do
 not answer it ; lfs check servers, lctl get_param *.*.import on that host, and the servers' own logs; the network to
 them. Where it does not come back, unmount or reboot that host. GPUs and NCCL are not at fault
{_BLOCKED} && {_GPFS} ; a process stands in the client of GPFS (Storage Scale) ; mmdiag --waiters and --network on that
 host and on its servers; mmgetstate -a. GPUs and NCCL are not at fault
{_BLOCKED} && {_NFS} && !nfs: server ; a process stands in the NFS client (its stack is of nfs): the server does not
 answer ; look at that server, its load and the network to it (nfsstat -c, mount | grep nfs); GPUs and NCCL are not at
 fault
{_BLOCKED} && {_NVIDIA} && !{_ANY_XID} ; processes stand in NVIDIA's driver without end (the stack of the blocked task
 is of nvidia): a GPU or its firmware no longer answers, or the driver hangs ; look in dmesg before it for Xids, GSP
 timeouts and PCIe errors. {_STANDS}. Where it returns update driver and firmware, then test the GPUs (dcgmi diag -r
 3). Network and NCCL are not at fault
{_BLOCKED} && {_NIC} && !{_NVIDIA} ; a process stands in the driver of a NIC (the stack of the blocked task names it) ;
 look in dmesg before it for errors of that NIC's firmware. {_STANDS}. Update its driver and firmware together
\b(?:soft lockup|hard LOCKUP|self-detected stall) && ^[^\n]{{0,60}}RIP: \S{{1,12}}:\w{{1,80}}\+0x\S{{3,24}} \[nvidia\]
 ; a processor stands in NVIDIA's driver, which waits for a GPU that does not answer (the stack's top is of nvidia) ;
 look in dmesg before it for Xids, GSP timeouts and PCIe errors of that GPU. {_STANDS}. Update driver and firmware
 where it returns, then test the GPUs (dcgmi diag -r 3)
soft lockup && {_GUEST} ; the virtual machine's processors stood still (soft lockup): most often its host gave them no
 time, or paused it ; look at steal time (%st in top, vmstat) and at the host: no more vCPUs than cores, each pinned,
 no live migration, snapshot or ballooning while jobs run. Else the driver at the top of the stack; in a cloud replace
 the instance
""",
    "host-memory": r"""
Memory cgroup out of memory: Killed process (?P<pid>\d{1,9}) \((?P<who>[^)\n]{1,24})\) && !Out of memory: Killed
 process ; the memory limit of a container or job is used up (memory cgroup), and {who} was killed: the host itself had
 room ; a higher limit (the pod's resources.limits.memory, Slurm's --mem), fewer loader workers, less prefetch and
 pinned memory. Files below /dev/shm count, too. To see what it needs: kubectl top pod --containers, or memory.peak of
 that cgroup
oom-kill:constraint=CONSTRAINT_(?:CPUSET|MEMORY_POLICY),nodemask=(?P<node>[\d,-]{1,20}), ; the memory of NUMA node
 {node} is full, and the killed process may use no other one (oom-kill: CONSTRAINT): other nodes of the host may have
 room ; let it take memory of all nodes: numactl --preferred or --interleave=all in place of --membind, Slurm without
 --mem-bind=local, all nodes in cpuset.mems. Spread ranks and loader workers evenly over the sockets; else less memory
 per rank
""",
    "nic-hot": r"""
synd 0x10: ?High temp|Health issue observed, High temp ; a NIC stopped since it is too hot (synd 0x10: its firmware
 shuts it down) ; mend the cooling first: fans, blanking panels, the card's slot and airflow, a transceiver that heats
 it (mget_temp -d DEVICE, mlxlink -m). Then mlxfwreset -d DEVICE reset or a cold reboot; replace the card where it gets
 hot in good air
""",
    "nic-firmware": r"""
\bbnxt_(?:en|re)\w{0,4} [\da-f:.]{7,14}[^\n]{0,60}(?:FW STALL|Error \(timeout: \d{1,9}\) msg)|bnxt_re\d{1,3}:
 [^\n]{0,60}timedout \(\d{1,8}\) ?msec ; the firmware of a Broadcom NIC does not answer its driver any more: its port
 and RDMA devices stand still ; power the host off and on (or devlink dev reload pci/ADDRESS action fw_activate);
 firmware of the NIC, bnxt_en, bnxt_re and libbnxt_re of one release (niccli or bnxtnvm update). Keep a coredump for
 the maker (ethtool -w); replace the card where it comes again
livefish|[Ff]lash recovery mode ; a NIC runs in its recovery mode (livefish): the firmware in its flash is broken or
 cannot be loaded ; mst start, then burn it: flint -d DEVICE -i IMAGE.bin burn (mst status shows the recovery device),
 and power the host off and on. Replace the card where that fails
mlx5_core (?P<pci>[\da-f:.]{7,14}): [^\n]{0,60}?\b(?P<command>[A-Z][A-Z_]{3,40})\(0x[\da-f]{1,6}\) timeout ; the
 firmware of NIC {pci} does not answer commands of its driver ({command} timed out) ; mlxfwreset -d {pci} reset, or
 power the host off and on; firmware and driver of one release (mlxfwmanager). Look for PCIe errors (AER) of that slot
 before it; replace the NIC where it comes again
""",
    "ib-port-down": r"""
\bclagd\[\d{1,8}\]: Peer ?[Ll]ink \S{1,30} is down|protodown set \(clag\)|\bvPC peer-?link is
 down|%MLAG-\d-\w{0,30}(?:DOWN|INACTIVE|DISABLED) ; the pair of leaf switches lost its peer link (MLAG): the secondary
 one shuts the ports of its bonds, and hosts behind it lose them ; mend the link between the two switches first (its
 cables and transceivers, at least two members). clagctl, or show mlag: peer alive, no conflicts. Each host's bond
 needs one port at each of the two, so that one suffices
%ETH-4-ERRDISABLE: (?P<why>[\w-]{3,30})[^\n]{0,60}? on (?P<port>Ethernet[\d/]{1,12}) ; the switch has shut {port}
 itself (errdisable: {why}) ; mend the cable or transceiver of that port first where its link flapped (clean, reseat,
 replace both ends). Then shutdown and no shutdown on it, or errdisable recovery cause {why}; the host's NIC is not at
 fault by this
\bxcvrd\b[^\n]{0,40}?(?P<port>Ethernet\d{1,4})\b[^\n]{0,80}(?:FAILED|[Ff]ailed|failure|timeout) ; the switch cannot
 bring up the transceiver in {port} (xcvrd), so that the port is down ; clean and reseat it, then replace the
 transceiver or cable; its firmware and the port's speed and lanes must fit (show interfaces transceiver status,
 sfputil show eeprom). Leave that rail's NIC out until then
(?P<bond>\bbond[\w.-]{0,16}): now running without any active interface ; the bond {bond} has no link left: all its
 ports lost theirs, once or more ; look at each of its ports: /proc/net/bonding/{bond}, ethtool, mlxlink -m -c; cable,
 transceiver, and the switch's log of that time (a reboot, MLAG, errdisable). Where one port flaps, replace its cable;
 a second port to another switch keeps the bond
""",
    "driver-not-loaded": r"""
No interrupts of any type are available|Can't find an IRQ for your NVIDIA ; the GPU gets no interrupt from the system,
 so that its driver refuses it ; switch MSI on: no pci=nomsi on the kernel's command line, no NVreg_EnableMSI=0. In a
 VM hand the GPU on as PCIe device of a q35 machine with MSI. Update the BIOS (interrupt remapping); the driver is
 right
does not have the necessary power cables connected ; a GPU has no auxiliary power: its power cables are not plugged in
 ; power the host off, plug each of that card's power cables into the supply (one lead for each plug), and start it
 again. Driver and software need nothing
Direct firmware load for (?P<file>nvidia/[\w./-]{3,60}) failed ; the GPU's firmware of this driver is not on the host
 ({file}), so that the driver cannot start it ; install the firmware package of exactly the driver's version
 (nvidia-firmware, nvidia-kernel-common; the .run file brings it) below /lib/firmware, rebuild the initramfs, reboot. A
 driver in a container needs the host's firmware path (firmware_class.path)
NVRM: [^\n]{0,60}No firmware image found ; the GPU's firmware (gsp_*.bin) of this driver is not on the host, so that
 the driver cannot start it ; install the firmware package of exactly the driver's version below /lib/firmware/nvidia,
 rebuild the initramfs, reboot
open\(\) not permitted for excluded ; a GPU of the host is excluded by a setting of its driver (NVreg_ExcludedGpus), so
 that programs find one fewer ; grep -r NVreg_ExcludedGpus /etc/modprobe.d /proc/driver/nvidia/params: remove it where
 that GPU is well, rebuild the initramfs and reboot. Fabric manager may exclude one, too, as its log says
""",
    "cpu-slowdown": r"""
\bPROCHOT\b[^\n]{0,24}\bassert && \bPSU ?\d|[Pp]ower [Ss]upply[^\n]{0,40}(?:[Ff]ail|lost|AC) ; the processors are held
 at their lowest clock (PROCHOT), as a power supply of the host lost its feed ; ipmitool sel list and sdr type 'Power
 Supply': give it its feed again (cord, PDU, breaker) or replace it; the clock comes back with it, or after a power
 cycle
\bPROCHOT\b[^\n]{0,24}\bassert ; the processors are held at their lowest clock (PROCHOT): by heat, power, or a board
 that says so falsely ; ipmitool sel list and sdr: temperatures, fans and power supplies of that host; update the BMC,
 power the host off and on; leave it out until then
""",
    "gpu-not-visible gpu-missing": r"""
open\(\) not permitted for excluded|NVreg_ExcludedGpus ; a GPU of the host is excluded by a setting of its driver
 (NVreg_ExcludedGpus), so that one rank finds none ; start one rank fewer there, or remove the setting (grep -r
 NVreg_ExcludedGpus /etc/modprobe.d), rebuild the initramfs and reboot. Someone may have excluded a GPU that is broken:
 test it first (dcgmi diag -r 3)
""",
    "gdr-unavailable memlock ibv-call-failed registration-failed": r"""
error (?P<code>-\d{1,3}) while calling nvidia_p2p_get_pages ; NVIDIA's driver does not pin GPU memory for the NIC
 (nvidia_p2p_get_pages: {code}): the GPU's window (BAR1) is full, or that memory is of a kind which cannot be shared ;
 nvidia-smi -q -d MEMORY: BAR1 used and total; end other programs there, or a larger BAR1. Buffers of cudaMallocAsync
 and managed memory cannot be registered. DMA-BUF with the open kernel modules needs no peermem. Until then
 NCCL_NET_GDR_LEVEL=LOC. The limit on locked memory is not at fault
""",
    "roce-loss": r"""
(?P<name>\bib[\w.]{1,14}): transmit timeout: latency && queue stopped ; IPoIB on {name} sends nothing any more
 (transmit timeout): its queue stands still ; ip link set {name} down, then up, or reload ib_ipoib. Look for errors of
 the NIC's firmware before it in dmesg, and update driver and firmware; connected mode in place of datagram where it
 returns. RDMA on that port may still work
outbound_pci_stalled_wr(?:_events)?\W{1,4}[1-9]\d{0,12} ; the NIC drops packets since its host takes them too slowly:
 PCIe stalls (outbound_pci_stalled_wr), and the network is not the cause ; lspci -vv: full width and generation of that
 slot, MaxReadReq 4096, MaxPayload alike; IOMMU off or pt, relaxed ordering on. NIC and GPU below one socket, rings
 enlarged (ethtool -G IF rx 8192). Until then it sends pauses into the switch
""",
    "efa-error": r"""
\befa \S{4,20}: [^\n]{0,40}(?:\(polling\)|admin|[Cc]ompletion)[^\n]{0,24}\btimeout\b ; the EFA device itself no longer
 answers its driver (its admin commands time out) ; stop and start the instance, or replace it; newest efa driver
 (efa_installer). Security groups and the peers are not at fault
""",
    "duplicate-gpu": r"""
MIG mode is in pending (?P<what>enable|disable) state for GPU (?P<gpu>[\da-fA-F]{4,8}:[\da-fA-F]{2}:[\da-fA-F]{2}\.\d)
 ; {title}: MIG is still as it was on {gpu}, as its change ({what}) waits for a reset ; end all programs of that GPU
 (dcgm, nvidia-persistenced, monitors: fuser -v /dev/nvidia*), nvidia-smi --gpu-reset, or reboot. Start the job only
 when nvidia-smi shows MIG disabled: then each rank gets a whole GPU
""",
    "subnet-manager": r"""
(?P<name>\bib[\w.]{0,14}): multicast join failed for \S{4,60} status -22 ; IPoIB on {name} cannot join its broadcast
 group (status -22): the group's rate, MTU or P_Key does not fit the port, so that its address reaches nobody ; saquery
 -g and ibstat: the partition in partitions.conf (rate, mtu) may ask no more than the slowest port has, and must name
 this port's GUID. The P_Key of {name} must be among the port's (pkeys). Restart opensm, then the interface
continuous trap 129|Local Link integrity threshold reached && from LID:(?P<lid>\d{1,6}) Port (?P<port>\d{1,3}) ; a link
 of the fabric has bit errors: the switch of LID {lid} says so of its port {port}, again and again (trap 129) ;
 ibtracert and iblinkinfo name both ends: clean and reseat, then replace that cable or its transceivers. Take the host
 behind it out until then; the subnet manager itself is well
remote SM with non-matching [Ss][Mm]_[Kk]ey ; two subnet managers with different keys (sm_key) are in one fabric, and
 this one gives way or ends ; sminfo and ibdiagnet list them: stop the one that should not run (a switch's or a host's
 opensm), or give both the same sm_key in opensm.conf and priorities apart
""",
    "health-check": r"""
Found \d{1,20} (?:faulty|NaN-value) memory elements on GPU (?P<gpu>\d{1,3})|A memory mismatch was detected on GPU
 (?P<gpu_>\d{1,3}) ; the memory of GPU {gpu}{gpu_} returns wrong values (dcgmi diag) ; take the node out, reset that
 GPU and run dcgmi diag -r 3 again; nvidia-smi -q -d ECC,ROW_REMAPPER. Where it fails again have the GPU replaced
 (field diagnostic for the maker)
GPU (?P<gpu>\d{1,3}) is running at PCI link (?P<what>generation|width) (?P<now>\w{1,4}) ; the PCIe link of GPU {gpu}
 came up too narrow or slow ({what} {now}, dcgmi diag) ; power the host off and on; reseat the GPU, its riser or cable;
 BIOS settings of that slot (generation, bifurcation). Replace GPU or board where it stays so
Bandwidth of GPU (?P<gpu>\d{1,3}) in direction (?P<way>\w{2,12}) ; the PCIe bandwidth of GPU {gpu} is below what dcgmi
 diag expects ({way}) ; its link's width and generation under load (nvidia-smi -q, lspci -vv: LnkSta), IOMMU and ACS,
 the NUMA node of the test; nothing else may run beside it. Reseat GPU or riser where the link is narrow
thermal violations totaling|Thermal violations totaling ; a GPU gets too hot under load and slows down (thermal
 violations, dcgmi diag) ; mend the cooling of that host: fans, airflow, inlet temperature, coolant, thermal paste; run
 the test again. Leave the host out until then
GPU (?P<gpu>\d{1,3}) only achieved a memory bandwidth of (?P<got>[\d.]{1,10}) ; the memory of GPU {gpu} is too slow
 ({got} GB/s, dcgmi diag) ; clocks and throttling (nvidia-smi -q -d CLOCK,PERFORMANCE), other programs on that GPU,
 MIG; then its ECC errors and remapped rows. Replace it where it stays slow alone
Max (?:stress level|power) of [\d.]{1,10} did not reach ; a GPU does not reach the speed or power of a healthy one
 under load (dcgmi diag) ; nvidia-smi -q -d PERFORMANCE,POWER: which limit holds it (power cap, brake, heat); all power
 supplies healthy. Nothing else may run beside the test; replace the GPU where its neighbours reach it
""",
    "driver-mismatch": r"""
API mismatch: the client '(?P<who>[^'\n]{1,40})' && NVRM: has the version (?P<new>\d{3}[\d.]{2,12}), but && NVRM: the
 version (?P<old>\d{3}[\d.]{2,12}\d) ; the loaded kernel module of NVIDIA is {old}, and {who} brings the driver's
 libraries {new}: the driver was updated without a reboot, or a container brings its own ; on the host: reboot, or
 unload and load the nvidia modules while no program uses a GPU. In a container remove its own driver libraries, so
 that the host's are mounted. Keep the driver out of automatic updates
""",
    "pcie-errors": r"""
pciehp: Slot\((?P<slot>[\w-]{1,12})\): (?:Link Down|Card not present) ; the card in PCIe slot {slot} went away while
 the host ran (pciehp: its link is down): it lost power or contact, or its host switched it off ; power the host off
 and on; reseat that card, its riser and power cables; the BMC's log of that slot. What the card's driver says behind
 it follows from this
""",
    "bad-arguments": r"""
ib_\w{4,12}: unrecognized option '--use_(?P<what>cuda|rocm|neuron|hl)\w{0,16}(?:=\S{1,12})?' ; this perftest was built
 without support of GPUs ({what}), so that it cannot test GPU memory ; build it from source: ./autogen.sh &&
 ./configure CUDA_H_PATH=/usr/local/cuda/include/cuda.h && make, on both hosts. Or take the package that OFED (DOCA)
 brings; without the option it tests host memory, which works
""",
    "clock-skew": r"""
Switched to clocksource (?P<clock>hpet|acpi_pm|jiffies)\b ; the kernel gave up the processor's own clock (tsc) for
 {clock}: each look at the time is slow now, and with it the whole host ; cat
 /sys/devices/system/clocksource/clocksource0/current_clocksource on all hosts. Boot with tsc=reliable (and no
 watchdog: tsc=nowatchdog) where the processors' clocks are well; update the BIOS, or replace the host where it returns
""",
    "mps": r"""
Server is handling a fatal GPU error|encountered a fatal GPU error && MPS|mps ; a client of MPS met a fatal error of
 the GPU, and all clients of that MPS server end with it ; the first client's error is the cause: its own log (illegal
 access, memory) and Xids in dmesg. Then restart the server (echo quit | nvidia-cuda-mps-control,
 nvidia-cuda-mps-control -d) and all ranks; without MPS a fault stays with its process
""",
    "imex": r"""
- VERSION_MISMATCH\b|Version mismatch with node ; the nodes of the IMEX domain run drivers (nvidia-imex) of different
 versions ; nvidia-imex-ctl -N lists each node's version: one driver and one nvidia-imex on all nodes of
 nodes_config.cfg, then restart nvidia-imex on all. Until then NCCL_MNNVL_ENABLE=0
""",
    "fabric-manager": r"""
ib_umad (?:module )?is not loaded|nvidia-fabricmanager-start\.sh\[\d{1,8}\]: [^\n]{0,80}\bib_umad\b ; the fabric
 manager of NVLink 5 (B200, GB200) does not start: the kernel module ib_umad is not loaded, by which it reaches the
 switches ; modprobe ib_umad mlx5_ib, and their names in /etc/modules-load.d; nvlsm installed, of the fabric manager's
 release. Then systemctl restart nvidia-fabricmanager; nvidia-smi -q must show Fabric State Completed
""",
    "ib-async": r"""
failed to allocate boot pages|give_pages:\d{1,5}:[^\n]{0,40}page allocation failed ; the host had no memory for the
 firmware of its NIC, whose driver did not start (boot pages, -12) ; free memory of that host (hugepages that take all,
 small memory of its NUMA node), then load mlx5_core again or reboot; virtual functions fewer. The NIC is well
""",
    "ib-devices-missing": r"""
can't open U?MAD port|ibpanic: [^\n]{0,40}stat of IB device ; the tools of InfiniBand cannot open the port's management
 device (umad): ib_umad is not loaded, or the user may not, or the device is gone ; modprobe ib_umad; run it as root;
 containers need /dev/infiniband/umad*. ls /sys/class/infiniband and lspci must show the NIC, else its driver (mlx5_ib)
 is not loaded. Jobs of ranks do not need umad
""",
}
