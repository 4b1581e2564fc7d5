"""Rows of clues (as `clue_rows` has them) of schedulers, containers and hosts: folders, images, firewalls."""

from __future__ import annotations

CLUSTER_CLUE_ROWS = {
    "command-not-found python-exception": r"""
couldn't chdir to [`'](?P<folder>/[^'\n]{1,160})': [^\n]{3,60}: going to /tmp instead && /tmp/ ; the job's folder
 {folder} is not there on that node, so that Slurm started the tasks in /tmp, where their files are missing ; see there
 why it is not mounted (srun -N1 -w NODE ls -d PATH, mount, df -h), and leave the node out until then (--exclude). Or
 give --chdir a folder that all nodes have
""",
    "container-start": r"""
file creation failed: \S{1,400}/(?P<file>lib[\w.+-]{2,60}|nvidia-[\w-]{2,40}): file exists ; the image itself holds a
 file of the driver ({file}), where the container toolkit puts the host's ; rm it in the image, and build that without
 driver packages (nvidia-utils, libnvidia-compute, cuda-drivers). No docker commit of a container that ran with GPUs:
 the driver always comes from the host
(?:create|unshare) (?:a )?user namespace: No space left ; the host's limit of user namespaces is reached, so that no
 container starts: no disk is full ; sysctl -w user.max_user_namespaces=28633 (and in /etc/sysctl.d) on all nodes; lsns
 -t user shows what ended containers left behind
nvidia-container-cli: device error: [^\n]{0,40}unknown device ; a GPU that the container asks for is not on that host
 (--gpus, NVIDIA_VISIBLE_DEVICES) ; nvidia-smi -L there: name its numbers, or UUIDs of this host (those of MIG change
 when it is set up anew); --gpus all takes all. Driver and container toolkit are right
""",
    "master-unreachable connection-timeout no-route": r"""
(?:errno: 113|No route to host) && ^\d{1,3} bytes from \d|, 0% packet loss && !\b100% packet loss|Destination Host
 Unreachable ; a firewall on rank 0's host rejects the port of its store: the host itself answers (ping), and the port
 gets "No route to host" ; let the nodes' network through on all hosts: systemctl stop firewalld, or firewall-cmd
 --zone=trusted --add-source=NET, or iptables -I INPUT -s NET -j ACCEPT. All ports must be open between them, not only
 MASTER_PORT. Routes and addresses are right
""",
}
