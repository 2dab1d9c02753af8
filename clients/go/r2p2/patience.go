// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"net/netip"
	"time"
)

// Who may hold a worker's credit with a request that is not whole yet (R-63,
// What was held in vain is a debt, of its source and, where that is not
// proven, of all strangers together; who is in debt gives the credit back at
// once. Nobody's request is refused by it.
const (
	patienceSources = 256 // remembered at once; when there are more, those of no more use go first
	patienceProven  = 8   // whole requests in a row
	patienceSource  = 100 // a source holds in vain for 1/100 of the time of one credit at most,
	patienceAll     = 20  // and all strangers together for 1/20
)

type patienceOf struct {
	until time.Time // in debt
	whole int       // requests in a row, at most patienceProven
}

type patience struct {
	until  time.Time // strangers are in debt
	source map[netip.Addr]*patienceOf
}

func (p *patience) allows(who netip.Addr, now time.Time) bool {
	s := p.source[who]
	if s != nil && s.until.After(now) {
		return false
	}
	return s != nil && s.whole >= patienceProven || !p.until.After(now)
}

// of is what is known of a source. Where there is no room, who is not in debt
// is forgotten first, and else somebody.
func (p *patience) of(who netip.Addr, now time.Time) *patienceOf {
	if s := p.source[who]; s != nil {
		return s
	}
	if p.source == nil {
		p.source = map[netip.Addr]*patienceOf{}
	}
	if len(p.source) >= patienceSources {
		var last netip.Addr
		for a, s := range p.source {
			last = a
			if !s.until.After(now) {
				break
			}
		}
		delete(p.source, last)
	}
	s := &patienceOf{}
	p.source[who] = s
	return s
}

// becameWhole counts a request whose rest came.
func (p *patience) becameWhole(who netip.Addr, now time.Time) {
	s := p.of(who, now)
	s.whole = min(s.whole+1, patienceProven)
}

// heldInVain charges a credit that was held for so long.
func (p *patience) heldInVain(who netip.Addr, now time.Time, held time.Duration) {
	s := p.of(who, now)
	if s.whole < patienceProven {
		p.until = later(p.until, now).Add(patienceAll * held)
	}
	s.whole = 0
	s.until = later(s.until, now).Add(patienceSource * held)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
