//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// made is every object that the operator makes for the service, as kubectl names it, in
// the order in which they are deleted. The keys come last: a new one takes 4 minutes to
// reach every pod.
var made = []string{
	"service/" + service, "service/" + service + "-servers", "networkpolicy/" + service + "-router", "networkpolicy/" + service + "-server",
	"poddisruptionbudget/" + service + "-router", "poddisruptionbudget/" + service + "-server", "role/" + service + "-sidecar", "rolebinding/" + service + "-sidecar",
	"configmap/" + service + "-dataplane", "secret/" + service + "-tls", "deployment/" + service + "-server", "deployment/" + service + "-router",
	"serviceaccount/" + service + "-sidecar",
}

// pairs are those whose loss is worse together than one after the other.
var pairs = [][]string{
	{"rolebinding/" + service + "-sidecar", "configmap/" + service + "-dataplane"},
	{"serviceaccount/" + service + "-sidecar", "deployment/" + service + "-router"},
	{"serviceaccount/" + service + "-sidecar", "secret/" + service + "-keys"},
}

// deletedByHand deletes them under load, one by one and in pairs (K-28). Deployments are
// deleted without their pods: whoever deletes all routers at once has none.
func deletedByHand(ctx context.Context, t *testing.T, s *suite) {
	job := steady("load-deleted")
	job.Duration = 20 * time.Minute
	var unrepaired []string
	check(t, s.allListed(ctx))
	r := underLoad(ctx, t, s, job, func(ctx context.Context) error {
		for _, o := range made {
			unrepaired = append(unrepaired, s.deleted(ctx, o)...)
		}
		for _, pair := range pairs {
			unrepaired = append(unrepaired, s.deleted(ctx, pair...)...)
		}
		return nil
	})
	s.got.Set("objects_deleted_by_hand_unrepaired", len(unrepaired))
	s.got.Set("rpcs_failed_objects_deleted", r.Failed())
	s.got.Set("rpcs_sent_objects_deleted", r.Sent)
	if len(unrepaired) > 0 {
		t.Errorf("not repaired without a person: %s", strings.Join(unrepaired, "; "))
	}
	if r.Failed() > 10 || r.Sent < 10000 {
		t.Errorf("%d of %d requests failed while objects were deleted; want at most 10 of at least 10000: %s", r.Failed(), r.Sent, r.Failures())
	}
}

// allListed fails where the operator makes an object that nobody deletes here.
func (s *suite) allListed(ctx context.Context) error {
	out, err := s.env.Kubectl(ctx, "-n", namespace, "get", "serviceaccounts,roles,rolebindings,services,endpointslices,networkpolicies,poddisruptionbudgets,configmaps,secrets,deployments",
		"-o", `jsonpath={range .items[?(@.metadata.ownerReferences[0].kind=="RpcService")]}{.kind}/{.metadata.name}{"\n"}{end}`)
	if err != nil {
		return err
	}
	listed := slices.Concat(append(slices.Clone(pairs), made)...)
	owned := strings.Fields(strings.ToLower(out))
	if len(owned) < len(made) {
		return fmt.Errorf("%d objects of the service, %d listed: %v", len(owned), len(made), owned)
	}
	for _, o := range owned {
		if !slices.Contains(listed, o) {
			return fmt.Errorf("the operator makes %s, and nobody deletes it here", o)
		}
	}
	return nil
}

// deleted deletes objects and says which are not back, and whether the service is not
// whole again, after a time in which they should be.
func (s *suite) deleted(ctx context.Context, objects ...string) (unrepaired []string) {
	before := map[string]string{}
	for _, o := range objects {
		before[o] = s.uid(ctx, o)
	}
	args := []string{"-n", namespace, "delete", "--wait=false", "--cascade=background"}
	if slices.ContainsFunc(objects, func(o string) bool { return strings.HasPrefix(o, "deployment/") }) {
		args[len(args)-1] = "--cascade=orphan"
	}
	if out, err := s.env.Kubectl(ctx, append(args, objects...)...); err != nil {
		return []string{fmt.Sprintf("delete %v: %s %v", objects, out, err)}
	}
	limit := time.Now().Add(time.Minute)
	for _, o := range objects {
		for before[o] == "" || s.uid(ctx, o) == "" || s.uid(ctx, o) == before[o] {
			if time.Now().After(limit) {
				unrepaired = append(unrepaired, o)
				break
			}
			time.Sleep(time.Second)
		}
	}
	// A rollout of all pods, or 4 minutes until a new key has reached them.
	time.Sleep(3 * time.Second) // the status is written after the objects
	replaced := func(ctx context.Context) (bool, string, error) {
		old := s.strangers(ctx)
		return len(old) == 0, strings.Join(old, ", "), nil
	}
	if err := harness.Until(ctx, whole, time.Second, replaced); err != nil {
		unrepaired = append(unrepaired, fmt.Sprintf("%v: %v", objects, err))
	}
	for _, wanted := range []string{"Programmed=True", "Ready=True"} {
		if err := s.env.WaitCondition(ctx, whole, namespace, "rpcsvc", service, wanted); err != nil {
			unrepaired = append(unrepaired, fmt.Sprintf("%v: not %s: %v", objects, wanted, err))
		}
	}
	return unrepaired
}

// whole is how long a service may take to be whole again.
const whole = 6 * time.Minute

// uid of an object, empty when it is not there.
func (s *suite) uid(ctx context.Context, object string) string {
	out, err := s.env.Kubectl(ctx, "-n", namespace, "get", object, "-o", "jsonpath={.metadata.uid}", "--ignore-not-found")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// strangers are pods that are older than their ServiceAccount: their tokens are dead.
func (s *suite) strangers(ctx context.Context) []string {
	made, err := s.env.Kubectl(ctx, "-n", namespace, "get", "serviceaccount", service+"-sidecar", "-o", "jsonpath={.metadata.creationTimestamp}")
	if err != nil {
		return []string{err.Error()}
	}
	out, err := s.env.Kubectl(ctx, "-n", namespace, "get", "pods", "-l", "bobtail.dev/service="+service,
		"-o", `jsonpath={range .items[*]}{.metadata.creationTimestamp} {.metadata.name} {.metadata.deletionTimestamp}{"\n"}{end}`)
	if err != nil {
		return []string{err.Error()}
	}
	var old []string
	for line := range strings.Lines(out) {
		// Made, name, and since when on its way out, which those that stay have not.
		if f := strings.Fields(line); len(f) == 2 && f[0] < strings.TrimSpace(made) {
			old = append(old, "pod "+f[1]+" is older than its ServiceAccount")
		}
	}
	return old
}
