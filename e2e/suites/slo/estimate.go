// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"context"
	"fmt"
)

// estimate is what the objective's status tells of the capacity within it, in
// requests/s, and why when it tells nothing.
type estimate struct {
	low, high float64 // 0: not known
	why       string
}

// estimated reads status.capacity after the sweep: the operator has seen the
// service times of all its loads by then.
func (s *Suite) estimated(ctx context.Context) (estimate, error) {
	var o struct {
		Status struct {
			Capacity *struct {
				LowRequestsPerSecond  float64 `json:"lowRequestsPerSecond"`
				HighRequestsPerSecond float64 `json:"highRequestsPerSecond"`
			} `json:"capacity"`
			Conditions []struct{ Type, Reason, Message string } `json:"conditions"`
		} `json:"status"`
	}
	if err := s.Env.Get(ctx, &o, "-n", Namespace, "slo", Objective); err != nil {
		return estimate{}, fmt.Errorf("read status.capacity: %w", err)
	}
	if c := o.Status.Capacity; c != nil {
		return estimate{low: c.LowRequestsPerSecond, high: c.HighRequestsPerSecond}, nil
	}
	e := estimate{why: "status.capacity is absent"}
	for _, c := range o.Status.Conditions {
		if c.Type == "CapacityKnown" {
			e.why = c.Reason + ": " + c.Message
		}
	}
	return e, nil
}

// against compares the estimate with what was measured. The model knows the
// service times and the policy; that the machine tires before the workers do it
// does not know.
func (e estimate) against(measured float64) string {
	if e.high == 0 {
		return "the operator's own estimate is not known: " + e.why
	}
	return fmt.Sprintf("the operator's own estimate (status.capacity) was %.0f to %.0f/s, %.2f to %.2f of that", e.low, e.high, e.low/measured, e.high/measured)
}
