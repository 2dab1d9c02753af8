// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// tooShort is the objective of work that takes 10 ms on average and 46 ms at p99.
const (
	tooShort  = "work-p99-too-short"
	beyond    = 5 * time.Millisecond
	floorRate = 500
)

// floor sets an objective that the service itself cannot meet: it is accepted and
// measured, and the warning names what the service alone takes.
func (s *Suite) floor(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("SLO p99 <= %v of workers that sleep 10 ms: accepted, not attainable, the floor named", beyond), Cost: "35 s",
		Cause: "the servers' service times cannot be read: kubectl -n " + Namespace + " describe slo " + tooShort},
		func(ctx context.Context) error {
			manifest := fmt.Sprintf(`apiVersion: bobtail.dev/v1alpha1
kind: ServiceLevelObjective
metadata: {name: %s, namespace: %s}
spec: {targetRef: {name: %s}, percentile: "99", latencyMicroseconds: %d, windowSeconds: 15}
`, tooShort, Namespace, Service, beyond.Microseconds())
			job := load("floor", floorRate, 0, window)
			err := s.Env.StartLoad(ctx, job)
			err = errors.Join(err, s.Env.Apply(ctx, manifest))
			err = errors.Join(err, s.Env.WaitCondition(ctx, 2*time.Minute, Namespace, "slo", tooShort, "Attainable=False"))
			if err == nil {
				err = s.warned(ctx)
			}
			_, ended := s.Env.FinishLoad(ctx, job)
			_, gone := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "slo", tooShort, "--ignore-not-found")
			return errors.Join(err, ended, gone)
		})
}

// warned reads the objective and its event.
func (s *Suite) warned(ctx context.Context) error {
	o, err := s.Env.Object(ctx, Namespace, "slo", tooShort)
	if err != nil {
		return err
	}
	least, err := floorOf(o)
	if err != nil {
		return err
	}
	s.Steps.Say("     %s", o.Condition("Attainable").Message)
	s.Got.Set("e2e_slo_below_floor_accepted", o.Condition("Accepted").Status == "True")
	s.Got.SetFinite("e2e_slo_floor_ms", float64(least.Microseconds())/1000)
	events, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "events", "--field-selector=type=Warning,reason=ServiceAboveObjective",
		"-o", "jsonpath={.items[*].involvedObject.name}")
	if err == nil && !strings.Contains(events, tooShort) {
		err = fmt.Errorf("no event warns of slo/%s: warnings of %q", tooShort, events)
	}
	return err
}

var floorText = regexp.MustCompile(`p99 of the service time alone is ([0-9.]+[a-z]+) .* no load meets the objective of 5ms`)

// floorOf is the floor that an accepted objective is warned of.
func floorOf(o harness.Object) (time.Duration, error) {
	accepted, attainable := o.Condition("Accepted"), o.Condition("Attainable")
	if accepted.Status != "True" {
		return 0, fmt.Errorf("an objective below the floor can be measured all the same, yet Accepted is %s: %s", accepted.Status, accepted.Message)
	}
	said := floorText.FindStringSubmatch(attainable.Message)
	if attainable.Status != "False" || attainable.Reason != "ServiceAboveObjective" || said == nil {
		return 0, fmt.Errorf("the condition Attainable does not name the floor: %s (%s: %s)", attainable.Status, attainable.Reason, attainable.Message)
	}
	least, err := time.ParseDuration(said[1])
	if err == nil && least <= beyond {
		err = fmt.Errorf("the floor of %v is not above the objective of %v", least, beyond)
	}
	return least, err
}
