// SPDX-License-Identifier: Apache-2.0

// What servers say of flow control.
package rpcservice

import (
	"fmt"
	"math"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/enforce"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// flowControlStatus of a service; nil: it wants none.
func flowControlStatus(s *snapshot) *v1alpha1.FlowControlStatus {
	spec := s.service.Spec.FlowControl
	if spec == nil {
		return nil
	}
	if slo := enforce.Choose(s.service, s.objectives); slo != nil && render.FlowControlDefers(s.service, int(slo.Spec.LatencyMicroseconds)) {
		return &v1alpha1.FlowControlStatus{
			Reason: v1alpha1.FlowControlWaitNotBelowObjective,
			Message: fmt.Sprintf("requests may wait for %d µs, and ServiceLevelObjective %s allows them %d µs in all: lower flowControl.waitMicroseconds",
				spec.WaitMicroseconds, slo.Name, slo.Spec.LatencyMicroseconds),
		}
	}
	var all []*dataplane.FlowState
	for _, p := range s.servers {
		if f := flowOf(s.states[p.Name]); f != nil {
			all = append(all, f)
		}
	}
	return sumFlow(all)
}

// sumFlow is the status of servers that report; of several the one closest to its
// limit counts.
func sumFlow(all []*dataplane.FlowState) *v1alpha1.FlowControlStatus {
	if len(all) == 0 {
		return &v1alpha1.FlowControlStatus{
			Reason:  v1alpha1.FlowControlNotReported,
			Message: "no server says that it measures how long requests take: none is ready, or its program knows no flow control",
		}
	}
	out := &v1alpha1.FlowControlStatus{Reason: v1alpha1.FlowControlInForce, Replicas: int32(len(all))} // at most maxWorkers
	refused, closest := uint64(0), all[0]
	for _, f := range all {
		refused += f.Refused
		if f.Throttling {
			out.Throttling++
		}
		if f.Alarm {
			out.Reason = v1alpha1.FlowControlTooDispersed
			out.Message = "requests take so different times (c² above 20) that the load which is admitted says little (docs/guides/flow-control.md)"
		}
		if closer(f, closest) {
			closest = f
		}
	}
	out.Refused = twoDigits(float64(refused))
	if closest.AdmittedMillionths > 0 {
		load, admitted := inSteps(closest.LoadMillionths), inSteps(closest.AdmittedMillionths)
		out.LoadPercent, out.AdmittedPercent = &load, &admitted
	}
	return out
}

// closer says whether one is closer to its limit than another. Who has not seen enough to
// have a limit comes last.
func closer(one, than *dataplane.FlowState) bool {
	if one.AdmittedMillionths == 0 || than.AdmittedMillionths == 0 {
		return one.AdmittedMillionths > 0
	}
	return one.LoadMillionths*than.AdmittedMillionths > than.LoadMillionths*one.AdmittedMillionths
}

// inSteps of 5 %: a status is not written again for every request.
func inSteps(millionths uint64) int32 {
	return 5 * int32(math.Round(math.Min(float64(millionths)/50000, 1000))) // clamped
}

func flowOf(a stateRead) *dataplane.FlowState {
	if a.Reply == nil || a.Reply.Dataplane == nil {
		return nil
	}
	return a.Reply.Dataplane.FlowControl
}
