// SPDX-License-Identifier: Apache-2.0

package lancet

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// queue is a service with known answers: FCFS with k workers, in virtual time,
// offered load by several agents. It is also the coordinator's clock.
type queue struct {
	random  *rand.Rand
	service func(*rand.Rand) float64 // seconds
	gap     func(*rand.Rand) float64 // of mean 1
	fail    func(now float64, r *rand.Rand) bool
	late    func(now float64, r *rand.Rand) time.Duration
	rate    []float64 // of each agent, requests per second
	now     float64
	// measuring is how many agents have the role latency; 0: all are symmetric.
	measuring int
	free      []float64 // when each worker is free
	last      []float64 // last transmission of each agent

	mutex   sync.Mutex
	asked   int
	orders  []asked
	loads   [][]float64 // of each agent, in the order they were told
	results []Measurement
	ready   chan struct{}
}

type asked struct {
	samples int
	rate    float64
	limit   time.Duration
}

func newQueue(seed uint64, workers, agents int) *queue {
	q := &queue{
		random: rand.New(rand.NewPCG(seed, 1)),
		gap:    func(r *rand.Rand) float64 { return r.ExpFloat64() },
		fail:   func(float64, *rand.Rand) bool { return false },
		late:   func(float64, *rand.Rand) time.Duration { return 0 },
		rate:   make([]float64, agents), free: make([]float64, workers), last: make([]float64, agents),
		orders: make([]asked, agents), loads: make([][]float64, agents), ready: make(chan struct{}),
	}
	return q
}

func (q *queue) agents() []Agent {
	var out []Agent
	for i := range q.rate {
		out = append(out, queueAgent{q, i})
	}
	return out
}

func (q *queue) Now() time.Time { return time.Unix(0, int64(q.now*1e9)) }

// Sleep lets the load run, unmeasured.
func (q *queue) Sleep(_ context.Context, d time.Duration) error {
	q.run(q.now+d.Seconds(), nil)
	return nil
}

type queueAgent struct {
	q *queue
	i int
}

func (a queueAgent) Load(_ context.Context, perSecond float64) error {
	a.q.mutex.Lock()
	defer a.q.mutex.Unlock()
	a.q.rate[a.i] = perSecond
	a.q.loads[a.i] = append(a.q.loads[a.i], perSecond)
	a.q.last[a.i] = a.q.now
	return nil
}

// Follow: in virtual time nothing is late, so phases are measured one by one.
func (a queueAgent) Follow(ctx context.Context, phases []Phase, rate float64) ([]Measurement, error) {
	var out []Measurement
	for _, p := range phases {
		if err := a.Load(ctx, p.Load); err != nil {
			return nil, err
		}
		m, err := a.Measure(ctx, windowSamples, rate, p.Duration)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func (a queueAgent) Stop(context.Context) error { return nil }

// Measure waits until every agent has its order: they share the queue.
func (a queueAgent) Measure(_ context.Context, samples int, rate float64, limit time.Duration) (Measurement, error) {
	q := a.q
	q.mutex.Lock()
	q.orders[a.i] = asked{samples, rate, limit}
	q.asked++
	ready := q.ready
	if q.asked == len(q.orders) {
		q.results = make([]Measurement, len(q.orders))
		q.run(-1, q.results)
		q.asked, q.ready = 0, make(chan struct{})
		close(ready)
	}
	q.mutex.Unlock()
	<-ready
	return q.results[a.i], nil
}

// run serves requests until a time, or until every agent has its samples.
func (q *queue) run(until float64, out []Measurement) {
	from := q.now
	for out == nil && q.now < until || out != nil && !q.done(out, from) {
		agent := q.next()
		sent := q.now
		lost := q.fail(sent, q.random)
		latency := 0.0
		if !lost {
			latency = q.serve(sent)
		}
		if out != nil {
			q.record(&out[agent], q.orders[agent], agent, sent, latency, lost)
		}
		q.last[agent] = sent
	}
	for i := range out {
		out[i].Elapsed = time.Duration((q.now - from) * 1e9)
	}
}

// next moves to the next transmission: each agent draws its own gaps; with
// exponential ones the first of all is as good as one stream dealt out.
func (q *queue) next() int {
	total := 0.0
	for _, r := range q.rate {
		total += r
	}
	q.now += q.gap(q.random) / total
	pick := q.random.Float64() * total
	for i, r := range q.rate {
		if pick -= r; pick < 0 {
			return i
		}
	}
	return len(q.rate) - 1
}

// serve gives the request to the worker that is free first.
func (q *queue) serve(now float64) float64 {
	first := 0
	for i, t := range q.free {
		if t < q.free[first] {
			first = i
		}
	}
	end := max(now, q.free[first]) + q.service(q.random)
	q.free[first] = end
	return end - now
}

// loadOnly: agents of the role throughput, which come behind those that measure.
func (q *queue) loadOnly(agent int) bool { return q.measuring > 0 && agent >= q.measuring }

func (q *queue) done(out []Measurement, from float64) bool {
	for i, o := range q.orders {
		over := q.now-from >= o.limit.Seconds()
		if q.loadOnly(i) && !over || !q.loadOnly(i) && len(out[i].Samples) < o.samples && !over {
			return false
		}
	}
	return true
}

func (q *queue) record(m *Measurement, o asked, agent int, sent, latency float64, lost bool) {
	m.Sent++
	if lost {
		if m.Failed == nil {
			m.Failed = map[string]uint64{}
		}
		m.Failed["timeout"]++
	}
	if len(m.Late) < 2000 {
		m.Late = append(m.Late, q.late(sent, q.random))
	}
	if q.loadOnly(agent) {
		if len(m.Gaps) < o.samples && q.random.Float64() < o.rate {
			m.Gaps = append(m.Gaps, time.Duration((sent-q.last[agent])*1e9))
		}
		return
	}
	if len(m.Gaps) < 2000 {
		m.Gaps = append(m.Gaps, time.Duration((sent-q.last[agent])*1e9))
	}
	if len(m.Samples) < o.samples && q.random.Float64() < o.rate {
		m.Samples = append(m.Samples, Sample{Sent: time.Duration(sent * 1e9), Latency: duration(latency), Failed: lost})
	}
}

func parallel[T any](n int, one func(i int) T) []T {
	out := make([]T, n)
	var wait sync.WaitGroup
	slots := make(chan struct{}, 2)
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			out[i] = one(i)
			<-slots
		})
	}
	wait.Wait()
	return out
}
