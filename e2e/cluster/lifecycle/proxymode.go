// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/config"
	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
	"github.com/bobtail-dev/bobtail/e2e/cluster/proc"
)

func (m *Manager) startKubeProxy(c layout.Cluster, node string) error {
	return m.startOn(c, node, "kube-proxy", c.Tools.Path("kube-proxy"), "--config", m.State.Node(node, "etc", "kube-proxy.json"))
}

// SetProxyMode lets every node's kube-proxy go on in another mode: it ends, its rules are taken away, and one of that
// mode is started and waited for.
func (m *Manager) SetProxyMode(mode string) error {
	if !slices.Contains(config.ProxyModes, mode) {
		return fmt.Errorf("kube-proxy has no mode %q here: give one of %s", mode, strings.Join(config.ProxyModes, ", "))
	}
	return m.changing(func(c layout.Cluster) error {
		for _, n := range netns.Plan(c.Nodes, c.DualStack) {
			err := m.step("kube-proxy of "+config.NodeName(n.Name)+" in mode "+mode, m.State.Log("kube-proxy-"+n.Name), "the mode's tools are missing (iptables, nft)", func() error {
				return m.setProxyMode(c, n, mode)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *Manager) setProxyMode(c layout.Cluster, n netns.Node, mode string) error {
	holder, err := m.live("node-" + n.Name)
	if err != nil {
		return err
	}
	r, err := m.ref("kube-proxy-" + n.Name)
	if err != nil {
		return err
	}
	if err := r.Stop(5 * time.Second); err != nil {
		return err
	}
	file := m.State.Node(n.Name, "etc", "kube-proxy.json")
	if _, err := proc.Run(m.env(c.Tools), "", holder.Enter(inNode, c.Tools.Path("kube-proxy"), "--config", file, "--cleanup")...); err != nil {
		return fmt.Errorf("its rules are not taken away: %w", err)
	}
	cfg, err := m.nodeConfig(c, n)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(config.KubeProxy(cfg, mode)), 0o644); err != nil {
		return err
	}
	if err := m.startKubeProxy(c, n.Name); err != nil {
		return err
	}
	return poll(30*time.Second, 100*time.Millisecond, func() error { return m.proxyRules(c, n.Name, holder, mode) })
}

// proxyRules is nil once kube-proxy has written rules of a mode, for the cluster's DNS among others.
func (m *Manager) proxyRules(c layout.Cluster, node string, holder proc.Ref, mode string) error {
	if _, err := m.live("kube-proxy-" + node); err != nil {
		return err
	}
	list := map[string][]string{"nftables": {"nft", "list", "table", "ip", "kube-proxy"}, "iptables": {"iptables-save", "-t", "nat"}}[mode]
	rules, err := proc.Run(m.env(c.Tools), "", holder.Enter(inNode, list...)...)
	if err == nil && !strings.Contains(rules, netns.DNSServiceIP) {
		err = fmt.Errorf("no rule for %s yet", netns.DNSServiceIP)
	}
	return err
}
