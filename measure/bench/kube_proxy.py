# SPDX-License-Identifier: Apache-2.0
"""The real kube-proxy, on a host of the bed: its API server is a stand-in that knows one Service (e2e/bench/crab/kube_api.py)."""
import json
import os
import pathlib
import sys

import machine

API_PORT = 16443
LABELS = {"kubernetes.io/service-name": "bench"}


def binary():
    """kube-proxy as make deps builds it."""
    versions = dict(line.split("=", 1) for line in (machine.ROOT / "hack/deps/versions.env").read_text().splitlines() if "=" in line and line[0] != "#")
    cache = pathlib.Path(os.environ.get("BOBTAIL_CACHE", pathlib.Path.home() / ".cache" / "bobtail"))
    found = cache / f"kubernetes-{versions['KUBERNETES_VERSION'].strip('v')}" / "bin" / "kube-proxy"
    if not found.exists():
        raise machine.Failed(f"{found} is missing: run hack/deps/install --only=cluster (make deps)")
    return found


def objects(node, vip, server, port):
    """A Service of type LoadBalancer whose address is vip, its one endpoint, and the node kube-proxy runs on."""
    def meta(name, **more):
        return {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1", **more}

    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node", "uid": "node", "resourceVersion": "1"}, "spec": {"podCIDR": "10.244.0.0/24"},
         "status": {"addresses": [{"type": "InternalIP", "address": node}]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": meta("bench"),
         "spec": {"type": "LoadBalancer", "clusterIP": "10.95.0.10", "clusterIPs": ["10.95.0.10"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                  "allocateLoadBalancerNodePorts": False, "internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Cluster", "sessionAffinity": "None",
                  "ports": [{"port": port, "targetPort": port, "protocol": "TCP"}]},
         "status": {"loadBalancer": {"ingress": [{"ip": vip, "ipMode": "VIP"}]}}},
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta("bench-1", labels=LABELS), "addressType": "IPv4",
         "ports": [{"name": "", "port": port, "protocol": "TCP"}],
         "endpoints": [{"addresses": [server], "nodeName": "other", "conditions": {"ready": True, "serving": True, "terminating": False}}]},
    ]


def start(bed, host, mode, vip, server, port):
    """kube-proxy and its API server on the host; it has written its rules when the address is served."""
    work = bed.dir / f"kube-proxy-{host}"
    work.mkdir()
    (work / "objects.json").write_text(json.dumps(objects(bed.address(host), vip, server, port)))
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{API_PORT}"}}
    (work / "kubeconfig").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "users": [{"name": "u", "user": {}}],
                                                 "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}))
    (work / "config").write_text(json.dumps({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": mode, "clusterCIDR": "10.244.0.0/16",
        "hostnameOverride": "node", "conntrack": {"maxPerCore": 0},
        "clientConnection": {"kubeconfig": str(work / "kubeconfig"), "contentType": "application/json", "acceptContentTypes": "application/json"}}))
    bed.start(f"kube-api-{host}", host, [sys.executable, machine.ROOT / "e2e/bench/crab/kube_api.py", API_PORT, work / "objects.json"])
    bed.start(f"kube-proxy-{host}", host, [binary(), f"--config={work / 'config'}"])
