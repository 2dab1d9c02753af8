// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/queueing"
)

// The program that runs the shipped policies in virtual time.
const simulatorName, noSimulator = "bobtail-sim", "none"

// What it is asked for at most: five hundred requests beyond p99.99 in a run, of
// which there are dozens.
const mostRequests = 5_000_000

// simulation is its answer: the fewest workers for each queue depth it was asked
// about, or for a policy without one.
type simulation struct {
	rows []simulated
	why  string // there is none, because
}

type simulated struct {
	Policy  string `json:"policy"`
	Workers int    `json:"least_workers"` // 0: more than it can
}

// best has the fewest workers, and of those the smallest depth.
func (s *simulation) best() (row simulated) {
	for _, r := range s.rows {
		if r.Workers > 0 && (row.Workers == 0 || r.Workers < row.Workers) {
			row = r
		}
	}
	return row
}

// simulate has the simulator answer the same question with the policy itself. That
// the program of the PATH is not there, or is an old one, is said and no failure.
func (p *planned) simulate(ctx context.Context) (*simulation, error) {
	program := p.simulator
	if program == noSimulator {
		return &simulation{why: "left out by --simulator=none"}, nil
	}
	if program == "" {
		found, err := exec.LookPath(simulatorName)
		if err != nil {
			return &simulation{why: simulatorName + " is not in the PATH (--simulator=FILE for another place)"}, nil
		}
		program = found
	}
	if p.requests() > mostRequests {
		return &simulation{why: fmt.Sprintf("p%s takes %.0f requests a run to tell; %d are the most it is asked for", p.percentile, p.requests(), mostRequests)}, nil
	}
	patient, cancel := context.WithTimeout(ctx, p.simulateFor)
	defer cancel()
	rows, err := p.askSimulator(patient, program)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case patient.Err() != nil:
		return &simulation{why: fmt.Sprintf("%s was not done after %v", program, p.simulateFor)}, nil
	case err != nil && p.simulator == "":
		return &simulation{why: fmt.Sprintf("%s: %v", program, err)}, nil
	case err != nil:
		return nil, fmt.Errorf("--simulator=%s: %w", program, err)
	}
	return &simulation{rows: rows}, nil
}

func (p *planned) askSimulator(ctx context.Context, program string) ([]simulated, error) {
	folder, err := os.MkdirTemp("", "bobtail-plan-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	times, answer := filepath.Join(folder, "times.csv"), filepath.Join(folder, "answer.json")
	if err := os.WriteFile(times, serviceTimes(p.Service), 0o600); err != nil {
		return nil, err
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, append(p.simulatorArgs(times), "--json="+answer)...)
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	text, err := os.ReadFile(answer)
	if err != nil {
		return nil, err
	}
	var out struct{ Rows []simulated }
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	if len(out.Rows) == 0 {
		return nil, errors.New("its answer has no rows")
	}
	return out.Rows, nil
}

// serviceTimes as the simulator reads them: the measured histogram, bucket by bucket.
func serviceTimes(s queueing.Service) []byte {
	var b bytes.Buffer
	b.WriteString("serviceMicroseconds,count\n")
	for i, x := range s.Seconds {
		fmt.Fprintf(&b, "%.3f,%.0f\n", x*1e6, s.Weights[i])
	}
	return b.Bytes()
}

// simulatorArgs asks for the fewest workers. The way to the worker is half of the
// round trip, and the rest of the overhead comes with the reply.
func (p *planned) simulatorArgs(times string) []string {
	distribution := []string{"--distribution=trace:" + times}
	if p.distribution != "" {
		distribution = []string{"--distribution=" + p.distribution, "--mean=" + p.meanText}
	}
	there := p.loop() / 2
	args := append([]string{"policy", "--policy=" + p.simulatedPolicies()}, distribution...)
	return append(args, fmt.Sprintf("--slo=%g", p.latency.Seconds()*1e6), fmt.Sprintf("--rate=%g", p.rate), "--percentile="+p.percentile,
		fmt.Sprintf("--dispatch=%g", there*1e6), fmt.Sprintf("--feedback=%g", there*1e6),
		fmt.Sprintf("--reply=%g", max(0, p.Overhead-there)*1e6), fmt.Sprintf("--requests=%.0f", p.requests()), "--seeds=3")
}

// requests of a run: so many that five hundred lie beyond the percentile.
func (p *planned) requests() float64 { return max(200_000, math.Round(500/(1-p.P))) }

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }

// loop is the round trip from router to worker, in seconds. What a request takes
// besides waiting and service holds it, and more.
func (p *planned) loop() float64 {
	if p.roundTrip > 0 || !p.bounded() {
		return p.roundTrip.Seconds()
	}
	return p.Overhead
}

// hides is the depth at which the round trip is hidden behind mean service times; a
// histogram's mean is not exact, and one n more for a thousandth is not meant.
func (p *planned) hides() int { return int(math.Ceil(p.loop()/p.Service.Mean() + 1 - 1e-3)) }

// bounded: the policy has a queue depth.
func (p *planned) bounded() bool {
	traits, _ := p.router.Policy.Traits()
	return traits.Sight == v1alpha1.SeesBoundedQueues && p.router.Placement != v1alpha1.PlacementNone
}

// simulatedPolicies are those around the depth that hides the round trip,
// and the service's own.
func (p *planned) simulatedPolicies() string {
	const fewer, more, deepest = 2, 4, 64
	if p.router.Placement == v1alpha1.PlacementNone {
		return "Direct"
	}
	if !p.bounded() {
		return string(p.router.Policy)
	}
	own := int(p.router.WorkerQueueDepth)
	if p.loop() <= 0 {
		return fmt.Sprintf("JBSQ:%d", own)
	}
	hides := min(deepest, p.hides())
	from, to := max(1, hides-fewer), min(deepest, hides+more)
	list := fmt.Sprintf("JBSQ:%d-%d", from, to)
	if own < from || own > to {
		list += fmt.Sprintf(",JBSQ:%d", own)
	}
	return list
}

// printDepth says which n the simulator found, and how many workers the others need.
func (p *planned) printDepth(out io.Writer, s *simulation) {
	best := s.best()
	if s.why != "" {
		fmt.Fprintf(out, "\nsimulated: no: %s\n", s.why)
	}
	switch {
	case !p.bounded():
		return
	case p.loop() <= 0:
		fmt.Fprintln(out, "\nn: give --round-trip (router to worker and back) for the queue depth")
	case s.why != "":
		fmt.Fprintf(out, "\nn: %d hides %s behind service times of %s, by rule of thumb; more for very variable ones\n", p.hides(), p.loopText(), short(seconds(p.Service.Mean())))
	case best.Workers > 0:
		var all []string
		for _, r := range s.rows {
			if r.Workers > 0 {
				all = append(all, fmt.Sprintf("%s %d", r.Policy, r.Workers))
			}
		}
		n := strings.TrimSuffix(strings.TrimPrefix(best.Policy, "JBSQ("), ")")
		fmt.Fprintf(out, "\nn: %s, simulated with %s; workers needed: %s\n", n, p.loopText(), strings.Join(all, ", "))
	}
}

func (p *planned) loopText() string {
	if p.roundTrip > 0 {
		return "a round trip of " + short(p.roundTrip)
	}
	return "a round trip of at most the overhead, " + short(seconds(p.Overhead))
}
