// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"errors"
	"fmt"
	"strings"
)

// fieldOf names the field of a definition that gives one of an experiment's. One without a line here has the same name, or
// cannot be given.
var fieldOf = map[string]string{
	"arrivals": "interarrival.kind", "percentile": "measurement.percentile", "confidence": "measurement.confidencePercent",
	"width": "measurement.widthMicroseconds", "samples": "measurement.samples", "samplingRate": "measurement.samplingRate",
	"latencyAgents": "measurement.latencyAgents", "latencyRequestsPerSecond": "measurement.latencyRequestsPerSecond",
	"tries": "measurement.rounds", "limit": "measurement.limitSeconds", "settle": "measurement.settleSeconds",
	"arrivalGaps": "measurement.arrivalGaps",
}

// CheckExperiments says which steady loads could not be measured, and which fields of the definition are why.
func (d Definition) CheckExperiments() error {
	var all []error
	for _, e := range d.Experiments() {
		if err := e.Validate(); err != nil {
			all = append(all, fmt.Errorf("at %.6g requests/s: %s", e.Load, named(err)))
		}
	}
	return errors.Join(all...)
}

// named is what an experiment says of its fields, with the definition's names of them.
func named(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		field, rest, _ := strings.Cut(line, ":")
		if ours, known := fieldOf[field]; known {
			lines[i] = ours + ":" + rest
		}
	}
	return strings.Join(lines, "; ")
}
