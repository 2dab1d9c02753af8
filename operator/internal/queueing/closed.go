// SPDX-License-Identifier: Apache-2.0

// Package queueing holds the closed forms of queueing theory that measurements
// and plans are compared with (docs/reference/protocol.md, Q-50…Q-53). Times are in units
// of the mean service time, rho is the load of one worker, 0 ≤ rho < 1.
package queueing

import "math"

// MM1Quantile is the p-quantile of the sojourn time of M/M/1.
func MM1Quantile(rho, p float64) float64 { return -math.Log1p(-p) / (1 - rho) }

// ErlangC is the probability that an arrival at M/M/k finds every worker busy.
func ErlangC(k int, rho float64) float64 {
	a := float64(k) * rho
	b := 1.0
	for i := 1; i <= k; i++ {
		b = a * b / (float64(i) + a*b)
	}
	return b / (1 - rho*(1-b))
}

// MMkTail is Pr[sojourn > t] of M/M/k.
func MMkTail(k int, rho, t float64) float64 {
	c, theta := ErlangC(k, rho), float64(k)*(1-rho)
	if math.Abs(theta-1) < 1e-9 {
		return math.Exp(-t) * (1 + c*t)
	}
	return (1-c)*math.Exp(-t) + c*(math.Exp(-theta*t)-theta*math.Exp(-t))/(1-theta)
}

// MMkQuantile is the p-quantile of the sojourn time of M/M/k.
func MMkQuantile(k int, rho, p float64) float64 {
	low, high := 0.0, 1.0
	for MMkTail(k, rho, high) > 1-p {
		high *= 2
	}
	for range 100 {
		middle := (low + high) / 2
		if MMkTail(k, rho, middle) > 1-p {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// MG1Wait is the mean waiting time of M/G/1 whose service time has squared
// coefficient of variation c2.
func MG1Wait(rho, c2 float64) float64 { return rho * (1 + c2) / (2 * (1 - rho)) }
