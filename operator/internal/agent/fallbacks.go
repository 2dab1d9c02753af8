// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// tellAgain is how long a node keeps to itself that its clients still fall back for a reason it has told.
const tellAgain = 10 * time.Minute

// answeredByVIP is counted for every connection to a server without agent as well: where there are such servers, which the
// balancers report, it is no news.
const answeredByVIP = "client_fallback_synack"

// whyClientsFallBack are the counters of SYNs and answers that took the fall-back path, with what to look for.
var whyClientsFallBack = []struct{ counter, why string }{
	{"client_syn_unmarked_retry", "SYNs got no answer twice and left without placeholder: the VIP's servers do not answer, or something on the way drops TCP options of that kind"},
	{answeredByVIP, "connections were answered by the VIP itself: the option was lost on the way, or no server of the VIP has an agent"},
	{"client_syn_no_space", "SYNs had no room for the option: their own options (TCP Fast Open, MPTCP) fill the header"},
	{"client_syn_rewrite_failed", "SYNs could not be enlarged by the kernel"},
	{"client_syn_foreign_option", "SYNs carried a TCP option of that kind already"},
}

// fallBacks finds news in the counters of clients that fall back; what a former process told is not told again.
type fallBacks struct {
	told   map[string]uint64 // the counters when they were told of last
	at     map[string]time.Time
	seeded bool
}

// news names each reason for which more clients fell back, and how often, at most once in tellAgain.
func (f *fallBacks) news(now time.Time, counters map[string]uint64, relayed bool) (all []string) {
	if counters == nil {
		return nil
	}
	if !f.seeded {
		f.told, f.at, f.seeded = map[string]uint64{}, map[string]time.Time{}, true
		for _, r := range whyClientsFallBack {
			f.told[r.counter] = counters[r.counter]
		}
		return nil
	}
	for _, r := range whyClientsFallBack {
		n, before := counters[r.counter], f.told[r.counter]
		if relayed && r.counter == answeredByVIP {
			f.told[r.counter] = n
			continue
		}
		if last, was := f.at[r.counter]; n <= before || was && now.Sub(last) < tellAgain {
			continue
		}
		all = append(all, fmt.Sprintf("%d %s (counter %s)", n-before, r.why, r.counter))
		f.told[r.counter], f.at[r.counter] = n, now
	}
	return all
}

// relayed tells whether connections to a VIP go to servers on nodes without agent.
func relayed(p crabplan.Plan, alive map[string]bool) bool {
	return slices.ContainsFunc(p.VIPs, func(v crabplan.VIP) bool {
		return v.Kind == crabplan.LoadBalancer && slices.ContainsFunc(v.Backends, func(b crabplan.Backend) bool {
			return b.State != crabplan.NotReady && !alive[b.Node]
		})
	})
}

// clientsFallBack is one event's text; empty without news.
func clientsFallBack(news []string) string {
	if len(news) == 0 {
		return ""
	}
	return short("clients of this node fall back to the path of all packets: " + strings.Join(news, "; "))
}
