// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/cgroup"
	"github.com/bobtail-dev/bobtail/e2e/cluster/config"
	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
	"github.com/bobtail-dev/bobtail/e2e/cluster/networks"
	"github.com/bobtail-dev/bobtail/e2e/cluster/pki"
	"github.com/bobtail-dev/bobtail/e2e/cluster/proc"
	"github.com/bobtail-dev/bobtail/e2e/cluster/sriov"
)

// ShellCommand is the hidden subcommand that has a machine run a command.
const ShellCommand = "internal-shell"

// shell returns the command line that runs args on a machine that joined.
func (m *Manager) shell(n netns.Node, args []string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cp, err := m.live(controlPlane)
	return cp.Enter([]string{proc.Net}, append([]string{self, ShellCommand, n.IP}, args...)...), err
}

// machines names the processes that are whole machines.
func machines(c layout.Cluster) []string {
	var names []string
	for _, n := range c.Machines {
		names = append(names, "machine-"+n)
	}
	return names
}

// Join starts a command that is a machine of its own, such as an emulator, in the cluster's
// network, as a further node. The command finds in $NODE_DIR what makes a machine that node:
// root, a tree of files, and files.txt with lines of a file here and its path there. Its
// network is the tap device $NODE_TAP. It returns when the command runs, not when the node is Ready.
func (m *Manager) Join(images, command []string) error {
	return m.changing(func(c layout.Cluster) error {
		if c.DualStack {
			return errors.New("machines join clusters of IPv4 alone")
		}
		names := netns.NodeNames(len(c.Nodes) + len(c.Machines) + 1)
		if len(names) > netns.MaxNodes {
			return fmt.Errorf("a cluster has at most %d nodes", netns.MaxNodes)
		}
		plan := netns.Plan(names, false)
		n := plan[len(plan)-1]
		cause := "the command ended at once: its last words stand in the log"
		return m.step("a machine joins as "+config.NodeName(n.Name), m.State.Log("machine-"+n.Name), cause, func() error {
			if err := cgroup.Create(m.leaf(c, n.Name)); err != nil {
				return err
			}
			if err := m.machineFiles(c, plan, images); err != nil {
				return err
			}
			if err := m.machineNetwork(plan, len(c.Nodes)); err != nil {
				return err
			}
			c.Machines = append(c.Machines, n.Name)
			if err := m.State.WriteCluster(c); err != nil {
				return err
			}
			return m.startMachine(c, n, command)
		})
	})
}

func (m *Manager) startMachine(c layout.Cluster, n netns.Node, command []string) error {
	cp, err := m.live(controlPlane)
	if err != nil {
		return err
	}
	program, err := filepath.Abs(command[0])
	if err != nil {
		return err
	}
	env := append(m.env(c.Tools), "NODE_DIR="+m.State.Node(n.Name, "machine"), "NODE_TAP="+netns.Tap(n), "BOBTAIL_CACHE="+c.Tools.Cache)
	process := "machine-" + n.Name
	_, err = proc.Start(proc.Spec{
		Args: cp.Enter([]string{proc.Net}, append([]string{program}, command[1:]...)...), Env: env,
		PidFile: m.State.Pid(process), Log: m.State.Log(process), Cgroup: m.leaf(c, n.Name),
	})
	return err
}

// machineNetwork puts the last node of the plan on the bridge; the first is its way to Services.
func (m *Manager) machineNetwork(plan []netns.Node, nodes int) error {
	cp, err := m.live(controlPlane)
	if err != nil {
		return err
	}
	n := plan[len(plan)-1]
	if err := ipBatch(cp, netns.MachineBatch(n, plan[0].IP)); err != nil {
		return err
	}
	for _, other := range plan[:nodes] {
		holder, err := m.live("node-" + other.Name)
		if err != nil {
			return err
		}
		if err := ipBatch(holder, netns.WayToMachine(n, config.MachineCardNetwork)); err != nil {
			return err
		}
	}
	return nil
}

// machineFiles writes what makes a machine the last node of the plan.
func (m *Manager) machineFiles(c layout.Cluster, plan []netns.Node, images []string) error {
	n := plan[len(plan)-1]
	machine := config.Machine{Node: n, Server: insideURL, Gateway: plan[0].IP}
	root := func(path string) string { return m.State.Node(n.Name, "machine", "root", path) }
	for path, text := range machine.Files() {
		if err := put(root(path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := m.machinePKI(machine, root); err != nil {
		return err
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	files := machine.Programs(c.Tools.Path, runc, layout.CNIDir)
	for _, plugin := range []string{networks.Type, sriov.Type, whereabouts} {
		files[machine.OwnPlugin(plugin)] = m.State.CNI(plugin)
	}
	if err := m.machineImages(c, n, append([]string{m.State.Images("pause.tar")}, images...), root(config.ContainerdRoot)); err != nil {
		return fmt.Errorf("images of the machine: %w", err)
	}
	var lines []string
	for there, here := range files {
		lines = append(lines, here+" "+there+"\n")
	}
	slices.Sort(lines)
	return put(m.State.Node(n.Name, "machine", "files.txt"), []byte(strings.Join(lines, "")), 0o644)
}

// machineImages unpacks images into what is to be the machine's containerd folder: a runtime
// here does it in seconds, where one on an emulated machine takes a minute for each.
func (m *Manager) machineImages(c layout.Cluster, n netns.Node, tars []string, into string) error {
	dir := m.State.Node(n.Name, "machine", "unpacking")
	socket, process := filepath.Join(dir, "sock"), "unpacking-"+n.Name
	if err := put(filepath.Join(dir, "config.toml"), []byte(config.Unpacking(into, dir, socket)), 0o644); err != nil {
		return err
	}
	runtime, err := proc.Start(proc.Spec{
		Args: []string{c.Tools.Path("containerd"), "-c", filepath.Join(dir, "config.toml")}, Env: m.env(c.Tools),
		PidFile: m.State.Pid(process), Log: m.State.Log(process), Cgroup: m.leaf(c, n.Name),
	})
	if err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(10 * time.Second) }() // a second time, where it failed
	ctr := func(args ...string) error {
		_, err := proc.Run(m.env(c.Tools), "", append([]string{c.Tools.Path("ctr"), "--address", socket, "-n", "k8s.io"}, args...)...)
		return err
	}
	if err := poll(60*time.Second, 100*time.Millisecond, func() error { return ctr("version") }); err != nil {
		return err
	}
	for _, tar := range tars {
		abs, err := filepath.Abs(tar)
		if err != nil {
			return err
		}
		if err := ctr("images", "import", "--snapshotter", "overlayfs", abs); err != nil {
			return err
		}
	}
	return runtime.Stop(10 * time.Second)
}

func (m *Manager) machinePKI(machine config.Machine, root func(string) string) error {
	ca, err := pki.ReadCA(m.State.PKI, "ca")
	if err != nil {
		return err
	}
	pair, err := ca.Issue(kubeletSubject(machine.Node))
	if err != nil {
		return err
	}
	there := func(file string) string { return root(machine.PKI(file)) }
	if err := put(there("ca.crt"), ca.Cert, 0o644); err != nil {
		return err
	}
	if err := pair.Write(there, "kubelet"); err != nil {
		return err
	}
	if err := put(there("kubelet.kubeconfig"), pki.Kubeconfig(machine.Server, ca.Cert, pair), 0o600); err != nil {
		return err
	}
	for _, file := range []string{"networks.crt", "networks.key", "networks.kubeconfig"} {
		b, err := os.ReadFile(m.State.PKI(file))
		if err != nil {
			return err
		}
		if err := put(there(file), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func put(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, mode)
}
