// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/cgroup"
	"github.com/bobtail-dev/bobtail/e2e/cluster/config"
	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/leftovers"
	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
	"github.com/bobtail-dev/bobtail/e2e/cluster/proc"
)

// Wanted is the cluster that is asked for.
type Wanted struct {
	Nodes int
	// DualStack: of IPv4 and IPv6.
	DualStack bool
	// StaticCPUs: containers can have processors for themselves. Each node then offers
	// all of the machine's but one, and together they offer more than there is.
	StaticCPUs bool
}

// Up starts a cluster, or checks the one that is running already.
func (m *Manager) Up(w Wanted) error {
	if err := CheckRoot(); err != nil {
		return err
	}
	if w.Nodes < 1 || w.Nodes > netns.MaxNodes {
		return fmt.Errorf("--nodes=%d: must be 1..%d", w.Nodes, netns.MaxNodes)
	}
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	done, err := m.reuse(w)
	if done || err != nil {
		return err
	}
	start := time.Now()
	c, self, err := m.prepare(w)
	if err != nil {
		return err
	}
	if err := m.start(c, self); err != nil {
		return fmt.Errorf("%w\n  what was started is left running for inspection; bobtail-cluster down removes it", err)
	}
	m.say("up with %d nodes in %.1f s; kubeconfig %s", w.Nodes, time.Since(start).Seconds(), m.State.Kubeconfig())
	return nil
}

// reuse checks a cluster that is already there. A broken one is taken down: a
// half-living cluster gives confusing test results.
func (m *Manager) reuse(w Wanted) (bool, error) {
	c, err := m.State.ReadCluster()
	if errors.Is(err, layout.ErrNoCluster) {
		return false, nil
	}
	if err == nil {
		if err = m.Check(c); err == nil {
			if err := w.is(c); err != nil {
				return false, err
			}
			m.say("already up and healthy: %d nodes Ready, DNS available", w.Nodes)
			return true, nil
		}
	}
	m.say("the cluster found here is not healthy (%v): taking it down first", err)
	_, err = m.down()
	return false, err
}

// is says what of a healthy cluster is not as it is wanted.
func (w Wanted) is(c layout.Cluster) error {
	switch {
	case len(c.Nodes) != w.Nodes:
		return fmt.Errorf("a healthy cluster with %d nodes is running; for %d nodes run bobtail-cluster down first", len(c.Nodes), w.Nodes)
	case w.DualStack && !c.DualStack:
		return errors.New("a healthy cluster of IPv4 alone is running; for --dual-stack run bobtail-cluster down first")
	case w.StaticCPUs != c.StaticCPUs:
		return errors.New("a healthy cluster with another CPU manager is running; for this --static-cpus run bobtail-cluster down first")
	}
	return nil
}

// prepare checks what is needed, records what is there, and makes the folders.
func (m *Manager) prepare(w Wanted) (layout.Cluster, string, error) {
	var c layout.Cluster
	versions, err := layout.FindVersions()
	if err != nil {
		return c, "", err
	}
	cache, err := layout.CacheDir()
	if err != nil {
		return c, "", err
	}
	c = layout.Cluster{Nodes: netns.NodeNames(w.Nodes), DualStack: w.DualStack, StaticCPUs: w.StaticCPUs, Tools: layout.Tools{Cache: cache, Versions: versions}}
	if err := checkTools(c.Tools); err != nil {
		return c, "", err
	}
	self, err := checkSelf()
	if err != nil {
		return c, "", err
	}
	if err := needKernel(); err != nil {
		return c, "", err
	}
	if err := m.snapshotBefore(); err != nil {
		return c, "", err
	}
	if err := m.makeFolders(c.Nodes); err != nil {
		return c, "", err
	}
	c, err = m.makeCgroups(c)
	if err != nil {
		return c, "", err
	}
	return c, self, m.State.WriteCluster(c)
}

// snapshotBefore keeps an older snapshot when an earlier start was interrupted:
// that one is the state to come back to.
func (m *Manager) snapshotBefore() error {
	if _, err := os.Stat(m.State.Before()); err == nil {
		return nil
	}
	snap, err := leftovers.Take(m.State)
	if err != nil {
		return fmt.Errorf("record the machine's state: %w", err)
	}
	return snap.Write(m.State.Before())
}

func (m *Manager) makeFolders(nodes []string) error {
	if err := os.RemoveAll(m.State.LogDir()); err != nil {
		return err
	}
	dirs := []string{m.State.PKI(""), m.State.RunDir(), m.State.LogDir(), m.State.Images(""), m.State.CNI("")}
	for _, n := range nodes {
		dirs = append(dirs, m.State.Node(n, "etc"), m.State.Node(n, "net.d"))
	}
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// makeCgroups creates one cgroup2 folder per node and one for the control
// plane. Processes live in leaves, which version 2 demands of any folder whose
// controllers are handed on.
func (m *Manager) makeCgroups(c layout.Cluster) (layout.Cluster, error) {
	mounts, err := cgroup.Find()
	if err != nil {
		return c, err
	}
	c.CgroupV1, c.Cgroup2 = mounts.Hybrid(), mounts.V2
	if c.Cgroup2 == "" {
		c.Cgroup2, c.MountedC2 = filepath.Join(m.State.Root, "cgroup2"), true
		if err := mountCgroup2(c.Cgroup2); err != nil {
			return c, err
		}
	}
	for _, n := range append([]string{controlPlane}, c.Nodes...) {
		if err := cgroup.Create(m.leaf(c, n)); err != nil {
			return c, err
		}
	}
	return c, nil
}

const controlPlane = "control-plane"

// leaf is where the daemons of a node, and by inheritance its pods, are born.
func (m *Manager) leaf(c layout.Cluster, node string) string {
	return filepath.Join(m.State.Node2Cgroup(c, node), "system")
}

// start brings everything up, in the order in which the parts need each other.
func (m *Manager) start(c layout.Cluster, self string) error {
	plan := netns.Plan(c.Nodes, c.DualStack)
	c, err := m.startCore(c, plan, self)
	if err != nil {
		return err
	}
	err = m.step("joining the nodes", m.State.Log("kubelet-a"), "a component of the node ended at once", func() error {
		return eachNode(plan, func(n netns.Node) error { return m.startKubelet(c, n) })
	})
	if err != nil {
		return err
	}
	err = m.step("installing the cluster DNS", m.State.Log("apiserver"), "the API server refuses the manifests", func() error {
		return m.apply(c, config.CoreDNS(c.Tools.Versions["coredns"])+"\n---\n"+config.Networks)
	})
	if err != nil {
		return err
	}
	return m.step("waiting for nodes Ready and DNS available", m.State.Log("kubelet-a"),
		"the machine is very busy, or containers cannot start (containerd-a.log beside it)", func() error {
			return m.waitReady(c)
		})
}

// startCore makes namespaces and network, then starts the control plane and
// the nodes' container runtimes side by side: neither needs the other.
func (m *Manager) startCore(c layout.Cluster, plan []netns.Node, self string) (layout.Cluster, error) {
	err := m.step("making certificates", "", "", func() error { return m.makePKI(plan) })
	if err != nil {
		return c, err
	}
	err = m.step("creating namespaces and network", m.State.Log("node-a"), "the kernel lacks namespaces, veth or bridge, or root is confined", func() error {
		return m.makeNamespaces(c, plan)
	})
	if err != nil {
		return c, err
	}
	var runtimes error
	var side sync.WaitGroup
	side.Add(1)
	go func() {
		defer side.Done()
		runtimes = m.step("starting containerd, importing base images", m.State.Log("containerd-a"), "overlayfs is not possible in the state folder's file system", func() error {
			if err := errors.Join(m.packBaseImages(c, self), m.installPlugins(c, self)); err != nil {
				return err
			}
			return eachNode(plan, func(n netns.Node) error { return m.startContainerd(c, n) })
		})
	}()
	control := m.step("starting etcd and the control plane", m.State.Log("apiserver"), "etcd could not start (etcd.log beside it), or the machine is very busy", func() error {
		var err error
		c, err = m.startControlPlane(c, self)
		return err
	})
	side.Wait()
	return c, errors.Join(control, runtimes)
}

func (m *Manager) apply(c layout.Cluster, manifests string) error {
	args := []string{c.Tools.Path("kubectl"), "--kubeconfig", m.State.Kubeconfig(), "apply", "--server-side", "-f", "-"}
	_, err := proc.Run(m.env(c.Tools), manifests, args...)
	return err
}

func (m *Manager) waitReady(c layout.Cluster) error {
	api, err := m.client(c)
	if err != nil {
		return err
	}
	return poll(3*time.Minute, 200*time.Millisecond, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := nodesReady(ctx, api, len(c.Nodes)); err != nil {
			return err
		}
		return dnsAvailable(ctx, api)
	})
}

// eachNode runs f for all nodes at once and joins the failures.
func eachNode(plan []netns.Node, f func(netns.Node) error) error {
	errs := make([]error, len(plan))
	var all sync.WaitGroup
	for i, n := range plan {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := f(n); err != nil {
				errs[i] = fmt.Errorf("node %s: %w", n.Name, err)
			}
		}()
	}
	all.Wait()
	return errors.Join(errs...)
}
