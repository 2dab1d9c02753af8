// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"os"

	"github.com/bobtail-dev/bobtail/e2e/cluster/config"
	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
	"github.com/bobtail-dev/bobtail/e2e/cluster/pki"
)

const insideURL = "https://" + netns.ControlPlaneIP + ":6443"

// makePKI writes the authority, every component's certificate, and the
// kubeconfigs of those that work inside the cluster's network.
func (m *Manager) makePKI(plan []netns.Node) error {
	ca, err := pki.NewCA("bobtail-embedded-cluster")
	if err != nil {
		return err
	}
	if err := ca.Write(m.State.PKI, "ca"); err != nil {
		return err
	}
	sa, err := pki.ServiceAccountKey()
	if err != nil {
		return err
	}
	if err := sa.Write(m.State.PKI, "sa"); err != nil {
		return err
	}
	for name, subject := range subjects(plan) {
		pair, err := ca.Issue(subject)
		if err != nil {
			return fmt.Errorf("certificate %s: %w", name, err)
		}
		if err := pair.Write(m.State.PKI, name); err != nil {
			return err
		}
		if err := os.WriteFile(m.State.PKI(name+".kubeconfig"), pki.Kubeconfig(insideURL, ca.Cert, pair), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// subjects maps a certificate's file name to whom it names.
func subjects(plan []netns.Node) map[string]pki.Subject {
	s := map[string]pki.Subject{
		"apiserver": {
			User: "kube-apiserver",
			DNS:  []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			IPs:  []string{"127.0.0.1", netns.APIServiceIP, netns.ControlPlaneIP},
		},
		"admin":              {User: "admin", Groups: []string{"system:masters"}},
		"kubelet-client":     {User: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
		"controller-manager": {User: "system:kube-controller-manager"},
		"scheduler":          {User: "system:kube-scheduler"},
		"kube-proxy":         {User: "system:kube-proxy"},
		"networks":           {User: config.NetworksUser},
	}
	for _, n := range plan {
		s["kubelet-"+n.Name] = kubeletSubject(n)
	}
	return s
}

func kubeletSubject(n netns.Node) pki.Subject {
	name := config.NodeName(n.Name)
	return pki.Subject{User: "system:node:" + name, Groups: []string{"system:nodes"}, DNS: []string{name}, IPs: []string{n.IP}}
}
