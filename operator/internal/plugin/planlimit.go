// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/queueing"
)

// floor is what no number of workers takes away: the service time alone and what
// comes on top of it; tooHigh says that it is above the objective.
func (p *planned) floor() (text string, tooHigh bool) {
	text = fmt.Sprintf("p%s of the service time alone is %s", p.percentile, short(serviceQuantile(p)))
	if p.overhead > 0 {
		text += fmt.Sprintf(" and %s of overhead come on top (%s)", short(p.overhead), p.overheadFrom)
	}
	return text, p.Service.Beyond(p.Limit-p.Overhead) > 1-p.P
}

// refusal says which limit it is that no number of workers meets.
func (p *planned) refusal(estimate func(int) queueing.Estimate) error {
	floor, tooHigh := p.floor()
	resting := p.rate * p.Service.Mean()
	switch {
	case tooHigh:
		return fmt.Errorf("no number of workers does it: %s, more than the objective of %s: make the service faster, or allow it more time", floor, short(p.latency))
	case resting > float64(p.most()):
		return fmt.Errorf("%.0f requests/s of %s on average keep %.0f workers busy without a rest, and a service has at most %d in replicas of %d: divide the load among several services%s",
			p.rate, short(time.Duration(p.Service.Mean()*1e9)), resting, p.most(), p.perReplica, p.larger())
	}
	return fmt.Errorf("%d workers, the most a service has in replicas of %d, keep p%s within %s up to %.0f requests/s at best: divide the load among several services%s",
		p.most(), p.perReplica, p.percentile, short(p.latency), estimate(p.most()).High, p.larger())
}

// larger is the advice to small replicas, of which a service has too few.
func (p *planned) larger() string {
	if (&planned{planOptions: planOptions{perReplica: p.perReplica + 1}}).most() > p.most() {
		return ", or take larger replicas (--workers-per-replica)"
	}
	return ""
}

// doubt says why no number of workers is sure to do, where some may.
func (p *planned) doubt(most queueing.Estimate) string {
	if most.Low >= 1 {
		return fmt.Sprintf("surely: at worst, %d workers, the most a service has in replicas of %d, do %.0f requests/s%s", p.most(), p.perReplica, most.Low, p.larger())
	}
	floor, _ := p.floor()
	return fmt.Sprintf("surely: none; %s, and from this sample it may as well be above the objective", floor)
}

// unsure says that the sample is too small for its percentile: fewer than ten
// service times lie beyond it.
func (p *planned) unsure() string {
	if p.samples == 0 || float64(p.samples)*(1-p.P) >= 10*(1-1e-9) {
		return ""
	}
	return fmt.Sprintf("p%s needs %.0f service times; with %d its tail is a guess", p.percentile, 10/(1-p.P), p.samples)
}
