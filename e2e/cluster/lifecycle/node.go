// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/config"
	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
	"github.com/bobtail-dev/bobtail/e2e/cluster/networks"
	"github.com/bobtail-dev/bobtail/e2e/cluster/ociimage"
	"github.com/bobtail-dev/bobtail/e2e/cluster/proc"
	"github.com/bobtail-dev/bobtail/e2e/cluster/sriov"
)

// inNode are the namespaces that make a node.
var inNode = []string{proc.Mount, proc.Net, proc.UTS}

// startOn runs a daemon inside a node.
func (m *Manager) startOn(c layout.Cluster, node, daemon string, args ...string) error {
	holder, err := m.live("node-" + node)
	if err != nil {
		return err
	}
	process := daemon + "-" + node
	_, err = proc.Start(proc.Spec{
		Args: holder.Enter(inNode, args...), Env: m.env(c.Tools),
		PidFile: m.State.Pid(process), Log: m.State.Log(process), Cgroup: m.leaf(c, node),
	})
	return err
}

// packBaseImages makes the two images that exist before any image build: the
// pod sandbox, which is this very program, and the cluster DNS.
func (m *Manager) packBaseImages(c layout.Cluster, self string) error {
	pause := ociimage.Image{
		Name: config.SandboxImage, Entrypoint: []string{"/bobtail-cluster", PauseCommand},
		Files: map[string]string{"/bobtail-cluster": self},
	}
	if err := pause.Write(m.State.Images("pause.tar")); err != nil {
		return err
	}
	dns := ociimage.Image{
		Name: config.CoreDNSImage(c.Tools.Versions["coredns"]), Entrypoint: []string{"/coredns"},
		Files: map[string]string{"/coredns": c.Tools.Path("coredns")},
	}
	return dns.Write(m.State.Images("coredns.tar"))
}

// whereabouts is the IPAM plugin that was built: upstream's own.
const whereabouts = "whereabouts"

// installPlugins puts this program where container runtimes look for plugins, under the plugins' names, and whereabouts beside it.
func (m *Manager) installPlugins(c layout.Cluster, self string) error {
	b, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	if err := os.WriteFile(m.State.CNI(networks.Type), b, 0o755); err != nil {
		return err
	}
	if err := link(networks.Type, m.State.CNI(sriov.Type)); err != nil {
		return err
	}
	return link(c.Tools.Path(whereabouts), m.State.CNI(whereabouts))
}

// link replaces what an earlier start left.
func link(to, at string) error {
	if err := os.Remove(at); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(to, at)
}

// PauseCommand is the hidden subcommand that the pod sandbox runs.
const PauseCommand = "internal-pause"

// nodeConfig gathers what the node's files are rendered from.
func (m *Manager) nodeConfig(c layout.Cluster, n netns.Node) (config.Node, error) {
	runc, err := exec.LookPath("runc")
	if err != nil {
		return config.Node{}, err
	}
	mem, err := memoryMiB()
	if err != nil {
		return config.Node{}, err
	}
	return config.Node{
		Node: n, Nodes: len(c.Nodes), CPUs: runtime.NumCPU(), MemoryMiB: mem, CgroupV1: c.CgroupV1, StaticCPUs: c.StaticCPUs,
		CgroupRoot: "/" + m.State.CgroupName() + "/" + n.Name,
		NetDir:     m.State.Node(n.Name, "net.d"), CNIBin: layout.CNIDir, OwnCNI: m.State.CNI(""), Runc: runc,
		Networks: config.NetworksClient{Server: insideURL, CA: m.State.PKI("ca.crt"), Cert: m.State.PKI("networks.crt"), Key: m.State.PKI("networks.key")},
		CACert:   m.State.PKI("ca.crt"), Cert: m.State.PKI("kubelet-" + n.Name + ".crt"), Key: m.State.PKI("kubelet-" + n.Name + ".key"),
		ProxyKube: m.State.PKI("kube-proxy.kubeconfig"),
	}, nil
}

func memoryMiB() (int, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/meminfo has no MemTotal line")
}

func (m *Manager) writeNodeFiles(n config.Node) error {
	for path, content := range map[string]string{
		m.State.Node(n.Name, "etc", "containerd.toml"):      config.Containerd(n),
		m.State.Node(n.Name, "etc", "kubelet.json"):         config.Kubelet(n),
		m.State.Node(n.Name, "etc", "kube-proxy.json"):      config.KubeProxy(n, config.ProxyModes[0]),
		m.State.Node(n.Name, "net.d", "10-bridge.conflist"): config.CNI(n),
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manager) startContainerd(c layout.Cluster, n netns.Node) error {
	cfg, err := m.nodeConfig(c, n)
	if err != nil {
		return err
	}
	if err := m.writeNodeFiles(cfg); err != nil {
		return err
	}
	err = m.startOn(c, n.Name, "containerd", c.Tools.Path("containerd"), "-c", m.State.Node(n.Name, "etc", "containerd.toml"))
	if err != nil {
		return err
	}
	holder, err := m.live("node-" + n.Name)
	if err != nil {
		return err
	}
	err = poll(30*time.Second, 50*time.Millisecond, func() error {
		if _, err := m.live("containerd-" + n.Name); err != nil {
			return err
		}
		_, err := proc.Run(m.env(c.Tools), "", holder.Enter(inNode, c.Tools.Path("ctr"), "version")...)
		return err
	})
	if err != nil {
		return err
	}
	for _, tar := range []string{"pause.tar", "coredns.tar"} {
		if err := m.importImage(c, n.Name, m.State.Images(tar), ""); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manager) startKubelet(c layout.Cluster, n netns.Node) error {
	if err := m.runKubelet(c, n); err != nil {
		return err
	}
	return m.startKubeProxy(c, n.Name)
}

// ExecNode returns the command line that runs args inside a node, or inside
// the control plane's network for the name control-plane.
func (m *Manager) ExecNode(node string, args []string) ([]string, error) {
	c, err := m.State.ReadCluster()
	if err != nil {
		return nil, err
	}
	if node == controlPlane {
		r, err := m.live(controlPlane)
		return r.Enter([]string{proc.Net}, args...), err
	}
	short := strings.TrimPrefix(node, "node-")
	for _, n := range c.Nodes {
		if n == short {
			r, err := m.live("node-" + n)
			return r.Enter(inNode, args...), err
		}
	}
	for _, n := range netns.Plan(netns.NodeNames(len(c.Nodes)+len(c.Machines)), false)[len(c.Nodes):] {
		if n.Name == short {
			return m.shell(n, args)
		}
	}
	return nil, fmt.Errorf("no node %q: there are %s and %s", node, strings.Join(slices.Concat(c.Nodes, c.Machines), ", "), controlPlane)
}
