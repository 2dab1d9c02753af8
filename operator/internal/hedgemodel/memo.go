// SPDX-License-Identifier: Apache-2.0

package hedgemodel

import "sync"

// remembered is how many outcomes are kept. One decision asks for some twenty, and
// for the run without copies again with each share of CANCELs that it tries.
const remembered = 256

var memo = struct {
	sync.Mutex
	outcomes map[Service]Outcome
	order    []Service // oldest first
}{outcomes: map[Service]Outcome{}}

// Run is the outcome of a service. It depends on nothing else, so the last ones are
// kept.
func Run(s Service) Outcome {
	s = s.asked()
	memo.Lock()
	out, known := memo.outcomes[s]
	memo.Unlock()
	if known {
		return out
	}
	out = serve(s)
	remember(s, out)
	return out
}

// asked leaves out what means nothing where no copies are sent.
func (s Service) asked() Service {
	if s.BusyShare == 0 {
		s.BudgetShare, s.Cancel, s.Heeded, s.Reaction, s.Lag, s.ProbeShare = 0, None, 0, 0, 0, 0
	}
	return s
}

func remember(s Service, out Outcome) {
	memo.Lock()
	defer memo.Unlock()
	if _, known := memo.outcomes[s]; known {
		return // another decision was as quick
	}
	if len(memo.order) == remembered {
		delete(memo.outcomes, memo.order[0])
		memo.order = memo.order[1:]
	}
	memo.outcomes[s] = out
	memo.order = append(memo.order, s)
}
