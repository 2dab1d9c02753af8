// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/config"
	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
)

// Status is what `status` prints.
type Status struct {
	Processes  []ProcessStatus `json:"processes"`
	Nodes      []NodeStatus    `json:"nodes"`
	Server     string          `json:"server"`
	Kubeconfig string          `json:"kubeconfig"`
	Health     string          `json:"health"` // "ok" or what is wrong
}

// ProcessStatus is one long-running process.
type ProcessStatus struct {
	Name  string `json:"name"`
	Pid   int    `json:"pid"`
	Alive bool   `json:"alive"`
	Log   string `json:"log"`
}

// NodeStatus is one node. Cgroup2 is the folder that programs attach to: all
// daemons and pods of the node live below it.
type NodeStatus struct {
	Name    string `json:"name"`
	Ready   bool   `json:"ready"`
	IP      string `json:"ip"`
	PodCIDR string `json:"podCIDR"`
	Pid     int    `json:"namespacePid"`
	Cgroup2 string `json:"cgroup2"`
}

// Status gathers what can be known without changing anything.
func (m *Manager) Status() (Status, error) {
	c, err := m.State.ReadCluster()
	if err != nil {
		return Status{}, err
	}
	s := Status{Server: fmt.Sprintf("https://127.0.0.1:%d", c.APIPort), Kubeconfig: m.State.Kubeconfig(), Health: "ok"}
	for _, p := range processes(c.Nodes) {
		r, err := m.ref(p)
		if err != nil {
			return s, err
		}
		s.Processes = append(s.Processes, ProcessStatus{Name: p, Pid: r.Pid, Alive: r.Alive(), Log: m.State.Log(p)})
	}
	ready := map[string]bool{}
	if api, err := m.client(c); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		nodes, _ := api.Nodes(ctx) // Check below says what is wrong
		for _, n := range nodes {
			ready[n.Name] = n.Ready
		}
	}
	for _, n := range netns.Plan(c.Nodes, c.DualStack) {
		r, err := m.ref("node-" + n.Name)
		if err != nil {
			return s, err
		}
		name := config.NodeName(n.Name)
		s.Nodes = append(s.Nodes, NodeStatus{Name: name, Ready: ready[name], IP: n.IP, PodCIDR: n.PodCIDR, Pid: r.Pid, Cgroup2: m.State.Node2Cgroup(c, n.Name)})
	}
	if err := m.Check(c); err != nil {
		s.Health = err.Error()
	}
	return s, nil
}
