// SPDX-License-Identifier: Apache-2.0

// What becomes of copies that could be taken back: whether servers let go of them is
// known from the routers' counters only.
package rpcservice

import (
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

const (
	// enoughCancels must be expected before one speaks of how many are heeded.
	enoughCancels = 50
	// triedCancels are gathered once copies are sent to find out, so that what was found
	// holds for an hour before it has faded.
	triedCancels = 2 * enoughCancels
	// mostCancels are remembered: servers are replaced by others.
	mostCancels = 2000
	// fades is how soon half of them are forgotten while none are sent.
	fades = time.Hour
)

// cancelled is how many copies the model says servers would have let go of, all of
// them heeding CANCELs, and of how many they did.
type cancelled struct{ expected, taken float64 }

// heeded is the share of CANCELs that end what they name at the least, and whether
// that is known.
func (c cancelled) heeded() (least float64, known bool) {
	if c.expected < enoughCancels {
		return 0, false
	}
	const z = 1.96 // Wilson's interval, 95 %
	n, p := c.expected, math.Min(1, c.taken/c.expected)
	return math.Max(0, (p+z*z/(2*n)-z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n)))/(1+z*z/n)), true
}

// routerCounts are those of one router since it started.
type routerCounts struct{ copies, compared, taken uint64 }

// cancelsSeen remembers per service what was counted. Its zero value is ready.
type cancelsSeen struct {
	mu sync.Mutex
	of map[types.NamespacedName]counted
}

// counted is what became of copies, and what of it is known by router.
type counted struct {
	at      time.Time
	routers map[string]routerCounts
	sum     cancelled
	// share of the copies that would be let go of; 0: no model was asked yet.
	share float64
}

func (m *cancelsSeen) forget(service types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, service)
}

// get is what is remembered of a service; the zero value: nothing.
func (m *cancelsSeen) get(s *v1alpha1.RpcService) counted {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[client.ObjectKeyFromObject(s)]
}

func (m *cancelsSeen) put(s *v1alpha1.RpcService, c counted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[types.NamespacedName]counted{}
	}
	m.of[client.ObjectKeyFromObject(s)] = c
}

// count adds to what is remembered what the routers counted since the last time, if
// they sent copies that can be taken back; else what is known fades.
func count(s *snapshot) counted {
	c := s.counted
	if c.at.IsZero() {
		c = counted{at: s.now, sum: saidBefore(s.service)}
	}
	sends := sendsCancels(s.service)
	now := map[string]routerCounts{}
	for _, p := range s.routers {
		if h := hedgingOf(s.states[p.Name]); h != nil {
			now[p.Name] = countsOf(h)
			if before, ok := c.routers[p.Name]; ok && sends {
				c.sum.add(before, now[p.Name], c.share)
			}
		}
	}
	left := math.Min(1, mostCancels/math.Max(1, c.sum.expected))
	if !sends {
		left *= math.Exp2(-float64(s.now.Sub(c.at)) / float64(fades))
	}
	c.sum.expected, c.sum.taken = c.sum.expected*left, c.sum.taken*left
	c.at, c.routers = s.now, now
	return c
}

// expecting takes the share of copies that the model says are let go of from now on;
// 0: no model was asked.
func (c counted) expecting(share float64) counted {
	if share > 0 {
		c.share = share
	}
	return c
}

func countsOf(h *dataplane.HedgingState) routerCounts {
	return routerCounts{copies: h.Copies, compared: h.Compared, taken: h.Cancelled}
}

// add leaves probes out, which are never taken back: while copies can be, only
// probes are compared. A router that started again is counted from now on.
func (c *cancelled) add(before, now routerCounts, share float64) {
	if share <= 0 || now.copies < before.copies || now.taken < before.taken {
		return
	}
	copies := now.copies - before.copies
	if now.compared > before.compared { // else old ones were forgotten
		copies -= min(copies, now.compared-before.compared)
	}
	c.expected += share * float64(copies)
	c.taken += float64(now.taken - before.taken)
}

// sendsCancels says whether the routers do, by what was decided last.
func sendsCancels(s *v1alpha1.RpcService) bool {
	h := s.Spec.Hedging
	return h != nil && h.Mode == v1alpha1.HedgingAuto && cancellationOf(h) != v1alpha1.CancellationNone &&
		(render.HedgingMode(s, s.Status.Hedging) == v1alpha1.HedgingLoadAware || render.TriesCancels(s, s.Status.Hedging))
}

// saidBefore is what an operator knew before it was started again.
func saidBefore(s *v1alpha1.RpcService) cancelled {
	if h := s.Status.Hedging; h != nil && h.Cancels != nil {
		return cancelled{expected: float64(h.Cancels.Expected), taken: float64(h.Cancels.TakenBack)}
	}
	return cancelled{}
}

func cancellationOf(h *v1alpha1.RpcServiceHedging) v1alpha1.HedgingCancellation {
	if h.Cancellation == "" {
		return v1alpha1.CancellationNone
	}
	return h.Cancellation
}
