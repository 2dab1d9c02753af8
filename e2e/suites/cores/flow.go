// SPDX-License-Identifier: Apache-2.0

package cores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// Flow control: four workers that sleep 3 ms for a request, and 1.5 times what they can do. As many
// clients as can be held to that: the longest silence is 32.767 ms.
const (
	bounded      = "bounded"
	flowWorkers  = 4
	flowSleep    = 3 * time.Millisecond
	flowCapacity = flowWorkers * int(time.Second/flowSleep)
	flowRounds   = 2
)

// flowSays is what the status tells of flow control.
type flowSays struct {
	Reason, Message              string
	Replicas, Throttling         int64
	LoadPercent, AdmittedPercent *int64
	Refused                      int64
}

func (s *Suite) flowService() string {
	return fmt.Sprintf(`apiVersion: bobtail.dev/v1alpha1
kind: RpcService
metadata: {name: %s, namespace: %s}
spec:
  replicas: 1
  workersPerReplica: %d
  flowControl: {waitMicroseconds: 20000, percentile: "99"}
  server:
    image: "localhost/bobtail/serve:%s"
    args: ["--service-time=fixed:%s", --occupy=sleep]
    resources: {requests: {cpu: 100m, memory: 64Mi}}
  router: {replicas: 2, centralQueueLimit: 20, maxQueueMilliseconds: 100}
`, bounded, Namespace, flowWorkers, s.Env.Version, flowSleep)
}

// flow: DROPs with clients that ask whether there is room, over those with clients that do not.
func (s *Suite) flow(ctx context.Context) error {
	if err := s.flowLearned(ctx); err != nil {
		return err
	}
	if err := s.flowCompared(ctx); err != nil {
		return err
	}
	return s.Env.RemoveService(ctx, Namespace, bounded)
}

func (s *Suite) flowLoad(name string, factor float64, duration time.Duration) harness.Load {
	return harness.Load{Namespace: Namespace, Name: name, Target: bounded + "." + Namespace + ".svc.cluster.local:8000",
		Rate: int(factor * float64(flowCapacity)), Duration: duration, Warmup: time.Second, Timeout: 2 * time.Second, Sockets: flowWorkers}
}

// flowLearned: the server has seen enough of plain load to hold clients back (F-12), and the status says so.
func (s *Suite) flowLearned(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a service with flow control, until its status says that it throttles", Cost: "40 s",
		Cause: "the server measures nothing: kubectl -n " + Namespace + " get rpcsvc " + bounded + " -o jsonpath={.status.flowControl}"}, func(ctx context.Context) error {
		if err := s.Env.Apply(ctx, s.flowService()); err != nil {
			return err
		}
		if err := s.Env.WaitCondition(ctx, patience, Namespace, kind, bounded, "Ready=True"); err != nil {
			return err
		}
		l := s.flowLoad("flow-learn", 1.2, 5*time.Minute)
		if err := s.Env.StartLoad(ctx, l); err != nil {
			return err
		}
		err := harness.Until(ctx, patience, time.Second, func(ctx context.Context) (bool, string, error) {
			got, err := s.flowStatus(ctx)
			return got.Throttling == 1 && got.AdmittedPercent != nil, fmt.Sprintf("it says %+v", got), err
		})
		return errors.Join(err, s.Env.StopLoad(ctx, l))
	})
}

func (s *Suite) flowStatus(ctx context.Context) (flowSays, error) {
	var got struct {
		Status struct{ FlowControl flowSays }
	}
	err := s.Env.Get(ctx, &got, "-n", Namespace, "rpcsvc", bounded)
	return got.Status.FlowControl, err
}

func (s *Suite) flowCompared(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "1.5 times what the workers can do, plainly and by clients that ask for room, in turn", Cost: "80 s",
		Cause: "kubectl -n " + Namespace + " get rpcsvc " + bounded + " -o yaml"}, func(ctx context.Context) error {
		var dropped, completed [2]float64 // plain, tried
		for round := range flowRounds {
			for i, name := range []string{"plain", "tried"} {
				l := s.flowLoad(fmt.Sprintf("flow-%s-%d", name, round), 1.5, 5*time.Second)
				l.Tries = i == 1
				if err := s.Env.StartLoad(ctx, l); err != nil {
					return err
				}
				got, err := s.Env.FinishLoad(ctx, l)
				if err != nil {
					return err
				}
				s.Steps.Say("     %s: offered %d, sent %d, completed %d, dropped %d, held back %d", name, got.Offered, got.Sent, got.Completed, got.Dropped, got.HeldBack)
				dropped[i] += float64(got.Dropped) / float64(got.Offered)
				completed[i] += float64(got.Completed) / float64(got.Offered)
			}
		}
		if dropped[0] < 0.1*flowRounds {
			return fmt.Errorf("plain clients lost %.0f %% of their requests, want 10 at least: nothing was overloaded", 100*dropped[0]/flowRounds)
		}
		s.Got.SetFinite("fc_drops_ratio", dropped[1]/dropped[0])
		s.Got.SetFinite("fc_completed_ratio", completed[1]/completed[0])
		out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "rpcsvc", bounded, "-o", "jsonpath={.status.flowControl}")
		s.Steps.Say("     status.flowControl: %s", out)
		return err
	})
}
