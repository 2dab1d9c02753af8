// SPDX-License-Identifier: Apache-2.0

// Package lifecycle starts, checks and ends an embedded cluster. It owns the
// order of steps; how each component is configured, named or killed lives in
// the packages beside it.
package lifecycle

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/apiclient"
	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/leftovers"
	"github.com/bobtail-dev/bobtail/e2e/cluster/proc"
)

// Manager works on the cluster of one state folder.
type Manager struct {
	State layout.State
	Out   io.Writer // progress
}

// lock keeps two commands from changing the same cluster at once.
func (m *Manager) lock() (func(), error) {
	if err := os.MkdirAll(m.State.Root, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(m.State.Lock(), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		m.say("another bobtail-cluster works on %s, waiting for it", m.State.Root)
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return func() { _ = f.Close() }, nil
}

// changing works on the cluster that there is, while no other command does.
func (m *Manager) changing(do func(layout.Cluster) error) error {
	c, err := m.State.ReadCluster()
	if err != nil {
		return err
	}
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return do(c)
}

// CheckRoot refuses early, before anything was changed.
func CheckRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("this needs root on Linux (namespaces, mounts, cgroups): run it with sudo -E; nothing was changed")
	}
	return nil
}

// checkTools refuses early, naming everything that is missing.
func checkTools(t layout.Tools) error {
	if missing := t.Missing(); len(missing) > 0 {
		return fmt.Errorf("missing: %s\n  run hack/deps/install --only=cluster first (or make deps)", strings.Join(missing, ", "))
	}
	return nil
}

// checkSelf makes sure that this program can be the only file of an image: it
// becomes the pod sandbox.
func checkSelf() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := elf.Open(self)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s is dynamically linked: build it with CGO_ENABLED=0", filepath.Base(self))
		}
	}
	return self, nil
}

func (m *Manager) client(c layout.Cluster) (*apiclient.Client, error) {
	var pem [3][]byte
	for i, name := range []string{"ca.crt", "admin.crt", "admin.key"} {
		b, err := os.ReadFile(m.State.PKI(name))
		if err != nil {
			return nil, err
		}
		pem[i] = b
	}
	return apiclient.New(fmt.Sprintf("https://127.0.0.1:%d", c.APIPort), pem[0], pem[1], pem[2])
}

// processes names every long-running process, in the order in which they end.
func processes(nodes []string) []string {
	var names []string
	for _, n := range nodes {
		names = append(names, "kubelet-"+n, "kube-proxy-"+n)
	}
	names = append(names, "scheduler", "controller-manager", "forwarder", "apiserver", "etcd")
	for _, n := range nodes {
		names = append(names, "containerd-"+n)
	}
	for _, n := range nodes {
		names = append(names, "node-"+n)
	}
	return append(names, "control-plane")
}

func (m *Manager) ref(process string) (proc.Ref, error) { return proc.Read(m.State.Pid(process)) }

// live returns the process or says that it ended.
func (m *Manager) live(process string) (proc.Ref, error) {
	r, err := m.ref(process)
	if err != nil {
		return r, err
	}
	if !r.Alive() {
		return r, fmt.Errorf("%s is not running, see %s", process, m.State.Log(process))
	}
	return r, nil
}

// env is the environment of every process of the cluster. The mark names the
// cluster, so that a stray process can be told from other people's.
func (m *Manager) env(t layout.Tools) []string {
	return []string{"PATH=" + t.SearchPath(), "HOME=/root", "LANG=C.UTF-8", leftovers.Mark + "=" + m.State.Root}
}

// Check returns nil when every process lives, the API server is ready, all
// nodes are Ready and the cluster DNS answers probes.
func (m *Manager) Check(c layout.Cluster) error {
	for _, p := range processes(c.Nodes) {
		if _, err := m.live(p); err != nil {
			return err
		}
	}
	api, err := m.client(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := api.Ready(ctx); err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	if err := nodesReady(ctx, api, len(c.Nodes)); err != nil {
		return err
	}
	return dnsAvailable(ctx, api)
}

func nodesReady(ctx context.Context, api *apiclient.Client, want int) error {
	nodes, err := api.Nodes(ctx)
	if err != nil {
		return err
	}
	ready := 0
	for _, n := range nodes {
		if n.Ready {
			ready++
		} else {
			err = fmt.Errorf("%s: %s", n.Name, n.Message)
		}
	}
	if ready < want {
		return errors.Join(fmt.Errorf("%d of %d nodes are Ready", ready, want), err)
	}
	return nil
}

func dnsAvailable(ctx context.Context, api *apiclient.Client) error {
	n, err := api.Available(ctx, "kube-system", "coredns")
	if err == nil && n == 0 {
		err = errors.New("no coredns pod is available yet")
	}
	return err
}
