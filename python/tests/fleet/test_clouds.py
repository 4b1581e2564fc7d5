"""Topologies as the clouds' own tools print them, made from their documented formats; hostile ones get a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from busbw.base.errors import UserError
from busbw.fleet.pods import read_pods


def aws(number: int, *layers: str, **more: Any) -> dict[str, Any]:
    """As `aws ec2 describe-instance-topology` lists an instance, the nearest network node last."""
    return {
        "InstanceId": f"i-{number:017x}", "InstanceType": "p5.48xlarge", "GroupName": "training",
        "NetworkNodes": list(layers), "AvailabilityZone": "us-west-2a", "ZoneId": "usw2-az2", **more,
    }  # fmt: skip


def gce(name: str, **status: Any) -> dict[str, Any]:
    """As `gcloud compute instances list --format=json` shows a VM."""
    return {
        "kind": "compute#instance", "id": "4711", "name": name, "zone": "zones/us-east4-b",
        "machineType": "machineTypes/a3-megagpu-8g", "resourceStatus": {"scheduling": {}, **status},
    }  # fmt: skip


def host(instance: str | None, block: str) -> dict[str, Any]:
    """As `oci compute capacity-topology` lists a bare metal host."""
    return {
        "compute-capacity-topology-id": "ocid1.capacitytopology.oc1.t", "id": "ocid1.baremetalhost.oc1.x",
        "compute-hpc-island-id": "ocid1.hpcisland.oc1.h", "compute-network-block-id": "ocid1.networkblock.oc1.n",
        "compute-local-block-id": block, "instance-id": instance, "instance-shape": "BM.GPU.H100.8",
        "lifecycle-state": "ACTIVE",
    }  # fmt: skip


def node(name: str, gpus: int = 8, **labels: str) -> dict[str, Any]:
    """As `kubectl get nodes -o json` shows a node."""
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"capacity": {"cpu": "192", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}},
    }  # fmt: skip


def listed(*nodes: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})


ONE, TWO, THREE = (f"i-{number:017x}" for number in (1, 2, 3))
DNS = ("ip-10-1-0-1.us-west-2.compute.internal", "ip-10-1-0-2.us-west-2.compute.internal")
TOPOLOGY = {"Instances": [aws(1, "nn-1", "nn-2", "nn-3"), *(aws(each, "nn-1", "nn-2", "nn-4") for each in (2, 3))]}
RESERVATIONS = {"Reservations": [{"Instances": [
    {"InstanceId": ONE, "PrivateDnsName": DNS[0], "State": {"Name": "running"}},
    {"InstanceId": TWO, "PrivateDnsName": DNS[1], "State": {"Name": "running"}},
]}]}  # fmt: skip
AWS_LABEL = "topology.k8s.aws/network-node-layer-"
GKE, OKE = "cloud.google.com/gce-topology-", "oci.oraclecloud.com/rdma."
LOCAL = "ocid1.computelocalblock.oc1.iad."


@pytest.mark.parametrize(("text", "pods"), [
    (json.dumps(TOPOLOGY), {ONE: "nn-3", TWO: "nn-4", THREE: "nn-4"}),
    # Two pages, one after the other; an instance that does not run has no network nodes.
    (json.dumps({"Instances": [aws(1, "a", "b", "c")], "NextToken": "x"}) + "\n"
     + json.dumps({"Instances": [aws(2, "a", "b", "c"), aws(3)]}), {ONE: "c", TWO: "c"}),
    # With what describe-instances says behind it, nodes have their names.
    (json.dumps(TOPOLOGY) + json.dumps(RESERVATIONS), {DNS[0]: "nn-3", DNS[1]: "nn-4", THREE: "nn-4"}),
    ('[{"node": "gpu1", "rack": 7}, {"node": "gpu2", "rack": 7, "switch": true}]', {"gpu1": "7", "gpu2": "7"}),
    (json.dumps([gce("a", physicalHostTopology={"cluster": "c", "block": "b", "subblock": "s", "host": "h"}),
                 gce("b", physicalHostTopology={"cluster": "c", "block": "b", "subblock": "t", "host": "h"})]),
     {"a": "b/s", "b": "b/t"}),
    (json.dumps([gce("a", physicalHost="/pool/rack1/host7"), gce("b", physicalHost="/pool/rack2/host7"), gce("c")]),
     {"a": "pool/rack1", "b": "pool/rack2"}),
    (json.dumps({"data": {"items": [host("ocid1.instance.oc1.iad.a", LOCAL + "x"), host(None, LOCAL + "x"),
                                    host("ocid1.instance.oc1.iad.b", LOCAL + "y")]}}),
     {"ocid1.instance.oc1.iad.a": LOCAL + "x", "ocid1.instance.oc1.iad.b": LOCAL + "y"}),
    (json.dumps({"data": [{"display-name": "host-1", "hpc-island-id": "h", "network-block-id": "n",
                           "local-block-id": "l1", "instance-id": "ocid1.instance.oc1.iad.a"}]})
     + json.dumps({"data": [{"id": "ocid1.instance.oc1.iad.a", "display-name": "gpu-17", "shape": "BM.GPU.H100.8"}]}),
     {"gpu-17": "l1"}),
    # The metadata service, asked on each node by a parallel shell, on one line or on several.
    ('gpu-1: {"customerHPCIslandId": "h", "customerLocalBlock": "l1", "customerNetworkBlock": "n"}\n'
     'gpu-2: {\ngpu-2:   "customerLocalBlock": "l2",\ngpu-2:   "customerNetworkBlock": "n"\ngpu-2: }\n',
     {"gpu-1": "l1", "gpu-2": "l2"}),
    ('{"name": "gpu-1", "rdmaTopologyData": {"customerLocalBlock": "l1"}}', {"gpu-1": "l1"}),
    (listed(node("ip-1.ec2.internal", **{f"{AWS_LABEL}1": "a", f"{AWS_LABEL}2": "b", f"{AWS_LABEL}3": "c"}),
            node("ip-2.ec2.internal", **{f"{AWS_LABEL}1": "a", f"{AWS_LABEL}2": "b", f"{AWS_LABEL}3": "d",
                                         f"{AWS_LABEL}4": "e"})),
     {"ip-1.ec2.internal": "c", "ip-2.ec2.internal": "e"}),
    (listed(node("gke-a", **{f"{GKE}block": "b", f"{GKE}subblock": "s", f"{GKE}host": "h"}),
            node("gke-cpu", 0, **{f"{GKE}block": "b", f"{GKE}subblock": "z"}),
            node("gke-b", **{"topology.gke.io/cluster": "c", "topology.gke.io/rack": "r"})),
     {"gke-a": "b/s", "gke-b": "c/r"}),
    (listed(node("10.0.0.5", **{f"{OKE}hpc_island_id": "i", f"{OKE}network_block_id": "n", f"{OKE}local_block_id": "l",
                                f"{OKE}host_id": "h"})), {"10.0.0.5": "l"}),
    (listed(node("a", **{"network.topology.nvidia.com/leaf": "s1", "network.topology.nvidia.com/spine": "s2"})),
     {"a": "s1"}),
    (json.dumps(node("a", **{"fabric.topograph.run/tier-0": "t", "fabric.topograph.run/tier-1": "u"})), {"a": "t"}),
    ("\ufeff" + listed(node("a", **{"backend.coreweave.cloud/leafgroup": "17"})), {"a": "17"}),
    ('{"gpu1": "leaf1", "gpu2": "leaf2"}', {"gpu1": "leaf1", "gpu2": "leaf2"}),
    ('{"leaf1": ["gpu1", "gpu2"], "leaf2": ["gpu3"]}', {"gpu1": "leaf1", "gpu2": "leaf1", "gpu3": "leaf2"}),
    ('[{"node": "gpu1", "leaf": "l1", "rack": "r1"}, {"hostname": "gpu2", "rack": "r1"}]',
     {"gpu1": "l1", "gpu2": "r1"}),
    ('vm-1: {"block": "b", "subblock": "s", "host": "h"}\nvm-2: {"block": "b", "subblock": "t", "host": "i"}\n',
     {"vm-1": "b/s", "vm-2": "b/t"}),
    ("vm-1 /c/r1/h1\nvm-2 /c/r1/h2\nvm-3 /c/r2/h3\n", {"vm-1": "c/r1", "vm-2": "c/r1", "vm-3": "c/r2"}),
    (json.dumps({"switches": [{"name": "leaf1", "nodes": ["a", "b"]}, {"switch": "leaf2", "nodes": "c[1-2]"}]}),
     {"a": "leaf1", "b": "leaf1", "c1": "leaf2", "c2": "leaf2"}),
    ('{"node": "gpu1", "pod": "p"}\n{"node": "gpu2", "pod": "p"}\n', {"gpu1": "p", "gpu2": "p"}),
    (json.dumps({"physicalTopology": {"instances": [
        {"instanceId": "81", "physicalHostTopology": {"host": "h1", "subBlock": "s1"}, "projectId": "7"},
        {"instanceId": "82", "physicalHostTopology": {"host": "h2", "subBlock": "s1"}, "projectId": "7"}]}}),
     {"81": "s1", "82": "s1"}),
])  # fmt: skip
def test_what_a_cloud_says_of_its_network_gives_pods(text: str, pods: dict[str, str]) -> None:
    assert read_pods(text, "t") == pods


def test_of_an_instances_names_the_one_that_was_asked_for_is_taken() -> None:
    both = json.dumps(TOPOLOGY) + json.dumps(RESERVATIONS)
    assert read_pods(both, "t", (ONE, TWO)) == {ONE: "nn-3", TWO: "nn-4", THREE: "nn-4"}
    assert read_pods(both, "t", ("ip-10-1-0-1", TWO)) == {"ip-10-1-0-1": "nn-3", TWO: "nn-4", THREE: "nn-4"}
    tagged = {"InstanceId": ONE, "PrivateDnsName": DNS[0], "Tags": [{"Key": "a", "Value": "b"},
                                                                   {"Key": "Name", "Value": "gpu-1"}]}  # fmt: skip
    assert read_pods(json.dumps([TOPOLOGY, tagged]), "t", ("gpu-1", TWO))["gpu-1"] == "nn-3"
    assert read_pods(json.dumps([TOPOLOGY, tagged]), "t", (DNS[0], TWO))[DNS[0]] == "nn-3"
    with pytest.raises(UserError, match="describe-instances"):
        read_pods(json.dumps(TOPOLOGY), "t", ("ip-10-1-0-1", "ip-10-1-0-2"))


@pytest.mark.parametrize(("text", "said"), [
    ('{"Instances": [', "is no whole JSON"),
    ('{"Instances": []}', "no node with its place"),
    (json.dumps({"Instances": [aws(1), aws(2)]}), "no node with its place"),
    (listed(node("a"), node("b")), "no node with its place"),
    ("[" * 100_000, "is no whole JSON"),
    ("[" * 500 + "]" * 500, "no node with its place"),
    ('{"a": ' + "9" * 10_000 + "}", "is no whole JSON"),
    (json.dumps({"Instances": [aws(1, "a"), aws(1, "b")]}), "has one leaf switch"),
    (json.dumps({"Instances": [aws(1, "a\x1b[31m")]}), "is no name of a switch"),
    (json.dumps({"Instances": [aws(1, "a" * 300)]}), "is no name of a switch"),
    (json.dumps({"Instances": [{"InstanceId": "i-1; rm -rf /", "NetworkNodes": ["a"]}]}), "is no node"),
    (json.dumps({"gpu1": None, "gpu2": 7}), "no node with its place"),
    ("apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n", "-o json"),
    ("INSTANCES\tus-west-2a\tNone\ti-1111111111example\tp4d.24xlarge\tusw2-az2\nNETWORKNODES\tnn-1\n", "--output json"),
])  # fmt: skip
def test_what_is_no_topology_of_a_cloud_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as raised:
        read_pods(text, "t")
    assert "\n" not in str(raised.value) and "\x1b" not in str(raised.value)
