// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/enforce"
)

// FlowControlDefers says whether flow control stays out of force, because all that
// an enforced objective allows a request is no more than it may wait here: latency
// of the objective in microseconds, 0 without one.
func FlowControlDefers(s *v1alpha1.RpcService, latency int) bool {
	f := s.Spec.FlowControl
	return f != nil && latency > 0 && int(f.WaitMicroseconds) >= latency
}

// flowControl is what a configuration says of it; nil: nothing.
func flowControl(s *v1alpha1.RpcService, o *Objective) *dataplane.FlowControl {
	f := s.Spec.FlowControl
	if f == nil || o != nil && FlowControlDefers(s, o.Admission.LatencyMicroseconds) {
		return nil
	}
	percentile, ok := enforce.PercentilePer100000(cmp.Or(f.Percentile, "99"))
	if !ok {
		return nil // the schema lets none through
	}
	return &dataplane.FlowControl{
		WaitMicroseconds:    int(f.WaitMicroseconds),
		PercentilePer100000: percentile,
		Model:               string(cmp.Or(f.Model, v1alpha1.FlowControlRefined)),
	}
}
