// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/config"
	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
	"github.com/bobtail-dev/bobtail/e2e/cluster/pki"
	"github.com/bobtail-dev/bobtail/e2e/cluster/proc"
)

// startIn runs a component in the control plane's network namespace.
func (m *Manager) startIn(c layout.Cluster, process string, files []*os.File, args ...string) error {
	cp, err := m.live(controlPlane)
	if err != nil {
		return err
	}
	_, err = proc.Start(proc.Spec{
		Args: cp.Enter([]string{proc.Net}, args...), Env: m.env(c.Tools), Files: files,
		PidFile: m.State.Pid(process), Log: m.State.Log(process), Cgroup: m.leaf(c, controlPlane),
	})
	return err
}

// startControlPlane returns the cluster with the API server's port filled in.
func (m *Manager) startControlPlane(c layout.Cluster, self string) (layout.Cluster, error) {
	if err := m.startIn(c, "etcd", nil, append([]string{c.Tools.Path("etcd")}, config.Etcd(m.State.Etcd())...)...); err != nil {
		return c, err
	}
	if err := m.startAPIServer(c); err != nil {
		return c, err
	}
	port, err := m.startForwarder(c, self)
	if err != nil {
		return c, err
	}
	c.APIPort = port
	if err := m.State.WriteCluster(c); err != nil {
		return c, err
	}
	if err := m.writeKubeconfig(c); err != nil {
		return c, err
	}
	if err := m.waitAPI(c, 60*time.Second); err != nil {
		return c, err
	}
	return c, m.startControllers(c)
}

// controllers are the API server's clients in the control plane.
var controllers = []string{"controller-manager", "scheduler"}

func (m *Manager) startControllers(c layout.Cluster) error {
	cm := append([]string{c.Tools.Path("kube-controller-manager")}, config.ControllerManager(m.State.PKI, c.DualStack)...)
	if err := m.startIn(c, "controller-manager", nil, cm...); err != nil {
		return err
	}
	return m.startIn(c, "scheduler", nil, append([]string{c.Tools.Path("kube-scheduler")}, config.Scheduler(m.State.PKI)...)...)
}

func (m *Manager) startAPIServer(c layout.Cluster) error {
	return m.startIn(c, "apiserver", nil, append([]string{c.Tools.Path("kube-apiserver")}, config.APIServer(m.State.PKI, c.DualStack)...)...)
}

// startForwarder opens a port on the machine's loopback and hands the open
// socket to a process inside the control plane's namespace, which carries its
// connections to the API server. Nothing of the machine's network is changed.
func (m *Manager) startForwarder(c layout.Cluster, self string) (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	err = m.startIn(c, "forwarder", []*os.File{f}, self, ForwardCommand, netns.ControlPlaneIP+":6443")
	return l.Addr().(*net.TCPAddr).Port, err
}

// ForwardCommand is the hidden subcommand that the forwarder process runs; its
// listening socket is descriptor 3.
const ForwardCommand = "internal-forward"

func (m *Manager) writeKubeconfig(c layout.Cluster) error {
	var pair pki.Pair
	var ca []byte
	for name, into := range map[string]*[]byte{"ca.crt": &ca, "admin.crt": &pair.Cert, "admin.key": &pair.Key} {
		b, err := os.ReadFile(m.State.PKI(name))
		if err != nil {
			return err
		}
		*into = b
	}
	return os.WriteFile(m.State.Kubeconfig(), pki.Kubeconfig(fmt.Sprintf("https://127.0.0.1:%d", c.APIPort), ca, pair), 0o600)
}

func (m *Manager) waitAPI(c layout.Cluster, limit time.Duration) error {
	api, err := m.client(c)
	if err != nil {
		return err
	}
	return poll(limit, 100*time.Millisecond, func() error {
		if _, err := m.live("apiserver"); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return api.Ready(ctx)
	})
}

// StopAPIServer ends the API server only; etcd keeps the state.
func (m *Manager) StopAPIServer() error {
	return m.changing(func(layout.Cluster) error {
		r, err := m.ref("apiserver")
		if err != nil {
			return err
		}
		// No grace: an outage does not say good-bye.
		return r.Stop(0)
	})
}

// StartAPIServer starts it again and waits until it is ready. Its controllers start
// anew, as in production, where they end when they lose their leases; those that
// went on would sit out the pauses between their attempts, a minute in the end.
func (m *Manager) StartAPIServer() error {
	return m.changing(func(c layout.Cluster) error {
		if _, err := m.live("apiserver"); err == nil {
			return nil
		}
		return m.step("starting the API server", m.State.Log("apiserver"), "etcd ended meanwhile (etcd.log beside it)", func() error {
			if err := m.startAPIServer(c); err != nil {
				return err
			}
			if err := m.waitAPI(c, 60*time.Second); err != nil {
				return err
			}
			return m.restartControllers(c)
		})
	})
}

func (m *Manager) restartControllers(c layout.Cluster) error {
	for _, name := range controllers {
		r, err := m.ref(name)
		if err != nil {
			return err
		}
		if err := r.Stop(5 * time.Second); err != nil {
			return err
		}
	}
	return m.startControllers(c)
}
