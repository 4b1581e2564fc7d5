"""What `particulars` knows of containers, Kubernetes, clouds and storage of jobs. Rows as in particular_rows.py."""

from __future__ import annotations

CLUSTER_ROWS = {
    "container-start": r"""
does not have storage\.|GCS bucket|gcsfuse.{0,80}(?:403|denied) ; the node's or pod's account may not read that bucket,
 so that it cannot be mounted (gcsfuse) ; grant it Storage Object User on the bucket; with workload identity bind the
 pod's service account to it (annotation iam.gke.io/gcp-service-account), and let the pod name that service account
Cannot connect to the Docker daemon ; Docker's daemon does not run on that host, or is looked for at another socket ;
 systemctl start docker, and journalctl -u docker for why it ended; docker context ls and DOCKER_HOST for the socket
permission denied while trying to connect to the docker ; this user may not use Docker: it is not in the group docker ;
 sudo usermod -aG docker USER and log in anew (id shows the group), on all hosts; or rootless Docker, or podman
port is already allocated ; a port that the container publishes is taken by another container ; docker ps shows whose:
 docker rm -f of one that was left behind, or another port; with --network=host nothing needs to be published
unknown device|device error: ; a GPU that the container asks for is not on that host (--gpus, NVIDIA_VISIBLE_DEVICES) ;
 nvidia-smi -L there: name its numbers, or UUIDs of this host (those of MIG change when it is set up anew); --gpus all
bpf_prog_(?:query|load)|device filters attached|failed to add device rules ; the container toolkit cannot give the
 container rights to its GPUs (cgroup v2): it is too old, or runs without root ; a newer nvidia-container-toolkit.
 Rootless Docker or podman: no-cgroups = true in nvidia-container-runtime/config.toml, or CDI (nvidia-ctk cdi generate,
 --device nvidia.com/gpu=all)
Multi-Attach|already (?:used by|exclusively attached|attached to) ; the volume can be attached to one node alone
 (ReadWriteOnce), and a pod of another node holds it ; take storage that many nodes mount (ReadWriteMany: NFS, Lustre,
 EFS, Filestore). For one pod: delete the old pod, or the VolumeAttachment of a node that is gone
mount\.lustre|Can't parse NID|\.fsx\.[\w-]+\.amazonaws ; the Lustre volume cannot be mounted on that node: its client
 is missing, the server's name does not resolve there, or its ports are closed ; on the node: modprobe lustre (a client
 of that kernel), and getent hosts of the server's name (DNS of the VPC). Open ports 988 and 1018-1023 in the security
 groups, then try mount -t lustre by hand
assign an IP address|allocate IP|no (?:more )?(?:available |free )?(?:IP|addresses)|(?:IP|address)\S* .{0,30}exhausted
 ; the network has no address left for the pod ; give it a larger range or subnet, and free what ended pods left
 (whereabouts: ippools and its reconciler; AWS: prefix delegation, or another subnet). The limit of the instance's
 interfaces counts, too
network-attachment-definition \((?P<net>[\w.-]+)\) in namespace \((?P<space>[\w.-]+)\) ; the pod names a network that
 is not there: {net} in namespace {space} ; kubectl get net-attach-def -A: make it in that namespace, or write
 NAMESPACE/NAME in the annotation k8s.v1.cni.cncf.io/networks
VF pci addr is required|SRIOV-CNI failed to load netconf ; the pod was given no virtual function for its SR-IOV
 network: it does not ask for the resource that the network names ; put that resource into the pod's limits, by the
 name in the network's annotation k8s.v1.cni.cncf.io/resourceName (kubectl get net-attach-def -o yaml; Allocatable of
 the node shows how many there are)
not ready in ComputeDomain|ComputeDomain Ready ; the node has not joined the job's ComputeDomain: its IMEX daemon does
 not run or waits for the other nodes ; kubectl get computedomain -o yaml, and the logs of the computedomain-daemon
 pods in the DRA driver's namespace. All nodes of the domain need one clique (label nvidia.com/gpu.clique) and
 nvidia-imex of the host switched off
DRA driver (?P<driver>\S+) (?:is )?not registered|(?P<other>\S+\.nvidia\.com) (?:is )?not (?:registered|found in the
 list) ; the DRA driver {driver}{other} does not run on that node, so that the kubelet cannot give its devices ;
 kubectl get pods -o wide of its kubelet plugin: it must run on that node (node selector, taints, its log); then delete
 the pod so that it is placed again
prepare dynamic resources|PrepareDynamicResources ; the kubelet cannot prepare the devices that the pod claims (DRA) ;
 kubectl get resourceclaim,resourceslice, and the log of the DRA driver's kubelet plugin on that node, which names why
secrets? "(?P<secret>[\w.-]+)" not found|configmaps? "(?P<map>[\w.-]+)" not found ; the pod names a secret or config
 map that is not in its namespace: {secret}{map} ; make it in that namespace (kubectl get secret,configmap -n
 NAMESPACE), or correct the name
(?P<tool>squashfuse\w*|fuse2fs|fuse-overlayfs)\b.{0,40}not (?:found|installed) ; the host lacks {tool}, by which images
 are mounted without root ; install it on all nodes (squashfuse, fuse-overlayfs, e2fsprogs), or unpack the image once:
 apptainer build --sandbox
mount source (?P<path>\S+) doesn't exist|mount source .{0,80}no such file ; a folder that is to be mounted into the
 container is not on that host: {path} ; ls it on that node: create or mount it there, or leave it out of --bind
 (APPTAINER_BIND, bind path in apptainer.conf)
container exited too soon ; the image's entrypoint ended at once, or waits for what pyxis does not give it ; srun
 --no-container-entrypoint; then docker run --rm IMAGE true shows what the entrypoint does
user namespace not supported|No setuid installation ; Apptainer was installed without setuid, and this kernel gives
 users no namespaces of their own ; sysctl user.max_user_namespaces=15000 (and kernel.unprivileged_userns_clone=1,
 Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0), or install apptainer-suid
""",
    "shm-full": r"""
EmptyDir volume \W{0,2}(?P<volume>[\w.-]+)\W{0,2} exceeds the limit \W{0,2}(?P<limit>[\w.]+) ; the node evicted the
 pod: its volume {volume} (memory at /dev/shm) grew over its sizeLimit, {limit} ; a larger sizeLimit, and as much more
 in the pod's memory limit, which it counts to. Or fewer data loader workers and smaller prefetch; look for files that
 stay in /dev/shm
""",
    "imex": r"""
not ready in ComputeDomain|ComputeDomain Ready ; the node has not joined the job's ComputeDomain: its IMEX daemon does
 not run or waits for the other nodes ; kubectl get computedomain -o yaml, and the logs of the computedomain-daemon
 pods in the DRA driver's namespace. All nodes of the domain need one clique (label nvidia.com/gpu.clique), and
 nvidia-imex of the host must be switched off
""",
    "driver-not-loaded": r"""
Could not find any nv files ; Apptainer's --nv finds no driver on this host: it has no GPU (a login node), or its
 libraries are not where ldconfig looks ; nvidia-smi on that host first, then ldconfig -p | grep libcuda. Start on a
 node with GPUs (srun --gres=gpu:N), or name the libraries in nvliblist.conf
did you configure the NVIDIA Container Toolkit|Incompatible (?:strategy|platform) detected ; the device plugin sees no
 driver: its pod was not started by NVIDIA's container runtime, or the host has no driver ; nvidia-smi on the host
 first. Then nvidia-ctk runtime configure --runtime=containerd --set-as-default and restart containerd, or
 runtimeClassName: nvidia for the plugin; delete its pod
""",
    "ib-devices-missing": r"""
is in use by|reload \w+ driver ; the RDMA driver (OFED) of the operator cannot replace the host's: modules of the host
 still use it ; unload what the line names on that host (modprobe -r, services such as nvmf, iser, NFS over RDMA,
 Lustre), set UNLOAD_STORAGE_MODULES=true in the NicClusterPolicy, or use the host's own driver. Drain the node before
""",
    "disk-full": r"""
failed to (?:register|extract|unpack|export) layer|/var/lib/(?:docker|containerd|containers)|overlay2|unpack(?:ing)?
 image ; the disk on which Docker or containerd keeps images is full ; docker system df, docker system prune -a (crictl
 rmi --prune; builds: docker builder prune), or move it to a larger disk: data-root in daemon.json, root in
 containerd's config.toml
""",
    "slurm-resources": r"""
unbound immediate PersistentVolumeClaim|persistentvolumeclaim \W{0,2}\S{1,100} (?:not found|is being deleted) ; the
 pod's volume is not there: its claim (PVC) is not bound to storage ; kubectl get pvc,sc and kubectl describe pvc: a
 storage class that exists and whose driver runs, a size and access mode that it gives. GPUs and nodes are not what
 lacks
volume node affinity conflict ; the pod's volume is in another zone, or on another node, than the nodes that fit ;
 place the pods in the volume's zone (topology.kubernetes.io/zone), or make the volume anew with a storage class of
 volumeBindingMode WaitForFirstConsumer
cannot allocate all claims|resourceclaim .{0,80}(?:not|pending) ; no node has devices that fulfil the pod's claims
 (DRA) ; kubectl get resourceslices,deviceclasses and kubectl describe resourceclaim. The DRA driver's kubelet plugin
 must run on the GPU nodes and list their devices, and the claim's class and selectors must fit them
Queue \S{1,80} (?:doesn't exist|does not exist|not found|is inactive|is stopped) ; the queue (Kueue) that the job names
 is not there, or not active ; kubectl get localqueue -n NAMESPACE and clusterqueue: correct the label
 kueue.x-k8s.io/queue-name, make the LocalQueue in that namespace, and see why its ClusterQueue is inactive (a
 ResourceFlavor or check that lacks)
NotTriggerScaleUp|max node group size reached ; no new node is made for the pod: the node group is at its largest, or
 no group fits what the pod asks for ; raise the maximum of the GPU node pool, or correct the pod's selector,
 tolerations and sizes, so that one pool fits
^(?!.*Insufficient).*didn't match (?:Pod's node affinity|node selector) ; no node has the labels that the pod asks for
 (node selector or affinity) ; kubectl get nodes --show-labels: correct the selector, or let the GPU operator and
 node-feature-discovery label the nodes
vCPU (?:capacity|limit)|VcpuLimitExceeded|MaxSpotInstanceCount|(?<!Job)(?<!Request)LimitExceeded|QuotaExceeded|approved
 .{0,60}quota|quota metrics|quota limits? ; the cloud's quota for this kind of machine is too small for what is asked ;
 have it raised for that region: AWS Service Quotas (vCPUs of P and G instances, spot apart), Azure Usage + quotas (the
 VM family's cores), Google IAM quotas (GPUs), OCI limits. Or ask for fewer, or in another region
InsufficientInstanceCapacity|Insufficient\w*Capacity|RESOURCE_POOL_EXHAUSTED|AllocationFailed|SkuNotAvailable|host
 capacity|out of resources|sufficient capacity|Insufficient capacity|limited EC2 capacity|ResourcesUnavailable ; the
 cloud has no such machines to give in that zone now: it is out of capacity ; try another zone, region or type, or
 later; for many nodes reserve them (Capacity Blocks, reservations, DWS flex-start). A quota does not guarantee
 machines, and raising it does not help here
""",
    "kubernetes-event": r"""
BackoffLimitExceeded|reached the specified backoff limit ; the job's pods failed as often as they may (backoffLimit):
 their own error is in their logs ; kubectl logs POD --previous of the pod that failed first; kubectl describe pod
 tells its exit code (137: memory). The limit only says how often it is tried
FailedJobs|ReachedMaxRestarts|first failed job: (?P<job>\S+) ; a job of the JobSet failed, as often as it may: its
 pods' own error is in their logs ; kubectl logs of the pods of the first failed job, which the event names, and
 kubectl describe pod for exit codes. failurePolicy.maxRestarts only says how often it is tried
FailedScaleUp|out of resources ; the cloud has no such machines to give in that zone now: the autoscaler got no node ;
 another zone or type, or later; reserved capacity or queued provisioning (DWS flex-start, Capacity Blocks) for many
 nodes
""",
    "manifest-refused": r"""
no matches for kind \W{0,2}(?P<kind>\w+) ; this cluster does not know the kind {kind}: its operator or its CRDs are not
 installed, or of another release ; kubectl api-resources shows what there is: install the operator (Kubeflow Trainer,
 MPI operator, JobSet, KubeRay, Kueue), or write the apiVersion that its release has
no endpoints available|connection refused|context deadline|no such host|(?:certificate|x509) ; the webhook of an
 operator does not answer, so that the API server refuses all objects of that kind ; kubectl get pods,endpoints in the
 namespace of the service that is named: bring its controller up (its log, its certificate). Where the operator was
 removed: delete what it left (kubectl get validatingwebhookconfigurations, mutatingwebhookconfigurations)
violates PodSecurity ; the namespace's security level (Pod Security) forbids what the pod asks for, such as
 hostNetwork, hostIPC or IPC_LOCK ; kubectl label namespace NAME pod-security.kubernetes.io/enforce=privileged
 --overwrite, for a namespace of such jobs alone. Or do without what the line names: RDMA by a device plugin needs no
 host network
must be equal to (?P<what>\S+) limit ; requests and limits of {what} differ: devices cannot be shared out, and both
 must be the same ; give the number in limits alone (requests follow it)
cannot (?P<verb>\w+) resource \W{0,2}(?P<thing>[\w./-]+) ; the account that asks may not {verb} {thing} in that
 namespace ; a Role and RoleBinding for that user or service account (kubectl auth can-i VERB RESOURCE --as=... tests
 it)
""",
    "service-mesh": r"""
Policy denied|NetworkPolic ; a network policy drops connections between the job's pods ; kubectl get
 networkpolicy,ciliumnetworkpolicy -n NAMESPACE: allow the job's pods to each other, in and out, on all ports
 (podSelector by the job's label), and DNS
""",
    "credentials": r"""
Unable to locate credentials ; a program finds no credentials of AWS on that node or in that container ; give the
 instance or pod its role (instance profile; EKS Pod Identity or IRSA by the service account). In containers IMDSv2
 needs a hop limit of 2 (aws ec2 modify-instance-metadata-options --http-put-response-hop-limit 2). Or pass AWS_
 variables or ~/.aws to all ranks
not authorized to perform: (?P<act>[\w:*]+)(?: on resource: \W{0,3}(?P<on>[\w:*/.-]+))? ; the role of the node or pod
 may not do {act} {on} ; add that action to the role's policy (and to the bucket's and its key's, where they are of
 another account)
does not have (?P<act>[\w.]+) access ; the service account of the node or pod lacks the right {act} ; grant it that
 role (Storage Object User on the bucket), and with workload identity bind the pod's service account to it
""",
}
