// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// The workers draw the time of every execution anew, so that two executions of one
// request differ much: a service for which hedged requests pay at a light load.
const (
	hedgedRate   = 400
	hedgedWindow = 10 * time.Second
	decideWithin = 40 * time.Second
	// hedgedShare is the goal of e2e_hedging_auto_p99_share: copies that gain less
	// are not worth their load. Each p99 stands on some 4,000 requests, so that a
	// pause of the machine in the second window may hide what they gain: a miss is
	// measured once more.
	hedgedShare = 0.9
)

// hedgingStatus is what is read of an RpcService.
type hedgingStatus struct {
	Status struct {
		Hedging struct {
			Mode    string `json:"mode"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"hedging"`
	} `json:"status"`
}

// hedging switches mode Auto on under a light load: it measures, switches copies
// on, says why, and the p99 falls. A miss is measured a second time, which counts.
func (s *Suite) hedging(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("spec.hedging.mode Auto, %d requests/s: probes, decides, says why", hedgedRate), Cost: "75 s, twice that after a miss",
		Cause: "kubectl -n " + Namespace + " get rpcsvc " + Service + " -o yaml: status.jitter and status.hedging"},
		func(ctx context.Context) error {
			share, err := twice(hedgedShare, func() (float64, error) { return s.hedgedOnce(ctx) }, s.Steps.Say)
			s.Got.SetFinite("e2e_hedging_auto_p99_share", share)
			return err
		})
}

// twice measures a share, and once more when it is above the goal, saying so.
func twice(goal float64, measure func() (float64, error), say func(string, ...any)) (float64, error) {
	share, err := measure()
	if err != nil || share <= goal {
		return share, err
	}
	say("     p99 with copies is %.2f of that without, more than %.2f: a miss, measured once more; the second figure counts", share, goal)
	return measure()
}

// hedgedOnce is the p99 with the copies of mode Auto over that without any.
func (s *Suite) hedgedOnce(ctx context.Context) (float64, error) {
	job := load("hedging", hedgedRate, 0, 2*hedgedWindow+decideWithin+10*time.Second)
	if err := s.Env.StartLoad(ctx, job); err != nil {
		return math.NaN(), err
	}
	before, after, err := s.auto(ctx)
	return after / before, errors.Join(err, s.hedge(ctx, "null"), s.Env.StopLoad(ctx, job))
}

// auto returns the p99 without copies and with those that Auto sends, in
// microseconds, by the routers.
func (s *Suite) auto(ctx context.Context) (before, after float64, err error) {
	after = math.NaN()
	if before, err = s.p99After(ctx, settling+hedgedWindow+time.Second); err != nil {
		return before, after, err
	}
	if err = s.hedge(ctx, `{"mode": "Auto", "probePerMillion": 200000}`); err != nil {
		return before, after, err
	}
	var h hedgingStatus
	err = harness.Until(ctx, decideWithin, time.Second, func(ctx context.Context) (bool, string, error) {
		err := s.Env.Get(ctx, &h, "-n", Namespace, "rpcsvc", Service)
		got := h.Status.Hedging
		return got.Mode == "LoadAware" && got.Reason == "Pays", fmt.Sprintf("status.hedging: %s (%s: %s)", got.Mode, got.Reason, got.Message), err
	})
	if err != nil {
		return before, after, err
	}
	if after, err = s.p99After(ctx, hedgedWindow+2*time.Second); err != nil {
		return before, after, err
	}
	s.Steps.Say("     %s: %s", h.Status.Hedging.Reason, h.Status.Hedging.Message)
	s.Steps.Say("     p99 by the routers: %.1f ms without copies, %.1f ms with them", before/1000, after/1000)
	return before, after, nil
}

func (s *Suite) p99After(ctx context.Context, d time.Duration) (float64, error) {
	if err := pause(ctx, d); err != nil {
		return math.NaN(), err
	}
	seen, err := s.Env.Routers(ctx, Namespace, Service, hedgedWindow)
	return harness.Microseconds(seen.Latency, "99"), err
}

// hedge writes spec.hedging and waits until every router has it.
func (s *Suite) hedge(ctx context.Context, hedging string) error {
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "patch", "rpcsvc", Service, "--type=merge", "-p", `{"spec": {"hedging": `+hedging+`}}`); err != nil {
		return err
	}
	return s.Env.WaitCondition(ctx, time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "Programmed=True")
}
