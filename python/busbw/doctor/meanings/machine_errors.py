"""What the kernel, drivers and services mean by errors of one kind, and what mends each of them."""

from __future__ import annotations

from busbw.doctor.meanings.families import Family, read

ITSELF = "the program that checks failed itself, which says nothing of the node"
STORE = "an object store did not give or take an object"
WHOLE = frozenset({ITSELF, STORE})
"""Of these the cure of the finding's whole kind would mislead."""
_CHECKER = rf"""
DCGM internal error|DCGM_ST_\w*(?:GENERIC|INTERNAL)\w*|internal error (?:from NVVS|in DCGM|during the test)|\bnvvs\b\
.{{0,30}}(?:crash|segfault|killed) ; {ITSELF} ; restart nvidia-dcgm (nv-hostengine), one release of DCGM and driver, \
no second check and no job beside it; run the check again, and judge the node by that one
\b(?:gs|s3a?|abfss?|oss|hdfs)://|storage\.googleapis|\.blob\.core\. ; {STORE} ; look for that address with the \
store's own client (gcloud storage ls, aws s3 ls) from that host, then at its region, rights and limits of rate
"""
_ROWS = r"""
CUDA unknown error|CUDA_ERROR_UNKNOWN|cudaErrorUnknown ; CUDA cannot start on that host (error 999): the driver's \
module \
for memory (nvidia_uvm) is missing or broken, or CUDA_VISIBLE_DEVICES was changed after the start ; nvidia-smi and \
dmesg \
(Xid) first; modprobe -r nvidia_uvm, modprobe nvidia_uvm, or reboot; the container needs /dev/nvidia-uvm; set \
CUDA_VISIBLE_DEVICES before the program starts
resolve Linux kernel version|kernel-headers|linux-headers|precompiled (?:driver|package) ; the driver's container \
finds no \
headers or ready modules for the kernel that runs ; give it the distribution's package sources (proxy, subscription, \
repoConfig), a kernel that these hold, precompiled drivers of that kernel (driver.usePrecompiled). Or install the \
driver on the host and switch the container off
nouveau ; another driver, nouveau, holds the GPU ; blacklist it (/etc/modprobe.d: blacklist nouveau, options nouveau \
modeset=0), update-initramfs or dracut, reboot
BAR ?\d.{0,30}(?:is 0M|can't assign|failed to assign|no space)|PCI I/O region assigned|not enough MMIO|no compatible \
bridge window ; the BIOS gave the GPU no window of memory, or too small a one ; switch on Above 4G Decoding (and \
SR-IOV support) in the BIOS, update it, or boot with pci=realloc; in VMs a larger MMIO window
Required key not available|[Ll]ockdown|Key was rejected|Secure ?Boot ; Secure Boot refuses a driver that is not \
signed ; sign the module and enrol the key (mokutil --import), or switch Secure Boot off
disagrees about version of symbol|Unknown symbol|Invalid module format|version magic|kernel \
headers|dkms.{0,60}(?:fail|error|bad return) ; the module was built for another kernel ; install the headers of the \
running kernel (uname -r) and run dkms autoinstall, or boot the kernel that it was built for
requires? (?:use of )?the NVIDIA open|open (?:GPU )?kernel modules? (?:is|are) required ; this GPU needs the open \
kernel modules ; install nvidia-open (nvidia-driver-NNN-open) in place of the closed modules
NVIDIA.{0,40}legacy|supported through the .{0,20}[Ll]egacy|is not supported by (?:the )?.{0,20}driver ; this \
driver's branch does not know the GPU ; install the branch that lists it: a newer one for new GPUs, a legacy one for \
old ones
RmInitAdapter|rm_init_adapter|failed to initialize (?:the )?GPU|GSP_LOCKDOWN ; the driver cannot start that GPU ; \
power the host off and on (a warm reset is not enough), reseat the GPU, compare firmware and driver; replace the GPU \
where it stays so
[Nn]o NVIDIA GPU|No devices were found|no supported GPU ; the host shows no GPU to the driver ; lspci | grep -i \
nvidia: where it is empty reseat it, or hand it to the VM; where it is not the driver is of the wrong branch
in use by another client|cannot be reset|GPU.{0,30}in use.{0,30}reset ; something still uses the GPU, so that it \
cannot be reset or changed ; stop fabric manager, DCGM, persistence daemon and jobs (fuser -v /dev/nvidia*), then \
nvidia-smi -r
[Pp]ower budget|insufficient power|[Pp]ower class|slot.{0,20}power ; the slot cannot feed the NIC or its transceiver \
; plug in the auxiliary power cable, take a slot of enough power, or a transceiver of a lower power class
unsupported (?:cable|module)|[Uu]nknown identifier|EEPROM|enforce part number|[Ii]2[Cc] (?:data )?(?:bus|short) ; \
the transceiver or cable is not supported, or broken ; use one on the NIC's and switch's list, clean and reseat it, \
update firmware
[Cc]able (?:is )?unplugged|[Nn]o cable|[Nn]ot plugged ; nothing is plugged into that port ; plug in the cable, or \
leave the port out (NCCL_IB_HCA=^NAME)
EAP-FAILURE|802\.1[Xx]|PAE state|port unauthorized ; the switch does not let that port in (802.1X) ; renew \
certificate and configuration of wpa_supplicant, ask who runs the switch
[Ff]atal error \d+ detected|synd(?:rome)? 0x|health.{0,40}(?:compromised|fail)|assert.{0,20}exit ptr|FW \
(?:fatal|assert)|firmware.{0,30}(?:fatal|assert|hang) ; the NIC's firmware failed ; mlxfwreset -d DEVICE reset or a \
reboot; update the firmware; replace the NIC where it comes again
No done completion|timeout\. Will cause a leak|CMD timeout|command.{0,40}(?:timed out|timeout) ; the NIC's firmware \
does not answer commands of its driver ; mlxfwreset -d DEVICE reset or a power cycle, update firmware and driver
PCI slot is unavailable|device.{0,20}(?:disappeared|inaccessible)|not accessible.{0,20}(?:PCI|config) ; the card fell \
off its PCIe bus ; power the host off and on, reseat the card or its riser, look for AER errors before
TX timeout|transmit queue \d+ timed out ; the NIC sends nothing any more ; look at pause frames and link partner; \
reset the interface, update driver and firmware
NETIR_LINK|NETIR|RLW_|NVLINK_|NVLink Port|[Ll]ink \d+.{0,20}(?:down|fail|inactive) ; an NVLink failed ; nvidia-smi \
nvlink -s and -e on that GPU; reset GPUs and switches together; reseat or replace the tray where it comes again
don't match with driver version|driver interface version|version.{0,30}(?:don't|does not|mismatch).{0,30}match ; \
fabric manager and driver are of different releases ; install nvidia-fabricmanager of exactly the driver's version, \
then restart it
(?:LPF|NVLSM|nvlsm|fm_sm_ipc|ib_umad) ; NVLink's subnet manager (NVLSM) did not start ; modprobe ib_umad, mlx5_ib \
and mlx5_core, install nvlsm and fabric manager of the driver's release, restart nvidia-fabricmanager
failed to train|not in active state|access link fail|excluded ; NVLinks of a GPU or switch could not be trained ; \
power the host off and on, reseat baseboard or tray; then replace what fabric manager names
No matching network interface|node config(?:uration)? file|nodes_config ; IMEX's list of nodes does not fit this \
host ; write the addresses of all nodes of the domain, one of this host, to /etc/nvidia-imex/nodes_config.cfg, alike \
on all; restart nvidia-imex
UNAVAILABLE|DEGRADED|Never Connected|not READY ; a node of the IMEX domain does not answer ; systemctl status \
nvidia-imex on that node, port 50000 open between nodes, one version on all
[Hh]ost ?engine ; DCGM's service does not run ; systemctl start nvidia-dcgm (or nv-hostengine), one release of DCGM \
and driver; then run the check again
replays?\b|PCIe.{0,40}(?:bandwidth|width|generation|speed|Gen) ; the PCIe link of a GPU is slow or replays packets ; \
nvidia-smi -q: link width and generation; reseat the GPU, cable or riser, move it to another slot
row remap.{0,40}(?:fail|pending)|pending row|[Rr]emapp?(?:ed|er|ing).{0,60}(?:fail|All reserved|pending)|All \
reserved rows ; rows of GPU memory wait to be replaced, or no spare ones are left ; drain and reset the GPU for \
pending ones; replace the GPU where remapping failed
ephemeral-storage ; the pod used more disk of its node than it may ; request ephemeral-storage, and a volume of its \
own for checkpoints and caches (HF_HOME, TMPDIR)
nvidia-fs|cuFile|cufile ; GPUDirect Storage is not set up ; modprobe nvidia-fs (package nvidia-gds), or \
"allow_compat_mode": true in cufile.json (CUFILE_ENV_PATH_JSON)
No locks available|flock|lockd ; the file system gives no locks ; put caches and lock files on a local disk \
(HF_HOME, TMPDIR, TRITON_CACHE_DIR), or run lockd and mount NFS without nolock
I/O error|nvme.{0,40}(?:timeout|reset|abort)|aborted journal|[Rr]ead-only file system|EXT4-fs \
error|XFS.{0,40}(?:corrupt|shut ?down) ; a disk fails or its file system was set read-only ; smartctl -a and nvme \
smart-log of it; fsck after unmounting, replace the disk; write elsewhere meanwhile
\b(?:evicted|LustreError|ldlm_|ptlrpc) ; the host lost its connection to Lustre ; lfs check servers; the network of \
that host and the load of the servers
[Ss]tale (?:NFS )?file handle ; a file or folder was removed, replaced or exported anew on the server while this \
host had it open (stale handle) ; open it by its path again: no process may delete or rename checkpoints and links \
that others read. Where all paths of the mount say so, the server exported it anew: umount -f and mount it on that host
nfs: server|NFS.{0,30}(?:timed out|not responding) ; a server of NFS does not answer ; look at \
that server and the way to it; mount again
nvidia-uvm: .{0,80}(?:fault|fatal|NV_ERR) ; the driver's manager of unified memory failed ; end the processes of \
that GPU, then rmmod and modprobe nvidia-uvm, or reboot; free host memory; update the driver
Package temperature|Core temperature|PROCHOT|thermal throttl ; the processor is too hot and slows down ; fans, \
airflow, heat sinks and inlet temperature of that host; power limits in the BIOS
DIMM|memory (?:read|scrubbing) error|\bUE\b|\bCE\b memory ; a memory module of the host fails ; replace the DIMM \
that EDAC or the BMC names; drain the host until then
(?:mlx5_|infiniband|\bbnxt_|\befa|\birdma|\bib_\w+:).{0,80}(?:enable hca|hca \
(?:cap|default)|init\w*|probe|boot|load\w*|\
register (?:device|with)|(?:start|open)(?:ed)? port|alloc\w* (?:irq|IRQ)|request irq|MSI-X|vectors|BAR|bar \d|\
selected_regions|pci_enable) ; the NIC's driver could not start that card or port ; power the host off and on, \
firmware \
and driver of one release (mlxfwmanager, ofed_info), lspci -vv for its link and BARs; replace the NIC where it stays so
(?:mlx5_|infiniband|\bbnxt_|\befa|\birdma).{0,80}(?:pages|page[ _]request|reclaim\w*) ; the NIC's firmware holds \
memory of \
the host that its driver cannot give or take back ; update firmware and driver, reload the driver after all jobs ended \
(or reboot); free memory of the host
(?:mlx5_|infiniband|\bbnxt_|\befa|\birdma|\bib_\w+:).{0,80}(?:error \
cqe|\bcqe|(?:move|modify|change).{0,20}(?:\bsq|\brq|\bQP|\
state)|RTR|RTS|\bRESET\b|ready|completion) ; a queue of the NIC failed or did not come up ; look at the port's state \
and counters (ibstat, rdma link, ethtool -S), at the other end's NIC, then firmware and driver of one release
(?:mlx5_|infiniband|\bbnxt_|\befa|\birdma|\bib_\w+:).{0,80}(?:alloc\w*|creat\w*|register|regist\w*|map\b|\bMR\b|mkey|\
umem|\
page fault|ODP|\bMW\b|buffer|\bah\b) ; the NIC's driver could not make or register what a job asked for ; ulimit -l \
unlimited, free memory of the host, fewer connections or processes for each NIC; firmware and driver of one release
(?:mlx5_|infiniband|\bbnxt_|\befa|\birdma|\bib_\w+:|\bib\d{1,3}:).{0,80}(?:RoCE|gid|GID|multicast|agent|GSI|\bMAD|\
\bSM\b|lid|p\
key|cm\b) ; \
the NIC's driver could not set up addresses or the agents that connections need ; ibstat and show_gids on that host; \
the subnet manager (sminfo) or the port's IP address for RoCE; reload the driver
AMD-Vi|DMAR|IOTLB|IO_PAGE_FAULT ; the IOMMU stops transfers of a device, or hangs ; boot with iommu=pt (or \
intel_iommu=off, amd_iommu=off), update BIOS and firmware of that device
(?:EXT4-fs|XFS|BTRFS|nvme).{0,160}(?:[Ee]rror|[Ff]ail|[Aa]bort|[Tt]imeout|[Cc]orrupt|[Ss]hut|reset) ; a disk or its \
file system failed on that host ; dmesg before it, smartctl -a and \
nvme smart-log; unmount and fsck (xfs_repair), replace the disk; write elsewhere meanwhile
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,90}\b(?:k?nvlink|kernel_nvlink|kern_nvlink)\w* ; NVLinks of a GPU \
could not be set up ; power the host off \
and on, restart nvidia-fabricmanager of exactly the driver's version; nvidia-smi nvlink -s; reseat or replace the tray
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,90}\b_?(?:kgsp|kernel_gsp|gsp)\w* ; the GPU's system processor (GSP) \
did not start or does not answer ; \
power the host off and on, driver and its firmware (/lib/firmware/nvidia) of one release; replace the GPU where it \
stays so
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,90}\b(?:kfsp|kern_fsp|FSP|SPDM|spdm|conf_?compute|ccsl|libspdm|LKCA)\w*\
 ; the GPU's secure start or confidential \
computing failed ; power the host off and on, VBIOS and driver of one release, the kernel's crypto modules loaded \
(ecdsa_generic, ecdh); nvidia-smi conf-compute -f
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,90}\b(?:mem_?(?:ory)?_?(?:multicast_)?fabric|fabric_?vas|imex|gpu_?fabr\
ic)\w* ; memory over NVLink's fabric \
(multicast, IMEX) could not be made ; nvidia-fabricmanager and nvidia-imex must run, of the driver's version; \
nvidia-smi -q: Fabric State Completed; NCCL_NVLS_ENABLE=0 and NCCL_MNNVL_ENABLE=0 until then
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,90}\b(?:kbif|kern_?bif|kernel_bif|kbus|kern_?bus|kern_?pcie|cl_?pcie|os\
Pci|PCIe?)\w* ; the driver cannot use \
the GPU's PCIe link or windows (BAR) ; reseat the GPU, Above 4G Decoding in the BIOS, pci=realloc; in VMs a larger \
MMIO window; AER errors in dmesg
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,90}\b(?:k?gmmu|kern_?gmmu|memmgr|mem_?mgr|mem_?desc|pma|phys_?mem|vaspa\
ce|gvas|gpu_?vaspace|heap)\w* ; the \
driver could not give or map GPU memory ; end other processes of that GPU (nvidia-smi, fuser -v /dev/nvidia*), then \
nvidia-smi -r; update the driver
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,90}(?:\bvgpu|\bvGPU|vmioplugin|[Hh]ypervisor|[Gg]uest driver) ; a vGPU \
could not be given or used ; guest and host driver of one \
branch, the \
licence, and nvidia-smi vgpu on the host
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,90}(?:\bPM\b|suspend|resume|power ?gat|\bD3) ; the GPU did not come \
back from a state of low power ; switch \
power saving off: nvidia-persistenced, NVreg_DynamicPowerManagement=0x00; reboot
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,90}(?:conflicting kernel module|open of non-existent|None of the \
NVIDIA devices) ; no GPU was started: \
another \
module holds it, or it is not there ; lspci -k: which driver holds the GPU (nouveau, vfio-pci); unload that, then \
modprobe nvidia; container and job must ask for GPUs that exist
\bmmfs|\bgpfs|GPFS ; GPFS (Storage Scale) failed or was unmounted on that host ; mmgetstate -a, mmlsmount all -L and \
mmdiag --waiters; mmstartup and mmmount on that host; look at its network to the servers
blocked for more than|hung_task|\bnfs\d?_\w+|rpc_wait_bit ; a task of the job waits in the kernel: for NFS, \
another file \
system, a driver or a disk, as its stack names ; mend what its stack names: nfs_ is NFS, ll_ and ptlrpc are Lustre, \
nvidia and uvm the GPU's driver, mlx5 the NIC; reboot where it stays so
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,160}\b(?:[Ll]ink \d|NVLink|links? |minion|MINION|ALI|[Tt]raining) ; \
NVLinks of a GPU could not be set up or \
trained ; nvidia-smi nvlink -s and -e; power the host off and on, nvidia-fabricmanager of exactly the driver's \
version; \
reseat or replace GPU, baseboard or tray
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,160}\b(?:RPC|[Ff]irmware|ucode|PMU|SEC2|falcon|bootstrap|VBIOS|vbios|In\
foROM) ; the GPU's firmware or its \
processors do not answer or cannot be loaded ; power the host off and on; driver and its firmware \
(/lib/firmware/nvidia) of one release; VBIOS of the maker; replace the GPU where it stays so
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,160}\b(?:[Pp]ower|thermal|temperature|clocks?) ; the GPU's power or \
clocks could not be set ; power cables \
and supplies of that host, cooling; nvidia-smi -q -d POWER,TEMPERATURE,PERFORMANCE
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,160}\b(?:MIG|partition|instance) ; MIG could not be changed or used ; \
end all clients of that GPU, nvidia-smi \
-mig 0 or 1 and reset it; nvidia-smi mig -lgi shows what there is
NVRM: (?!Xid|A GPU|GPU at PCI|GPU [0-9a-f]).{0,160}\b(?:[Mm]emory|[Pp]age|[Ff]ault|mapping|PTE|[Hh]eap|alloc\w*|BAR\d?\
) ; the driver could not give or map \
memory of that GPU ; end other processes of that GPU (fuser -v /dev/nvidia*), nvidia-smi -r; free host memory; Xids \
near it; update the driver
~NVRM: (?!API mismatch|this kernel|make sure|components|Xid|A GPU|GPU at PCI|GPU [0-9a-f]|The NVIDIA\
|This can|Try ) ; the GPU's driver met an error of its own: \
mostly the sequel of a GPU that does not answer ; look for Xids and \
PCIe errors of that GPU near it; nvidia-smi -r or reboot, driver and firmware of one release; nvidia-bug-report.sh for \
the maker
Power Brake(?![\w ]{0,40}: *Not)|power_brake(?!\w{0,20}\W{1,4}(?:Not|0)) ; the host's power supply tells the \
GPUs to slow down ; all power supplies plugged in and \
healthy (ipmitool sdr), enough power for the rack, BMC's power cap
"""
MACHINE: tuple[Family, ...] = (*read(_CHECKER), *read(_ROWS))
_NAMES = """driver-not-loaded ib-port-down nic-hang health-check fabric-manager nvlink-error nvswitch-error imex
    file-system pcie-errors gpu-slowdown machine-check gpu-memory-error cpu-slowdown fabric-degraded nvml-missing
    gpu-error-other disk-full ibv-call-failed gpu-not-visible driver-mismatch nic-hot efa-error file-system-stall
    gpu-off-bus kernel-hang unknown-error"""
OF_MACHINES = frozenset(_NAMES.split())
"""Findings of machines: words that tell which of that kind it is stand before what is said of all."""
