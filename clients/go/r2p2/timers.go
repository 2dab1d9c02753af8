// SPDX-License-Identifier: Apache-2.0

package r2p2

import "time"

// Profile is the kind of network device under a node; it decides the timers.
type Profile string

// Profiles as the API names them.
const (
	Kernel Profile = "Kernel"
	AFXDP  Profile = "AFXDP"
	SRIOV  Profile = "SRIOV"
)

// Timers of the transport. A shared vCPU is descheduled for tens of
// milliseconds, a pinned one behind SR-IOV is not.
type Timers struct {
	RTO            time.Duration // first repair of an incomplete message
	Patience       time.Duration // an incomplete request holds its router's credit
	GC             time.Duration // an incomplete message or kept reply is freed
	Quarantine     time.Duration // a released request id is not used again
	FeedbackPeriod time.Duration // FEEDBACK to a router that got none for so long
	RouterHeard    time.Duration // a router counts as active
	BurstGap       time.Duration // between two bursts of one message
	Burst          int           // packets of one message sent back to back
	SackRounds     int           // repairs per message
}

// TimersFor returns the timers of a profile; an unknown one gets those of Kernel.
func TimersFor(p Profile) Timers {
	t := Timers{
		RTO: 100 * time.Millisecond, FeedbackPeriod: 100 * time.Millisecond,
		RouterHeard: time.Second, BurstGap: 100 * time.Microsecond, Burst: 64, SackRounds: 3,
	}
	if p == SRIOV {
		t.RTO, t.FeedbackPeriod = 2*time.Millisecond, 10*time.Millisecond
	}
	t.Patience, t.GC, t.Quarantine = t.RTO/20, 4*t.RTO, 8*t.RTO
	return t
}
