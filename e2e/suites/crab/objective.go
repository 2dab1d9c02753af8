// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// objective on how long clients wait for a connection to the RpcService. So few are
// made that only a low percentile can be spoken of, and the nodes share two
// processors: what counts is that all of them are measured, not how fast they are.
const objective = `apiVersion: bobtail.dev/v1alpha1
kind: ServiceLevelObjective
metadata: {name: shop-p75, namespace: ` + Namespace + `}
spec: {targetRef: {name: shop}, percentile: "75", latencyMicroseconds: 1000000, windowSeconds: 120}
`

// apart are the rounds of connections: an operator does not speak of a window whose
// connections all lie in one tenth of it.
const apart = 4 * time.Second

// judged is what is looked at of an objective's status.
type judged struct {
	Status struct {
		Source       string `json:"source"`
		Samples      int    `json:"samples"`
		Unanswered   int    `json:"unanswered"`
		MeasuredBy   int    `json:"measuredBy"`
		ErrorBudgets []struct {
			Requests, Violations int
		} `json:"errorBudgets"`
	} `json:"status"`
}

// observe makes the objective, and waits until the operator reads all agents: they
// may have to wait two minutes for the kubelets to bring the certificate.
func (s *Suite) observe(ctx context.Context) error {
	if err := s.Env.Apply(ctx, objective); err != nil {
		return err
	}
	return s.waitObjective(ctx, 3*time.Minute, "Unknown", "TooFewSamples")
}

// waitObjective for an answer to "is it met?", and for a reason, where that matters.
func (s *Suite) waitObjective(ctx context.Context, limit time.Duration, status, reason string) error {
	return harness.Until(ctx, limit, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		o, err := s.Env.Object(ctx, Namespace, "slo", "shop-p75")
		c := o.Condition("Met")
		return c.Status == status && (reason == "" || c.Reason == reason), fmt.Sprintf("objective shop-p75: Met=%s (%s: %s)", c.Status, c.Reason, c.Message), err
	})
}

// observed: `kubectl get slo` shows the wait for each connection that was made, and
// the error budget counts it.
func (s *Suite) observed(ctx context.Context, made int) error {
	if err := s.waitObjective(ctx, 30*time.Second, "True", ""); err != nil {
		return err
	}
	err := harness.Until(ctx, 45*time.Second, time.Second, func(ctx context.Context) (bool, string, error) {
		var o judged
		err := s.Env.Get(ctx, &o, "-n", Namespace, "slo", "shop-p75")
		st := o.Status
		counted := 0
		if len(st.ErrorBudgets) > 0 {
			counted = st.ErrorBudgets[0].Requests
		}
		if st.Samples > made || counted > made {
			return false, "", fmt.Errorf("%d connections measured, %d counted, of %d", st.Samples, counted, made)
		}
		ok := st.Source == "ClientNode" && st.Samples == made && st.Unanswered == 0 && counted == made && st.MeasuredBy == len(nodes)
		return ok, fmt.Sprintf("objective shop-p75: %+v, want %d connections", st, made), err
	})
	if err != nil {
		return err
	}
	out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "slo", "shop-p75", "-o", "wide")
	s.Steps.Say("\n$ kubectl get slo shop-p75 -o wide\n%s", out)
	if err != nil {
		return err
	}
	if !metRow.MatchString(out) {
		return fmt.Errorf("columns: want %s", metRow)
	}
	return nil
}

// metRow is what `kubectl get slo -o wide` shows. Few samples of a high percentile have no upper bound: the interval is ">=84.5us" then.
var metRow = regexp.MustCompile(`(?m)^shop-p75\s+shop\s+75\s+1s\s+[0-9.]+(us|ms|s)\s+(>=|[0-9.]+(us|ms|s)-)[0-9.]+(us|ms|s)\s+\d+\s+True\s`)
