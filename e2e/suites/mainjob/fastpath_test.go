//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/e2e/harness"
)

const quick = "quick"

// fastPath asks for the in-kernel path, shows by the routers' own counters that
// requests take it, and turns it off again under the same load. Nothing fails.
func fastPath(ctx context.Context, t *testing.T, s *suite) {
	check(t, s.env.Apply(ctx, quickManifest(s.env.Version)))
	check(t, s.env.WaitCondition(ctx, 90*time.Second, namespace, "rpcsvc", quick, "Ready=True"))
	check(t, waitFastPath(ctx, s, namespace, "Active"))
	job := steady("load-fast-path")
	job.Target, job.Rate = quick+"."+namespace+".svc.cluster.local:8000", 500
	r := underLoad(ctx, t, s, job, func(ctx context.Context) error {
		if err := inKernel(ctx, t, s); err != nil {
			return err
		}
		return turnedOff(ctx, t, s)
	})
	s.got.Set("rpcs_failed_fast_path", r.Failed())
	if r.Failed() != 0 || r.Sent < 5000 {
		t.Errorf("%d of %d requests failed with the fast path and while it was turned off; want 0 of at least 5000: %s", r.Failed(), r.Sent, r.Failures())
	}
	_, err := s.env.Kubectl(ctx, "-n", namespace, "delete", "rpcsvc", quick, "--wait=false")
	check(t, err)
}

// inKernel measures for 3 s which share of the requests no process saw.
func inKernel(ctx context.Context, t *testing.T, s *suite) error {
	before, err := routerCounters(ctx, s)
	if err != nil {
		return err
	}
	time.Sleep(3 * time.Second)
	after, err := routerCounters(ctx, s)
	if err != nil {
		return err
	}
	requests := after["router_requests_total"] - before["router_requests_total"]
	decided := after["router_fast_path_total/request"] - before["router_fast_path_total/request"]
	share := decided / max(requests, 1)
	s.got.Set("fast_path_share", share)
	s.steps.Say("     fast path: %.0f of %.0f requests and %.0f FEEDBACK decided in the kernel; packets through the sockets: %s", decided, requests,
		after["router_fast_path_total/feedback"]-before["router_fast_path_total/feedback"], grown(before, after, "router_fast_path_sockets_total/"))
	if requests < 500 || share < 0.5 {
		t.Errorf("%.0f of %.0f requests were decided in the kernel; want half of at least 500", decided, requests)
	}
	return nil
}

// turnedOff takes it back by an update of the one field and waits until no router has it.
func turnedOff(ctx context.Context, t *testing.T, s *suite) error {
	if _, err := s.env.Kubectl(ctx, "-n", namespace, "patch", "rpcsvc", quick, "--type=merge", "-p", `{"spec":{"router":{"fastPath":"Off"}}}`); err != nil {
		return err
	}
	if err := s.env.WaitCondition(ctx, time.Minute, namespace, "rpcsvc", quick, "Ready=True"); err != nil {
		return err
	}
	if err := waitFastPath(ctx, s, namespace, ""); err != nil {
		return err
	}
	now, err := routerCounters(ctx, s)
	if now["router_fast_path"] != 0 {
		t.Errorf("turned off: %.0f routers have a program; want none of all routers", now["router_fast_path"])
	}
	if err != nil {
		return err
	}
	return requestsCome(ctx, s)
}

// requestsCome waits until the routers that took the place of others are asked: clients look for routers once in a while.
func requestsCome(ctx context.Context, s *suite) error {
	return harness.Until(ctx, 10*time.Second, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		now, err := routerCounters(ctx, s)
		return now["router_requests_total"] > 0, "turned off: no router without the program has had a request", err
	})
}

// waitFastPath waits for the state in the status, and for all of these words in the
// rest of it; empty: for there being none.
func waitFastPath(ctx context.Context, s *suite, ns, want string, words ...string) error {
	return harness.Until(ctx, time.Minute, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		got, err := s.env.Kubectl(ctx, "-n", ns, "get", "rpcsvc", quick, "-o", "jsonpath={.status.fastPath.state} {.status.fastPath}")
		state, rest, _ := strings.Cut(strings.TrimSpace(got), " ")
		ok := state == want
		for _, w := range words {
			ok = ok && strings.Contains(rest, w)
		}
		return ok, fmt.Sprintf("status.fastPath is %s, want state %q and %q", rest, want, words), err
	})
}

// stayingRouters are the routers of the service that are not on their way out.
func stayingRouters(ctx context.Context, s *suite) ([]string, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name, DeletionTimestamp string }
		}
	}
	err := s.env.Get(ctx, &list, "-n", namespace, "pods", "-l", "bobtail.dev/component=router,bobtail.dev/service="+quick)
	var names []string
	for _, p := range list.Items {
		if p.Metadata.DeletionTimestamp == "" {
			names = append(names, p.Metadata.Name)
		}
	}
	return names, err
}

// routerCounters adds up what the routers of the service count, by name and the
// value of the label: "name", "name/value".
func routerCounters(ctx context.Context, s *suite) (map[string]float64, error) {
	names, err := stayingRouters(ctx, s)
	if err != nil {
		return nil, err
	}
	sum := map[string]float64{}
	for _, pod := range names {
		text, err := s.env.Kubectl(ctx, "get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/http:%s:9464/proxy/v1/counters", namespace, pod))
		if err != nil {
			return nil, fmt.Errorf("read the counters of router %s: %w", pod, err)
		}
		var c ctl.Counters
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return nil, fmt.Errorf("counters of router %s: %w", pod, err)
		}
		for _, sample := range append(c.Counters, c.Gauges...) {
			key := sample.Name
			for _, v := range sample.Labels {
				key += "/" + v
			}
			sum[key] += sample.Value
		}
	}
	return sum, nil
}

// grown lists the counters of that prefix that grew, for the log.
func grown(before, after map[string]float64, prefix string) string {
	var out []string
	for name, v := range after {
		if d := v - before[name]; strings.HasPrefix(name, prefix) && d > 0 {
			out = append(out, fmt.Sprintf("%s %.0f", strings.TrimPrefix(name, prefix), d))
		}
	}
	return strings.Join(out, ", ")
}

func quickManifest(version string) string {
	return fmt.Sprintf(`apiVersion: bobtail.dev/v1alpha1
kind: RpcService
metadata: {name: %s, namespace: %s}
spec:
  replicas: 2
  workersPerReplica: 4
  server:
    image: localhost/bobtail/serve:%s
    args: ["--service-time=fixed:200us", --occupy=sleep]
    resources: {requests: {cpu: 10m}}
  router: {fastPath: Auto, maxQueueMilliseconds: 8000}
`, quick, namespace, version)
}
