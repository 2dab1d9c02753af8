// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"

	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
	"github.com/bobtail-dev/bobtail/e2e/cluster/networks"
)

// Node is what a node's files are rendered from. All paths are absolute and
// seen from inside the node.
type Node struct {
	netns.Node
	Nodes      int // in the cluster
	CPUs       int // of the machine
	MemoryMiB  int // of the machine
	CgroupRoot string
	NetDir     string // CNI configuration folder
	CNIBin     string
	OwnCNI     string // folder of the plugin for further networks
	Networks   NetworksClient
	Runc       string
	CACert     string
	Cert, Key  string // kubelet's serving certificate
	ProxyKube  string // kube-proxy's kubeconfig
	CgroupV1   bool
	StaticCPUs bool // containers can have processors for themselves
}

// SandboxImage is the image of every pod's first container.
const SandboxImage = "localhost/bobtail/embedded-pause:1"

// Containerd renders containerd's configuration. restrict_oom_score_adj lets
// containers start where even root may not lower the score.
func Containerd(n Node) string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = %q

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = [%q, %q]
  conf_dir = %q

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  BinaryName = %q
  SystemdCgroup = false
`, SandboxImage, n.CNIBin, n.OwnCNI, n.NetDir, n.Runc)
}

type object = map[string]any

// Whereabouts is the file by which the IPAM plugin of that name finds the API server. Its own
// patience with it, a second, is too short for a busy machine.
func Whereabouts(kubeconfig string) string {
	return render(object{"datastore": "kubernetes", "kubernetes": object{"kubeconfig": kubeconfig},
		"leader_lease_duration": 15000, "leader_renew_deadline": 10000, "leader_retry_period": 500})
}

// render cannot fail: it is given maps, strings, numbers and lists only.
func render(o object) string {
	b, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		panic("config: not renderable: " + err.Error())
	}
	return string(b) + "\n"
}

// NetworksClient is how the plugin for further networks asks the API server.
type NetworksClient struct{ Server, CA, Cert, Key string }

// CNI renders the pod network: one bridge per node with its own address range, and what else a pod's annotation names.
func CNI(n Node) string {
	portmap := object{"type": "portmap", "capabilities": object{"portMappings": true}}
	return podNetwork(bridge(n), portmap, further(n))
}

func podNetwork(plugins ...any) string {
	return render(object{"cniVersion": "1.0.0", "name": "bobtail", "plugins": plugins})
}

// bridge is the plugin of the network that all pods have.
func bridge(n Node) object {
	ranges, routes := []any{[]any{object{"subnet": n.PodCIDR}}}, []any{object{"dst": "0.0.0.0/0"}}
	if n.PodCIDR6 != "" {
		ranges, routes = append(ranges, []any{object{"subnet": n.PodCIDR6}}), append(routes, object{"dst": "::/0"})
	}
	return object{
		"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
		"ipam": object{
			"type":   "host-local",
			"ranges": ranges,
			"routes": routes,
		},
	}
}

// further is the plugin of the networks that a pod's annotation names.
func further(n Node) object {
	return object{"type": networks.Type, "server": n.Networks.Server, "ca": n.Networks.CA, "cert": n.Networks.Cert, "key": n.Networks.Key}
}

// reserved keeps the nodes together from offering more than the machine has:
// each node sees all of it and gives away its share.
func reserved(n Node) object {
	cpu := n.CPUs * 1000 * (n.Nodes - 1) / n.Nodes
	if n.StaticCPUs { // which rounds it up: one processor is everybody's
		cpu = 300
	}
	mem := n.MemoryMiB * (n.Nodes - 1) / n.Nodes
	return object{"cpu": fmt.Sprintf("%dm", cpu), "memory": fmt.Sprintf("%dMi", mem)}
}

// Kubelet renders the kubelet's configuration.
func Kubelet(n Node) string { return render(kubelet(n)) }

func kubelet(n Node) object {
	policy := "none"
	if n.StaticCPUs {
		policy = "static"
	}
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cpuManagerPolicy": policy, "cpuManagerReconcilePeriod": "1s",
		"failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": n.CgroupRoot, "failSwapOn": false,
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"authentication": object{
			"anonymous": object{"enabled": false}, "webhook": object{"enabled": true}, "x509": object{"clientCAFile": n.CACert},
		},
		"authorization": object{"mode": "Webhook"},
		"tlsCertFile":   n.Cert, "tlsPrivateKeyFile": n.Key,
		"clusterDNS": []string{netns.DNSServiceIP}, "clusterDomain": "cluster.local", "resolvConf": "/dev/null",
		"systemReserved":              reserved(n),
		"evictionHard":                object{"memory.available": "100Mi", "nodefs.available": "3%", "imagefs.available": "3%"},
		"imageGCHighThresholdPercent": 100,
	}
}

// ProxyModes are kube-proxy's modes that a cluster can run in; the first one is what it starts with.
var ProxyModes = []string{"nftables", "iptables"}

// KubeProxy renders kube-proxy's configuration. A maxPerCore of zero leaves
// the machine-wide connection tracking limit alone.
func KubeProxy(n Node, mode string) string {
	return render(object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode": mode, "clusterCIDR": both(n.IP6 != "", netns.ClusterCIDR, netns.ClusterCIDR6), "hostnameOverride": NodeName(n.Name),
		"clientConnection": object{"kubeconfig": n.ProxyKube},
		"conntrack":        object{"maxPerCore": 0},
	})
}

// NodeIPs are the addresses a kubelet tells of itself.
func NodeIPs(n netns.Node) string { return both(n.IP6 != "", n.IP, n.IP6) }

// NodeName is the name under which a node registers.
func NodeName(n string) string { return "node-" + n }
