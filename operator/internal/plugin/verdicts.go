// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"
)

// outcome of one look at the cluster.
type outcome string

const (
	fine    outcome = "OK"
	warning outcome = "WARNING" // it works, with less than it could have
	failed  outcome = "FAILED"
	unknown outcome = "UNKNOWN" // it could not be seen
)

// verdict is one thing that was looked at, and the command or the change that helps.
type verdict struct {
	Subject string  `json:"subject"`
	Outcome outcome `json:"outcome"`
	Says    string  `json:"says"`
	Next    string  `json:"next,omitempty"`
}

// unseen is the verdict where reading failed.
func unseen(subject string, err error) verdict {
	next := advice(err)
	if next == "" {
		next = "ask for the right to read it, or run this as somebody who has it"
	}
	return verdict{subject, unknown, err.Error(), next}
}

// errFailed makes the command's exit status 1; what failed stands in the output.
var errFailed = errors.New("something failed; it is marked above")

// answer prints verdicts; what is not fine says what to do.
func answer(s streams, f format, verdicts []verdict) error {
	err := f.print(s, map[string]any{"verdicts": verdicts}, func() error {
		for _, v := range verdicts {
			fmt.Fprintf(s.out, "%-8s %-12s %s\n", v.Outcome, v.Subject, v.Says)
			if v.Next != "" && v.Outcome != fine {
				fmt.Fprintf(s.out, "%21s next: %s\n", "", v.Next)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, v := range verdicts {
		if v.Outcome == failed {
			return errFailed
		}
	}
	return nil
}
