//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"context"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/suites/demo"
)

// cleanSlate removes what an earlier run left on a reused cluster, and notes what
// there is without us.
func cleanSlate(ctx context.Context, t *testing.T, s *suite) {
	if out, err := s.env.Helm(ctx, "list", "-n", harness.SystemNamespace, "-q"); err == nil && strings.Contains(out, "bobtail") {
		_, err := s.env.Kubectl(ctx, "delete", "namespace", namespace, "--ignore-not-found", "--wait=true")
		check(t, err)
		check(t, s.env.Uninstall(ctx))
	}
	forgetSwitches(ctx, s)
	_, err := s.env.Kubectl(ctx, "delete", "namespace", namespace, harness.SystemNamespace, "--ignore-not-found", "--wait=true")
	check(t, err)
	_, err = s.env.Kubectl(ctx, "delete", "crd", "-l", "app.kubernetes.io/part-of=bobtail", "--ignore-not-found", "--wait=true")
	check(t, err)
	s.before = objects(ctx, t, s)
}

// forgetSwitches takes the finalizers off switches that a broken-off run left: the
// operator that would is gone, and their kind could not be deleted.
func forgetSwitches(ctx context.Context, s *suite) {
	names, err := s.env.Kubectl(ctx, "get", "programmableswitches.bobtail.dev", "-o", "name")
	if err != nil {
		return // there is no such kind
	}
	for name := range strings.FieldsSeq(names) {
		_, _ = s.env.Kubectl(ctx, "patch", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	}
}

// install puts the committed 0.1.0 baseline on a clean cluster, so that the
// upgrade starts from what users have.
func install(ctx context.Context, t *testing.T, s *suite) {
	check(t, s.env.LoadImages(ctx))
	_, err := s.env.Helm(ctx, "upgrade", "--install", "bobtail", baseline(s),
		"--namespace", harness.SystemNamespace, "--create-namespace", "--set", "image.version="+s.env.Version, "--wait", "--timeout", "180s")
	check(t, err)
}

// upgrade replaces 0.1.0 while a service made by it answers requests.
func upgrade(ctx context.Context, t *testing.T, s *suite) {
	_, err := s.env.ApplyService(ctx, filepath.Join(s.env.Root, "examples", "demo.yaml"), namespace, service)
	check(t, err)
	patient(ctx, t, s)
	r := underLoad(ctx, t, s, steady("load-upgrade"), func(ctx context.Context) error {
		if err := s.env.Install(ctx); err != nil {
			return err
		}
		return s.env.WaitCondition(ctx, time.Minute, namespace, "rpcsvc", service, "Ready=True")
	})
	s.got.Set("rpcs_failed_chart_upgrade", r.Failed())
	if r.Failed() != 0 {
		t.Errorf("%d of %d requests failed during the upgrade of the chart; want 0: %s", r.Failed(), r.Sent, r.Failures())
	}
	out, err := s.env.Helm(ctx, "list", "-n", harness.SystemNamespace)
	check(t, err)
	chart, err := s.env.Helm(ctx, "show", "chart", filepath.Join(s.env.Root, "charts", "bobtail"))
	check(t, err)
	version := regexp.MustCompile(`(?m)^version: (\S+)$`).FindStringSubmatch(chart)
	if version == nil || !strings.Contains(out, "bobtail-"+version[1]) {
		t.Errorf("helm list does not show the version of the new chart, %v:\n%s", version, out)
	}
}

// demoPhases runs the demo itself: light, overload, light, both SLO verdicts asserted.
func demoPhases(ctx context.Context, t *testing.T, s *suite) {
	d := &demo.Demo{Env: s.env, Steps: s.steps, Got: s.got}
	check(t, d.Run(ctx))
}

func helmTest(ctx context.Context, t *testing.T, s *suite) {
	out, err := s.env.Helm(ctx, "test", "bobtail", "-n", harness.SystemNamespace, "--timeout", "120s")
	if err != nil {
		t.Fatalf("helm test: %v\n%s", err, out)
	}
}

// deleteService deletes the RpcService and its SLO and counts what stays.
func deleteService(ctx context.Context, t *testing.T, s *suite) {
	_, err := s.env.Kubectl(ctx, "-n", namespace, "delete", "rpcsvc,slo", "--all", "--wait=true")
	check(t, err)
	var left string
	_ = harness.Until(ctx, time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		left, err = s.env.Kubectl(ctx, "-n", namespace, "get", "all,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets",
			"-l", "bobtail.dev/service="+service, "-o", "name")
		return err == nil && strings.TrimSpace(left) == "", left, err
	})
	names := strings.Fields(left)
	s.got.Set("objects_left_after_delete", len(names))
	if len(names) > 0 {
		t.Errorf("objects of the deleted service remain: %s", strings.Join(names, " "))
	}
}

// uninstall removes chart and namespaces and compares the cluster with what it was.
func uninstall(ctx context.Context, t *testing.T, s *suite) {
	check(t, s.env.Uninstall(ctx))
	_, err := s.env.Kubectl(ctx, "delete", "namespace", namespace, harness.SystemNamespace, "--wait=true")
	check(t, err)
	var extra []string
	err = harness.Until(ctx, time.Minute, 2*time.Second, func(ctx context.Context) (bool, string, error) {
		extra = extra[:0]
		for name := range objects(ctx, t, s) {
			if !s.before[name] && !keptCRD(name) {
				extra = append(extra, name)
			}
		}
		sort.Strings(extra)
		return len(extra) == 0, strings.Join(extra, " "), nil
	})
	s.got.Set("objects_left_after_uninstall", len(extra))
	check(t, err)
	crds, err := s.env.Kubectl(ctx, "get", "crd", "-o", "name")
	check(t, err)
	if !strings.Contains(crds, "rpcservices.bobtail.dev") {
		t.Error("the CRDs must be kept on uninstall: users' objects would be lost")
	}
}

// keptCRD says whether that is one of the CRDs, which stay by policy, or the API
// that the API server registers for them by itself.
func keptCRD(name string) bool {
	kind, _, _ := strings.Cut(name, "/")
	return strings.HasSuffix(name, ".bobtail.dev") && (strings.HasPrefix(kind, "customresourcedefinition") || strings.HasPrefix(kind, "apiservice."))
}

// heartbeats are the kubelets' own: they appear seconds after their node.
const heartbeats = "Lease kube-node-lease "

// objects lists what the chart could leave behind, cluster-wide.
func objects(ctx context.Context, t *testing.T, s *suite) map[string]bool {
	t.Helper()
	out, err := s.env.Kubectl(ctx, "get", "namespaces,crd,clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,priorityclasses,apiservices", "-o", "name")
	check(t, err)
	all, err := s.env.Kubectl(ctx, "get", "all,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,leases",
		"--all-namespaces", "-o", "custom-columns=:kind,:metadata.namespace,:metadata.name", "--no-headers")
	check(t, err)
	set := map[string]bool{}
	for _, line := range strings.Split(out+"\n"+all, "\n") {
		if line = strings.Join(strings.Fields(line), " "); line != "" && !strings.HasPrefix(line, heartbeats) {
			set[line] = true
		}
	}
	return set
}
