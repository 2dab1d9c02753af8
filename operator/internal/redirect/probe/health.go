// SPDX-License-Identifier: Apache-2.0

// Package probe asks servers whether they are up and echo the redirect option
// (C-50…C-53).
package probe

import (
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// Defaults of a prober (C-52).
const (
	DefaultInterval = time.Second
	DefaultTimeout  = 500 * time.Millisecond
	FailuresToDown  = 3
	answersToUp     = 2
)

// Health is what the probes of one server add up to. The zero value is a server
// nobody has asked yet: down.
type Health struct {
	state           redirect.State
	answers, losses int
}

// Presume starts with what somebody else knew of a server.
func Presume(s redirect.State) Health { return Health{state: s} }

// State is what the balancer should be told.
func (h *Health) State() redirect.State { return h.state }

// Observe takes the result of one probe: UpCRAB, UpPlain or Down. Ups and downs
// need several in a row; whether a server echoes holds at once (C-52).
func (h *Health) Observe(result redirect.State) redirect.State {
	if result == redirect.Down {
		h.answers = 0
		if h.losses++; h.losses >= FailuresToDown {
			h.state = redirect.Down
		}
		return h.state
	}
	h.losses = 0
	h.answers++
	if h.state != redirect.Down || h.answers >= answersToUp {
		h.state = result
	}
	return h.state
}
