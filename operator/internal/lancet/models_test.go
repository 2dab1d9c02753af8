// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"math/rand/v2"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/queueing"
)

const unit = 10e-6 // mean service time, seconds

func exponential(r *rand.Rand) float64 { return unit * r.ExpFloat64() }
func fixed(*rand.Rand) float64         { return unit }

func units(t float64) time.Duration { return time.Duration(t * unit * 1e9) }

// model is a queue whose 99th percentile is known.
type model struct {
	name    string
	workers int
	rho     float64
	service func(*rand.Rand) float64
	truth   float64 // in mean service times
	split   bool    // one agent measures, two make the load
}

var heavyModels = []model{
	{"mm1", 1, 0.7, exponential, queueing.MM1Quantile(0.7, 0.99), false},
	{"md1", 1, 0.7, fixed, 7.485, false},
	{"mmk", 4, 0.8, exponential, queueing.MMkQuantile(4, 0.8, 0.99), false},
}

// light is quick to measure: its samples are nearly independent from the start.
var light = model{"mm4", 4, 0.5, exponential, queueing.MMkQuantile(4, 0.5, 0.99), false}

// lightModels are for every day.
var lightModels = []model{
	{"mm1", 1, 0.3, exponential, queueing.MM1Quantile(0.3, 0.99), false},
	{"md1", 1, 0.3, fixed, 2.891, false},
	light,
	{"mm4_split", 4, 0.5, exponential, queueing.MMkQuantile(4, 0.5, 0.99), true},
}

func (m model) experiment() Experiment {
	e := Experiment{
		Load: m.rho * float64(m.workers) / unit, Percentile: 0.99,
		Width: units(m.truth / 8),
	}
	if m.split {
		e.LatencyAgents = 1
	}
	return e
}

func (m model) queue(seed uint64) *queue {
	agents, measuring := 2, 0
	if m.split {
		agents, measuring = 3, 1
	}
	q := newQueue(seed, m.workers, agents)
	q.measuring = measuring
	q.service = m.service
	return q
}
