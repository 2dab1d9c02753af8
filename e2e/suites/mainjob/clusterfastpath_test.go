//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// held is a namespace whose owner admits no capabilities: by the label of Pod
// Security at first, then by a policy that no label tells of.
const held = "bobtail-held"

const enforce = "pod-security.kubernetes.io/enforce"

// clusterFastPath lets the cluster choose the fast path for a service that says
// nothing of it. It serves in each of these namespaces, and with the fast path in the
// one that admits it; on the way from one to the next nothing fails.
func clusterFastPath(ctx context.Context, t *testing.T, s *suite) {
	check(t, s.env.Apply(ctx, heldManifest(s.env.Version)))
	defer release(ctx, t, s)
	check(t, choose(ctx, s, "Auto"))
	check(t, heldBack(ctx, s, enforce+"=baseline"))
	job := steady("load-cluster-fast-path")
	job.Target = quick + "." + held + ".svc.cluster.local:8000"
	r := underLoad(ctx, t, s, job, func(ctx context.Context) error {
		if _, err := s.env.Kubectl(ctx, "label", "--overwrite", "namespace", held, enforce+"=privileged"); err != nil {
			return err
		}
		if err := heldBack(ctx, s, "denied request"); err != nil {
			return err
		}
		return admitted(ctx, s)
	})
	s.got.Set("rpcs_failed_cluster_fast_path", r.Failed())
	if r.Failed() != 0 || r.Sent < 10000 {
		t.Errorf("%d of %d requests failed while a namespace refused the fast path, admitted it and the cluster turned it off; want 0 of at least 10000: %s", r.Failed(), r.Sent, r.Failures())
	}
	check(t, s.env.WaitCondition(ctx, time.Minute, namespace, "rpcsvc", service, "Ready=True"))
}

// admitted lets the namespace admit it, and the cluster take it back.
func admitted(ctx context.Context, s *suite) error {
	if err := admit(ctx, s); err != nil {
		return err
	}
	if err := waitFastPath(ctx, s, held, "Active", "Cluster"); err != nil {
		return err
	}
	if err := choose(ctx, s, "Off"); err != nil {
		return err
	}
	if err := waitFastPath(ctx, s, held, ""); err != nil {
		return err
	}
	return s.env.WaitCondition(ctx, time.Minute, held, "rpcsvc", quick, "Ready=True")
}

// choose is what the owner of the platform does. Without a value Helm would keep that
// of the last time.
func choose(ctx context.Context, s *suite, mode string) error {
	return s.env.Install(ctx, "--set", "routers.fastPath="+mode)
}

// heldBack waits until the service serves without it and says why.
func heldBack(ctx context.Context, s *suite, why string) error {
	if err := waitFastPath(ctx, s, held, "Inactive", "PodSecurity", "Cluster", why); err != nil {
		return err
	}
	return s.env.WaitCondition(ctx, 90*time.Second, held, "rpcsvc", quick, "Ready=True")
}

// admit removes the policy, waits until it is out of force, and the label.
func admit(ctx context.Context, s *suite) error {
	if _, err := s.env.Kubectl(ctx, "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", held); err != nil {
		return err
	}
	err := harness.Until(ctx, 30*time.Second, time.Second, func(ctx context.Context) (bool, string, error) {
		out, err := s.env.Kubectl(ctx, "-n", held, "run", "try", "--image=none", "--dry-run=server", "--overrides",
			`{"spec":{"containers":[{"name":"try","image":"none","securityContext":{"capabilities":{"add":["NET_ADMIN"]}}}]}}`)
		return err == nil, "the policy is still in force: " + out, nil
	})
	if err != nil {
		return err
	}
	_, err = s.env.Kubectl(ctx, "label", "namespace", held, enforce+"-")
	return err
}

// release takes everything back, whatever has been reached.
func release(ctx context.Context, t *testing.T, s *suite) {
	if err := choose(ctx, s, "Off"); err != nil {
		t.Error(err)
	}
	if out, err := s.env.Kubectl(ctx, "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", held, "--ignore-not-found"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := s.env.Kubectl(ctx, "delete", "namespace", held, "--wait=true"); err != nil {
		t.Error(err)
	}
}

func heldManifest(version string) string {
	quiet := strings.Replace(quickManifest(version), "namespace: "+namespace, "namespace: "+held, 1)
	return fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: %[1]s, labels: {%[2]s: baseline}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
    - expression: "!object.spec.containers.exists(c, c.?securityContext.?capabilities.?add.orValue([]).exists(a, a == 'NET_ADMIN'))"
      message: no pod of this namespace may have NET_ADMIN
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}
---
%[3]s`, held, enforce, strings.Replace(quiet, "fastPath: Auto, ", "", 1))
}
