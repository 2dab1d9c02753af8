// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	_ "embed" // for the node script
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/config"
	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
	"github.com/bobtail-dev/bobtail/e2e/cluster/proc"
)

//go:embed node.sh
var nodeScript string

// makeNamespaces starts one idle process per namespace set; while it lives, so
// do they. No names are put below /run/netns, because even the first use of
// that folder leaves a mount behind.
func (m *Manager) makeNamespaces(c layout.Cluster, plan []netns.Node) error {
	cp, err := proc.Start(proc.Spec{
		Args: []string{"sleep", "infinity"}, Env: m.env(c.Tools), Clone: syscall.CLONE_NEWNET,
		PidFile: m.State.Pid(controlPlane), Log: m.State.Log(controlPlane), Cgroup: m.leaf(c, controlPlane),
	})
	if err != nil {
		return err
	}
	if err := ipBatch(cp, netns.ControlPlaneBatch(c.DualStack)); err != nil {
		return err
	}
	for _, n := range plan {
		holder, err := m.startHolder(c, n)
		if err != nil {
			return err
		}
		if err := ipBatch(cp, netns.AttachBatch(n, holder.Pid)); err != nil {
			return err
		}
		if err := ipBatch(holder, netns.NodeBatch(n, plan)); err != nil {
			return err
		}
	}
	return eachNode(plan, m.holderReady)
}

func (m *Manager) startHolder(c layout.Cluster, n netns.Node) (proc.Ref, error) {
	conf := config.Whereabouts(m.State.PKI("networks.kubeconfig"))
	if err := os.WriteFile(m.State.Node(n.Name, "etc", "whereabouts.json"), []byte(conf), 0o644); err != nil {
		return proc.Ref{}, err
	}
	flag := map[bool]string{false: "0", true: "1"}
	env := append(m.env(c.Tools), "NODE_NAME="+config.NodeName(n.Name), "NODE_DIR="+m.State.Node(n.Name),
		"CGROUP="+m.State.CgroupName()+"/"+n.Name, "CGROUP_V1="+flag[c.CgroupV1], "DUAL_STACK="+flag[c.DualStack])
	return proc.Start(proc.Spec{
		Args: []string{"bash", "-c", nodeScript}, Env: env,
		Clone:   syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS,
		PidFile: m.State.Pid("node-" + n.Name), Log: m.State.Log("node-" + n.Name), Cgroup: m.leaf(c, n.Name),
	})
}

// holderReady waits for the script to have made the node's file tree.
func (m *Manager) holderReady(n netns.Node) error {
	return poll(20*time.Second, 10*time.Millisecond, func() error {
		if _, err := m.live("node-" + n.Name); err != nil {
			return err
		}
		_, err := os.Stat(m.State.Node(n.Name, "ready"))
		return err
	})
}

func ipBatch(r proc.Ref, batch string) error {
	_, err := proc.Run(nil, batch, r.Enter([]string{proc.Net}, "ip", "-batch", "-")...)
	return err
}

// mountCgroup2 serves machines that mount no version 2 hierarchy.
func mountCgroup2(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("cgroup2", dir, "cgroup2", 0, ""); err != nil {
		return fmt.Errorf("mount cgroup2 on %s: %w", filepath.Clean(dir), err)
	}
	return nil
}
