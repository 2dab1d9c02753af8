// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/config"
	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
)

func (m *Manager) runKubelet(c layout.Cluster, n netns.Node) error {
	return m.startOn(c, n.Name, "kubelet", c.Tools.Path("kubelet"),
		"--config", m.State.Node(n.Name, "etc", "kubelet.json"), "--kubeconfig", m.State.PKI("kubelet-"+n.Name+".kubeconfig"),
		"--hostname-override", config.NodeName(n.Name), "--node-ip", config.NodeIPs(n), "--v=2")
}

// RestartKubelet ends a node's kubelet without a good-bye and starts it again. Its pods run on meanwhile.
func (m *Manager) RestartKubelet(node string) error {
	return m.changing(func(c layout.Cluster) error {
		short := strings.TrimPrefix(node, "node-")
		for _, n := range netns.Plan(c.Nodes, c.DualStack) {
			if n.Name == short {
				return m.restartKubelet(c, n)
			}
		}
		return fmt.Errorf("no node %q: there are %s", node, strings.Join(c.Nodes, ", "))
	})
}

func (m *Manager) restartKubelet(c layout.Cluster, n netns.Node) error {
	process := "kubelet-" + n.Name
	return m.step("restarting the kubelet of "+config.NodeName(n.Name), m.State.Log(process), "its configuration was changed", func() error {
		r, err := m.ref(process)
		if err != nil {
			return err
		}
		if err := r.Stop(0); err != nil {
			return err
		}
		if err := m.runKubelet(c, n); err != nil {
			return err
		}
		return poll(30*time.Second, 100*time.Millisecond, func() error {
			_, err := m.live(process)
			return err
		})
	})
}
