// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"

	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
)

// Where a machine that joins has the files of a node.
const (
	machinePKI  = "/pki/"
	machineCNI  = "/opt/cni/bin"
	machineNet  = "/etc/cni/net.d"
	machineRunc = "/usr/sbin/runc"
)

// Machine is a node on a machine of its own, such as an emulated one. The cluster's other
// nodes share one kernel; this one has its own, with its devices.
type Machine struct {
	netns.Node
	Server  string // URL of the API server
	Gateway string // the node by which it reaches Services
}

// MachineTaint keeps pods away that do not ask for such a machine: it may be an emulated, slow one.
const MachineTaint = "bobtail.dev/machine=own:NoSchedule"

// MachineCard is the address of its card's own interface: the way from pods and other nodes to the card's network.
const (
	MachineCard        = "10.77.0.254"
	MachineCardNetwork = "10.77.0.0/24"
)

func (m Machine) node() Node {
	n := Node{Node: m.Node, Nodes: 1, CNIBin: machineCNI, OwnCNI: machineCNI, Runc: machineRunc, NetDir: machineNet,
		CACert: machinePKI + "ca.crt", Cert: machinePKI + "kubelet.crt", Key: machinePKI + "kubelet.key"}
	n.Networks = NetworksClient{Server: m.Server, CA: n.CACert, Cert: machinePKI + "networks.crt", Key: machinePKI + "networks.key"}
	return n
}

// Files are the configuration files of the node, by their paths on the machine.
func (m Machine) Files() map[string]string {
	n := m.node()
	return map[string]string{
		"/etc/containerd.toml":                         Containerd(n),
		"/etc/kubelet.json":                            m.kubelet(n),
		machineNet + "/10-bridge.conflist":             podNetwork(bridge(n), further(n)), // nothing there has ports of the host
		machineNet + "/whereabouts.d/whereabouts.conf": Whereabouts(machinePKI + "networks.kubeconfig"),
		"/settings": fmt.Sprintf("NAME=%s\nADDRESS=%s\nGATEWAY=%s\nCARD_ADDRESS=%s\nTAINT=%s\n",
			NodeName(m.Name), m.IP, m.Gateway, MachineCard, MachineTaint),
	}
}

// kubelet gives whole CPUs away, but for one: half of it is the system's, the other half
// that of containers with a share. A machine of its own needs no folder of its own in
// the control groups. Its root file system is a tmpfs, whose free space the kubelet counts
// as ephemeral storage; what is full there is memory, so only that evicts.
func (m Machine) kubelet(n Node) string {
	k := kubelet(n)
	maps.Copy(k, object{
		"cpuManagerPolicy": "static", "topologyManagerPolicy": "single-numa-node",
		"systemReserved":      object{"cpu": "500m", "memory": "0Mi"},
		"evictionHard":        object{"memory.available": "50Mi"},
		"containerLogMaxSize": "5Mi",
	})
	delete(k, "cgroupRoot")
	delete(k, "failCgroupV1")
	return render(k)
}

// ContainerdRoot is where every node's containerd keeps images.
const ContainerdRoot = "/var/lib/containerd"

// Unpacking renders the configuration of a containerd that only fills such a folder.
func Unpacking(root, state, socket string) string {
	return fmt.Sprintf(`version = 3
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.nri.v1.nri"]

[grpc]
  address = %q
`, root, state, socket)
}

// Programs are the files of a node's programs, by their paths on the machine: those that were
// built, by name, runc, and Debian's plugins.
func (m Machine) Programs(built func(program string) string, runc, cni string) map[string]string {
	files := map[string]string{machineRunc: runc}
	for _, p := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "kubelet"} {
		files["/usr/bin/"+p] = built(p)
	}
	for _, p := range []string{"bridge", "host-local", "loopback"} {
		files[machineCNI+"/"+p] = cni + "/" + p
	}
	return files
}

// OwnPlugin is where a plugin of the cluster's own is on the machine.
func (m Machine) OwnPlugin(name string) string { return machineCNI + "/" + name }

// PKI is where a file of certificates or keys is on the machine.
func (m Machine) PKI(file string) string { return machinePKI + file }
