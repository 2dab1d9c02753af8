//go:build cluster

// SPDX-License-Identifier: Apache-2.0

package mainjob

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// steady is the load under which parts of the control plane vanish: light
// enough that nothing else fails. It lasts until what it is for is over.
func steady(name string) harness.Load {
	return harness.Load{Namespace: namespace, Name: name, Target: service + "." + namespace + ".svc.cluster.local:8000",
		Rate: 300, Duration: 4 * time.Minute, Warmup: 2 * time.Second, Timeout: 10 * time.Second, Sockets: 8}
}

// patience lets the service's routers hold a request almost as long as the steady load waits for it. The demo's 400 ms are
// there to see rejections under overload; here a machine that stands still for half a second would make some too, rightly,
// and what is asked is whether a request was lost.
const patience = `{"spec":{"router":{"maxQueueMilliseconds":8000}}}`

// patient brings that to the routers and waits until they have it.
func patient(ctx context.Context, t *testing.T, s *suite) {
	t.Helper()
	_, err := s.env.Kubectl(ctx, "-n", namespace, "patch", "rpcsvc", service, "--type=merge", "-p", patience)
	check(t, err)
	check(t, s.env.WaitCondition(ctx, time.Minute, namespace, "rpcsvc", service, "Programmed=True"))
	check(t, s.env.WaitCondition(ctx, time.Minute, namespace, "rpcsvc", service, "Ready=True"))
}

// aftermath is how long the load goes on after a disturbance.
const aftermath = 3 * time.Second

// underLoad runs the disturbance while a steady load runs, and returns what the
// load's own client saw.
func underLoad(ctx context.Context, t *testing.T, s *suite, job harness.Load, disturb func(context.Context) error) harness.LoadResult {
	t.Helper()
	check(t, s.env.StartLoad(ctx, job))
	time.Sleep(job.Warmup + time.Second)
	disturbed := disturb(ctx)
	time.Sleep(aftermath)
	check(t, s.env.EndLoad(ctx, job))
	result, err := s.env.FinishLoad(ctx, job)
	check(t, disturbed)
	check(t, err)
	s.steps.Say("     %s: sent %d, completed %d, dropped %d, timeouts %d, errors %d, p99 %.0f us", job.Name, result.Sent, result.Completed,
		result.Dropped, result.Timeouts, result.Errors, result.Percentile("99"))
	return result
}

// lossless records and asserts that an outage of `part` cost no RPC.
func lossless(t *testing.T, s *suite, part string, r harness.LoadResult) {
	t.Helper()
	s.got.Set("rpcs_lost_"+part, r.Failed())
	s.got.Set("rpcs_sent_"+part, r.Sent)
	if r.Failed() != 0 || r.Sent < 10000 {
		t.Errorf("%s: %d of %d requests were not answered; want 0 of at least 10000: %s", part, r.Failed(), r.Sent, r.Failures())
	}
}

func operatorDown(ctx context.Context, t *testing.T, s *suite) {
	scale := func(ctx context.Context, n int) error {
		_, err := s.env.Kubectl(ctx, "-n", harness.SystemNamespace, "scale", "deployment", "-l", "app.kubernetes.io/name=bobtail", fmt.Sprintf("--replicas=%d", n))
		return err
	}
	r := underLoad(ctx, t, s, steady("load-operator-down"), func(ctx context.Context) error {
		if err := scale(ctx, 0); err != nil {
			return err
		}
		gone := func(ctx context.Context) (bool, string, error) {
			pods, err := s.env.Kubectl(ctx, "-n", harness.SystemNamespace, "get", "pods", "-l", "app.kubernetes.io/name=bobtail", "-o", "name")
			return pods == "", "still there: " + pods, err
		}
		if err := harness.Until(ctx, 30*time.Second, 500*time.Millisecond, gone); err != nil {
			return err
		}
		time.Sleep(outage)
		return scale(ctx, 2)
	})
	lossless(t, s, "operator_down", r)
	_, err := s.env.Kubectl(ctx, "-n", harness.SystemNamespace, "rollout", "status", "deployment", "-l", "app.kubernetes.io/name=bobtail", "--timeout=90s")
	check(t, err)
}

func sidecarsDown(ctx context.Context, t *testing.T, s *suite) {
	r := underLoad(ctx, t, s, steady("load-sidecar-down"), func(ctx context.Context) error {
		return stopped(harness.PodProcesses("", "sidecar"), outage)
	})
	lossless(t, s, "sidecar_down", r)
	check(t, s.env.WaitCondition(ctx, time.Minute, namespace, "rpcsvc", service, "Ready=True"))
}

func apiserverDown(ctx context.Context, t *testing.T, s *suite) {
	// The job's pod must outlive the API server, and its log is read afterwards.
	r := underLoad(ctx, t, s, steady("load-apiserver-down"), func(ctx context.Context) error {
		if _, err := s.env.Cluster(ctx, "stop-apiserver"); err != nil {
			return err
		}
		time.Sleep(outage)
		_, err := s.env.Cluster(ctx, "start-apiserver")
		return err
	})
	lossless(t, s, "apiserver_down", r)
	check(t, s.env.WaitCondition(ctx, 2*time.Minute, namespace, "rpcsvc", service, "Ready=True"))
	check(t, clusterWhole(ctx, s))
}

// clusterWhole waits for what an outage of the API server leaves behind on a busy machine: nodes that were not heard of for
// their grace period, and with them the cluster's DNS, without which the next load finds no router.
func clusterWhole(ctx context.Context, s *suite) error {
	if _, err := s.env.Kubectl(ctx, "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s"); err != nil {
		return err
	}
	_, err := s.env.Kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s")
	return err
}

// rollingUpdate restarts servers, then routers, one by one under load; every request must be answered.
func rollingUpdate(ctx context.Context, t *testing.T, s *suite) {
	r := underLoad(ctx, t, s, steady("load-rolling"), func(ctx context.Context) error {
		for _, name := range []string{service + "-server", service + "-router"} {
			if _, err := s.env.Kubectl(ctx, "-n", namespace, "rollout", "restart", "deployment", name); err != nil {
				return err
			}
			if _, err := s.env.Kubectl(ctx, "-n", namespace, "rollout", "status", "deployment", name, "--timeout=50s"); err != nil {
				return err
			}
		}
		return nil
	})
	s.got.Set("rpcs_failed_rolling_update", r.Failed())
	s.got.Set("rpcs_sent_rolling_update", r.Sent)
	if r.Failed() != 0 {
		t.Errorf("%d of %d requests failed during the rolling updates; want 0: %s", r.Failed(), r.Sent, r.Failures())
	}
	check(t, s.env.WaitCondition(ctx, time.Minute, namespace, "rpcsvc", service, "Ready=True"))
}

// routerKilled kills one router without warning: its clients move to the other
// after three timeouts or an ICMP error; what was in flight times out; nothing hangs.
func routerKilled(ctx context.Context, t *testing.T, s *suite) {
	job := steady("load-router-kill")
	job.Timeout = time.Second
	r := underLoad(ctx, t, s, job, func(ctx context.Context) error {
		time.Sleep(3 * time.Second)
		if err := killOne("bobtail-router"); err != nil {
			return err
		}
		time.Sleep(12 * time.Second) // clients find out, and find the other
		return nil
	})
	share := float64(r.Completed) / float64(max(r.Sent, 1))
	s.got.Set("rpcs_timed_out_router_kill", r.Timeouts)
	s.got.Set("rpcs_completed_after_router_kill_share", share)
	if r.Completed+r.Dropped+r.Timeouts+r.Errors != r.Sent {
		t.Errorf("some requests never ended: %+v", r)
	}
	check(t, s.env.WaitCondition(ctx, time.Minute, namespace, "rpcsvc", service, "Ready=True"))
}
