//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// goService runs a service written with the Go library, once behind C routers
// and once without any, and asks each from a pod with the Go client.
func goService(ctx context.Context, t *testing.T, s *suite) {
	_, err := s.env.Cluster(ctx, "load-image", filepath.Join(s.env.Root, "build", "images", "example.tar"))
	check(t, err)
	for _, c := range []struct{ name, placement, target string }{
		{"upper", "Software", "upper"},
		{"direct", "None", "direct-servers"},
	} {
		t.Run(c.placement, func(t *testing.T) {
			check(t, s.env.Apply(ctx, goManifest(c.name, c.placement, s.env.Version)))
			check(t, s.env.WaitCondition(ctx, 90*time.Second, namespace, "rpcsvc", c.name, "Ready=True"))
			if got := ask(ctx, t, s, c.name, c.target, "short tails"); !strings.Contains(got, "SHORT TAILS") {
				t.Errorf("the service answered %q; want SHORT TAILS", got)
			}
			_, err := s.env.Kubectl(ctx, "-n", namespace, "delete", "rpcsvc", c.name, "--wait=true")
			check(t, err)
		})
	}
}

func goManifest(name, placement, version string) string {
	return fmt.Sprintf(`apiVersion: bobtail.dev/v1alpha1
kind: RpcService
metadata: {name: %s, namespace: %s}
spec:
  replicas: 1
  workersPerReplica: 2
  server: {image: "localhost/bobtail/example:%s", resources: {requests: {cpu: 10m}}}
  router: {placement: %s}
`, name, namespace, version, placement)
}

// ask runs the example's client in a pod and returns what it printed.
func ask(ctx context.Context, t *testing.T, s *suite, name, host, words string) string {
	t.Helper()
	job := harness.Load{Namespace: namespace, Name: "ask-" + name}
	_, err := s.env.Kubectl(ctx, "-n", namespace, "delete", "pod", job.Name, "--ignore-not-found", "--wait=true")
	check(t, err)
	check(t, s.env.Apply(ctx, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: ask
      image: localhost/bobtail/example:%s
      args: [call, "--target=%s.%s.svc.cluster.local:8000", %q]
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
`, job.Name, namespace, s.env.Version, host, namespace, words)))
	err = harness.Until(ctx, time.Minute, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		phase, err := s.env.Kubectl(ctx, "-n", namespace, "get", "pod", job.Name, "-o", "jsonpath={.status.phase}")
		return phase == "Succeeded" || phase == "Failed", "pod is " + phase, err
	})
	check(t, err)
	out, err := s.env.Kubectl(ctx, "-n", namespace, "logs", job.Name)
	check(t, err)
	_, err = s.env.Kubectl(ctx, "-n", namespace, "delete", "pod", job.Name, "--wait=false")
	check(t, err)
	return out
}
