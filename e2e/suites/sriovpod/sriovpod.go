// SPDX-License-Identifier: Apache-2.0

// Package sriovpod plays a service on virtual functions from its manifest to traffic and away
// again. The control plane and a node are on this machine; a second node is an emulated
// machine whose igb card has as many functions as the service has pods. Multus, the SR-IOV
// CNI and the device plugin are played by parts of the embedded cluster, which keep to their
// documented contracts.
package sriovpod

import (
	"context"
	_ "embed" // for the manifest
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// Names in the manifest.
const (
	Namespace = "bobtail-functions"
	Service   = "on-functions"
	resource  = "example.com/functions"
	routers   = 2
)

// The load: a client that waits long, for a machine that is interpreted.
const (
	rate      = 30
	leastRPCs = 300
	timeout   = 10 * time.Second
)

//go:embed service.yaml
var manifest string

// Suite is one run.
type Suite struct {
	Env     *harness.Env
	Steps   *harness.Steps
	Got     *harness.Measurements
	Short   bool // without what needs a second server
	Started time.Time
}

// servers of the service. Each pod, router or server, pins one CPU and holds one function.
func (s *Suite) servers() int {
	if s.Short {
		return 1
	}
	return 2
}

func (s *Suite) pods() int { return routers + s.servers() }

// Run plays all of it on a running cluster of one node.
func (s *Suite) Run(ctx context.Context) error {
	if err := s.join(ctx); err != nil {
		return err
	}
	if err := s.Env.Prepare(ctx, s.Steps, Namespace, Service); err != nil {
		return err
	}
	parts := []func(context.Context) error{s.ready, s.startPlugin, s.apply, s.serving, s.asAsked, s.traffic}
	if !s.Short {
		parts = append([]func(context.Context) error{s.calm}, append(parts, s.rollout, s.lost, s.privileges)...)
	}
	for _, part := range parts {
		if err := part(ctx); err != nil {
			return errors.Join(err, s.describe(ctx))
		}
	}
	if err := s.remove(ctx); err != nil {
		return err
	}
	s.Got.Set("sriov_pod_wall_seconds", time.Since(s.Started).Round(time.Second).Seconds())
	return nil
}

// apply: the manifest as a user writes it.
func (s *Suite) apply(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("kubectl apply: %d routers and %d servers", routers, s.servers()), Cost: "1 s",
		Cause: "the API server refuses the manifest"}, func(ctx context.Context) error {
		return s.Env.Apply(ctx, strings.NewReplacer("VERSION", s.Env.Version, "SERVERS", fmt.Sprint(s.servers())).Replace(manifest))
	})
}

// serving: until its pods serve on their functions.
func (s *Suite) serving(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("the service is Ready on %d virtual functions", s.pods()), Cost: "60 s",
		Cause: "pods do not start, or the operator does not believe their addresses: kubectl -n " + Namespace + " describe pods"},
		func(ctx context.Context) error {
			if err := s.Env.WaitCondition(ctx, 8*time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "Ready=True"); err != nil {
				return err
			}
			out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "rpcsvc,pods,endpointslices", "-o", "wide")
			s.Steps.Say("\n$ kubectl -n %s get rpcsvc,pods,endpointslices -o wide\n%s", Namespace, out)
			return err
		})
}

func (s *Suite) load(name string, duration time.Duration) harness.Load {
	return harness.Load{Namespace: Namespace, Name: name, Target: Service + "." + Namespace + ".svc.cluster.local:8000",
		Rate: rate, Duration: duration, Warmup: time.Second, Timeout: timeout, Sockets: 4}
}

// judge records what failed of a load of at least that many RPCs.
func (s *Suite) judge(figure string, least int64, got harness.LoadResult) error {
	s.Got.Set(figure, got.Failed())
	s.Steps.Say("     %d RPCs, %d failed (%s), p50 %.0f us, p99 %.0f us", got.Sent, got.Failed(), got.Failures(), got.Percentile("50"), got.Percentile("99"))
	if got.Sent < least {
		return fmt.Errorf("%d RPCs were sent, want at least %d", got.Sent, least)
	}
	if got.Failed() > 0 {
		return fmt.Errorf("%d of %d RPCs failed: %s", got.Failed(), got.Sent, got.Failures())
	}
	return nil
}

// traffic: a client on the pod network of the other node, by the name of the service. It
// reaches the functions through the machine, whose card is the gateway of their network.
func (s *Suite) traffic(ctx context.Context) error {
	const seconds = leastRPCs/rate + 2
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("%d RPCs by the name %s.%s.svc", seconds*rate, Service, Namespace), Cost: "20 s",
		Cause: "the name leads nowhere, or the machine does not forward to its card: kubectl -n " + Namespace + " get endpointslices"},
		func(ctx context.Context) error {
			l := s.load("load-functions", seconds*time.Second)
			if err := s.Env.StartLoad(ctx, l); err != nil {
				return err
			}
			got, err := s.Env.FinishLoad(ctx, l)
			if err != nil {
				return err
			}
			return s.judge("sriov_pod_rpcs_failed", leastRPCs, got)
		})
}

// describe shows what a user would look at, and the machine's own words.
func (s *Suite) describe(ctx context.Context) error {
	for _, args := range [][]string{{"describe", "rpcsvc", Service}, {"get", "pods", "-o", "wide"}, {"describe", "pods"}, {"get", "events"}} {
		out, err := s.Env.Kubectl(ctx, append([]string{"-n", Namespace}, args...)...)
		if err != nil {
			return err
		}
		s.Steps.Say("\n$ kubectl -n %s %s\n%s", Namespace, strings.Join(args, " "), out)
	}
	out, err := s.Env.Cluster(ctx, "logs", "machine-"+machine)
	s.Steps.Say("\nthe machine said:\n%s", out)
	logs, failed := s.onMachine(ctx, "grep -hE '^E|level=error' /var/log/kubelet.log /var/log/containerd.log | tail -30")
	s.Steps.Say("its kubelet and containerd:\n%s", logs)
	return errors.Join(err, failed)
}

// images are those that the machine's pods have; its node has no other way to them.
func (s *Suite) images() []string {
	var tars []string
	for _, c := range []string{"sidecar", "router", "serve"} {
		tars = append(tars, filepath.Join(s.Env.Root, "build", "images", c+".tar"))
	}
	return tars
}
