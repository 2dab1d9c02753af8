// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/cluster/config"
	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/proc"
)

// ResolveCommand is the hidden subcommand that the pods of Prove run.
const ResolveCommand = "internal-resolve"

const proveNamespace = "bobtail-cluster-check"

// Prove runs one pod per node that resolves a name through the cluster DNS and
// connects to the API server through its Service, and waits for them to succeed.
func (m *Manager) Prove() error {
	c, err := m.State.ReadCluster()
	if err != nil {
		return err
	}
	defer func() {
		_, _ = m.kubectl(c, "", "delete", "namespace", proveNamespace, "--ignore-not-found", "--timeout=30s")
	}()
	return m.step("proving DNS and Services from every node", m.State.Log("kube-proxy-a"), "kube-proxy or CoreDNS is not working", func() error {
		if _, err := m.kubectl(c, proveManifest(c.Nodes), "apply", "-f", "-"); err != nil {
			return err
		}
		_, err := m.kubectl(c, "", "-n", proveNamespace, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod", "--all", "--timeout=60s")
		if err == nil {
			return nil
		}
		logs, _ := m.kubectl(c, "", "-n", proveNamespace, "logs", "-l", "bobtail-cluster=check", "--prefix")
		return fmt.Errorf("%w\n%s", err, logs)
	})
}

func (m *Manager) kubectl(c layout.Cluster, stdin string, args ...string) (string, error) {
	return proc.Run(m.env(c.Tools), stdin, append([]string{c.Tools.Path("kubectl"), "--kubeconfig", m.State.Kubeconfig()}, args...)...)
}

func proveManifest(nodes []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: v1
kind: Namespace
metadata: {name: %s}
`, proveNamespace)
	for _, n := range nodes {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Pod
metadata: {name: check-%[1]s, namespace: %[2]s, labels: {bobtail-cluster: check}}
spec:
  nodeName: %[3]s
  restartPolicy: Never
  automountServiceAccountToken: false
  containers:
  - name: check
    image: %[4]s
    imagePullPolicy: IfNotPresent
    args: [%[5]s, kubernetes.default.svc.cluster.local, "tcp://kubernetes.default.svc.cluster.local:443"]
    command: [/bobtail-cluster]
`, n, proveNamespace, config.NodeName(n), config.SandboxImage, ResolveCommand)
	}
	return b.String()
}
