// SPDX-License-Identifier: Apache-2.0

package queueing

import "math"

// Model is how requests wait for workers.
type Model struct {
	// Servers is how many workers share one queue.
	Servers int
	// ExtraServices is how many further service times those wait who have to
	// wait at all, 0 to 2: the request was put behind a busy worker although
	// another one became free earlier.
	ExtraServices int
}

// tail is Pr[sojourn > t] of M/G/k as a function of the load of each worker.
// Whether one waits is Erlang's C; a wait is taken as exponential with the mean
// of Lee and Longton, which is exact for exponential service and for one
// worker close to saturation.
func (m Model) tail(s Service, t float64) func(rho float64) float64 {
	behind := s.plus(m.ExtraServices)
	total, beyond := behind.total(), s.Beyond(t)
	perFree := 2 / ((1 + s.SquaredVariation()) * s.Mean())
	return func(rho float64) float64 {
		wait := ErlangC(m.Servers, rho)
		theta := perFree * float64(m.Servers) * (1 - rho)
		sum := 0.0
		for i, x := range behind.Seconds {
			sum += behind.Weights[i] * math.Exp(-theta*math.Max(0, t-x))
		}
		return (1-wait)*beyond + wait*sum/total
	}
}

// highest load that is looked at: above it, queues take longer to settle than
// any window lasts.
const highestLoad = 0.999

// loadSteps halve the doubt to a hundred-thousandth.
const loadSteps = 17

// MaxLoad is the highest load of each worker, 0 to 0.999, at which the share p
// of requests has a sojourn time of at most limit seconds; 0 when service alone
// takes longer.
func (m Model) MaxLoad(s Service, p, limit float64) float64 {
	if len(s.Seconds) == 0 || s.Beyond(limit) > 1-p {
		return 0
	}
	tail := m.tail(s, limit)
	low, high := 0.0, highestLoad
	for range loadSteps {
		rho := (low + high) / 2
		if tail(rho) <= 1-p {
			low = rho
		} else {
			high = rho
		}
	}
	return low
}

// MeanWait is E[wait] in seconds at load rho.
func (m Model) MeanWait(s Service, rho float64) float64 {
	return ErlangC(m.Servers, rho) * (1 + s.SquaredVariation()) / 2 * s.Mean() / (float64(m.Servers) * (1 - rho))
}
