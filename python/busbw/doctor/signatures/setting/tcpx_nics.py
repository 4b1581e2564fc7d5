"""Google's receive daemon does not find a NIC beside every GPU."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="tcpx-nics",
    stage=Stage.SETTING,
    title=(
        "Google's receive daemon (RxDM) finds a NIC beside {seen} of {gpus} GPUs only and ends: a NIC is missing, or "
        "one of another network ({nic}) has its place"
    ),
    patterns=(
        r"Number of GPUs detected(?: in the PCI tree)? (?P<seen>\d{1,3}) is not equal to .{0,80}?(?P<gpus>\d{1,3})\s*$",
        r"pci_helpers\.cc:\d{1,5}\] NIC \S{1,20} \((?P<nic>\w{1,16})\) driver gve\b.{0,60}skipping",
    ),
    holds=lambda groups: any("seen" in each for each in groups),
    explains=("tcpx-error", "node-lost", "connection-refused", "mpi-launch", "plugin-config"),
    confirm=(
        "kubectl logs POD -c tcpxo-daemon; gcloud container node-pools describe POOL: additionalNodeNetworkConfigs; "
        "lspci in the daemon's container"
    ),
    cure=(
        "leave only the networks of the GPU NICs (8 on a3-megagpu) as additional networks of the node pool. Take any "
        "other one out, such as one of plain gVNIC, and make the nodes again. Where the networks are right, a NIC or "
        "GPU is missing: replace that VM"
    ),
    source="Google's TCPXO receive daemon (fastrak_gpumem_manager, pci_helpers)",
)
