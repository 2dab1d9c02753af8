// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/judge"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Options of a run.
type Options struct {
	Root, Simulator, Measurements string
	Events, Seed, Frames          uint64
	Segments                      uint64  // for the balancer of connections
	Messages                      uint64  // for the aggregator
	Requests                      uint64  // for the flow-control box
	Beside                        uint64  // packets for the router and the one in software
	TemplateNS                    float64 // of the load generator
}

type measurement struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// runner notes figures as they are found.
type runner struct {
	Options
	out     io.Writer
	figures []measurement
	wrong   int
	shells  map[string]*model.Program            // of the router
	all     map[string]map[string]*model.Program // by program and architecture
	doubles uint64
	odd     uint64 // differences between architectures
}

func (r *runner) note(name string, value uint64) {
	r.figures = append(r.figures, measurement{name, float64(value), "count"})
	fmt.Fprintf(r.out, "%-34s %d\n", name, value)
}

// fault notes what was found wrong; the figures say how much.
func (r *runner) fault(lines ...string) {
	for _, l := range lines {
		r.wrong++
		if r.wrong <= 40 {
			fmt.Fprintln(r.out, "  "+l)
		}
	}
}

var (
	shellNames   = []string{"v1model", "tna"}
	programNames = []string{"router", "crab", "slog", "aggregator", "box"}
)

// Run proves everything and writes the figures, also when something failed.
func Run(o Options, out io.Writer) error {
	r := &runner{Options: o, out: out, all: map[string]map[string]*model.Program{}}
	for _, name := range programNames {
		r.all[name] = map[string]*model.Program{}
		for _, s := range shellNames {
			p, err := model.Load(filepath.Join(o.Root, "dataplane/p4", name, s+".p4"), nil)
			if err != nil {
				return err
			}
			r.all[name][s] = p
		}
	}
	r.shells = r.all["router"]
	steps := []func() error{r.cases, r.vectors, r.discipline, r.crab, r.slog, r.aggregator, r.box, r.architectures, r.lockstep, r.beside, r.mutations}
	var failed []error
	for _, step := range steps {
		failed = append(failed, step())
	}
	if err := r.write(); err != nil {
		failed = append(failed, err)
	}
	if r.wrong > 0 {
		failed = append(failed, fmt.Errorf("%d findings (seed %d)", r.wrong, o.Seed))
	}
	return errors.Join(failed...)
}

func (r *runner) write() error {
	if r.Measurements == "" {
		return nil
	}
	text, err := json.MarshalIndent(r.figures, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.Measurements, append(text, '\n'), 0o644)
}

func (r *runner) cases() error {
	run, bad := 0, 0
	for _, name := range programNames {
		for _, s := range shellNames {
			n, failed, err := Cases(filepath.Join(r.Root, "dataplane/p4", name, "stf"), r.all[name][s])
			if err != nil {
				return err
			}
			r.fault(failed...)
			run, bad = run+n, bad+len(failed)
		}
	}
	r.note("p4_cases_run", uint64(run))
	r.note("p4_cases_failed", uint64(bad))
	return nil
}

func (r *runner) vectors() error {
	run, bad := 0, 0
	for _, s := range shellNames {
		n, failed, err := Vectors(filepath.Join(r.Root, "dataplane/tests/vectors/r2p2.json"), r.shells[s])
		if err != nil {
			return err
		}
		more, others, err := AggregatorVectors(filepath.Join(r.Root, "dataplane/tests/vectors/r2p2.json"), r.all["aggregator"][s])
		if err != nil {
			return err
		}
		asked, boxed, err := BoxVectors(filepath.Join(r.Root, "dataplane/tests/vectors/r2p2.json"), r.all["box"][s])
		if err != nil {
			return err
		}
		r.fault(failed...)
		r.fault(others...)
		r.fault(boxed...)
		run, bad = run+n+more+asked, bad+len(failed)+len(others)+len(boxed)
	}
	r.note("p4_vectors_run", uint64(run))
	r.note("p4_vector_failures", uint64(bad))
	return nil
}

// discipline judges the programs for Tofino. A router's pass asks as many workers as its credit registers before the last
// stage hold.
func (r *runner) discipline() error {
	for _, name := range programNames {
		p := r.all[name]["tna"]
		in, out := judge.Gress(p, p.Ingress), judge.Gress(p, p.Egress)
		r.fault(in.Findings...)
		r.fault(out.Findings...)
		r.doubles += uint64(in.DoubleAccesses + out.DoubleAccesses)
		r.note("p4_stages_"+name+"_ingress", uint64(in.Stages))
		r.note("p4_stages_"+name+"_egress", uint64(out.Stages))
		if name == "router" {
			r.note("p4_workers_per_pass", uint64(workersPerPass(p, in)))
		}
	}
	r.note("p4_register_double_accesses", r.doubles)
	return nil
}

func workersPerPass(p *model.Program, in *judge.Verdict) int {
	workers := 0
	for _, reg := range p.Registers {
		if strings.HasPrefix(reg.Name, bed.Control+"credits_") && in.At[reg.Name] < judge.Stages-1 {
			workers += len(reg.Lanes)
		}
	}
	return workers
}

// crab gives the same segments to the balancer and to the software's one.
func (r *runner) crab() error {
	lines, err := r.lines("crab", r.Segments, r.Seed)
	if err != nil {
		return err
	}
	one, err := PlayCrab(bytes.NewReader(lines), r.all["crab"]["v1model"], r.all["crab"]["tna"], 1000)
	if err != nil {
		return err
	}
	r.fault(one.First...)
	r.odd += one.ShellDifferences
	r.note("p4_crab_segments", one.Events)
	r.note("p4_crab_differences", one.Differences+one.Odd)
	r.note("p4_crab_options_unread", one.Unread)
	return nil
}

// aggregator gives the same messages to the program and to the software's one.
func (r *runner) aggregator() error {
	lines, err := r.lines("aggregator", r.Messages, r.Seed)
	if err != nil {
		return err
	}
	one, err := PlayAggregator(bytes.NewReader(lines), r.all["aggregator"]["v1model"], r.all["aggregator"]["tna"], 1000)
	if err != nil {
		return err
	}
	r.fault(one.First...)
	r.odd += one.ShellDifferences
	r.note("p4_aggregator_events", one.Events)
	r.note("p4_aggregator_differences", one.Differences+one.Odd)
	r.note("p4_aggregator_recirculations", one.Recirculations)
	return nil
}

// box gives the same requests to the program and to the software's one.
func (r *runner) box() error {
	lines, err := r.lines("box", r.Requests, r.Seed)
	if err != nil {
		return err
	}
	one, err := PlayBox(bytes.NewReader(lines), r.all["box"]["v1model"], r.all["box"]["tna"], 1000)
	if err != nil {
		return err
	}
	r.fault(one.First...)
	r.odd += one.ShellDifferences
	r.note("p4_box_events", one.Events)
	r.note("p4_box_differences", one.Differences+one.Odd)
	r.note("p4_box_above_limit", one.AboveLimit)
	return nil
}

// slog has a load made and measured in virtual time.
func (r *runner) slog() error {
	worst, wrong := 0.0, uint64(0)
	for _, s := range shellNames {
		one, err := Slog(r.all["slog"][s], Load{Rate: 2e6, TemplateNS: r.TemplateNS, Packets: 1 << 16}, r.Seed)
		if err != nil {
			return err
		}
		r.fault(one.First...)
		worst, wrong = max(worst, one.RateError), wrong+one.LatencyErrors+one.Odd
	}
	n, first, err := SlogShells(r.all["slog"]["v1model"], r.all["slog"]["tna"], r.Seed, r.Frames)
	if err != nil {
		return err
	}
	r.fault(first...)
	r.odd += n
	r.figures = append(r.figures, measurement{"slog_rate_error", worst, "ratio"})
	fmt.Fprintf(r.out, "%-34s %g\n", "slog_rate_error", worst)
	r.note("slog_latency_errors", wrong)
	return nil
}

func (r *runner) architectures() error {
	total := r.odd
	const parts = 4
	for k := range uint64(parts) {
		n, first, err := Shells(r.shells["v1model"], r.shells["tna"], r.Seed+k, r.Frames/parts)
		if err != nil {
			return err
		}
		r.fault(first...)
		total += n
	}
	r.note("p4_shell_differences", total)
	return nil
}

// lines of the simulator's switch.
func (r *runner) lines(program string, events, seed uint64) ([]byte, error) {
	cmd := exec.Command(r.Simulator, "switch", "--program="+program, fmt.Sprintf("--events=%d", events), fmt.Sprintf("--seed=%d", seed))
	var said bytes.Buffer
	cmd.Stderr = &said
	lines, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", r.Simulator, err, said.String())
	}
	return lines, nil
}

// lockstep plays the simulator's lines with both architectures. The figure counts the events of one.
func (r *runner) lockstep() error {
	lines, err := r.lines("router", r.Events, r.Seed)
	if err != nil {
		return err
	}
	var all Lockstep
	least := ^uint64(0)
	for _, s := range shellNames {
		one, err := Play(bytes.NewReader(lines), r.shells[s], 1000)
		if err != nil {
			return err
		}
		r.fault(one.First...)
		least = min(least, one.Events)
		all.Differences += one.Differences + one.Odd
		all.AboveN += one.AboveN
		all.Missing += one.Missing
	}
	r.note("p4_lockstep_events", least)
	r.note("p4_lockstep_differences", all.Differences)
	r.note("p4_outstanding_above_n", all.AboveN)
	r.note("p4_credits_missing_after_idle", all.Missing)
	return nil
}

// beside gives the same packets to the program and to the router in software. The figure counts those of one architecture.
func (r *runner) beside() error {
	lines, err := r.lines("software", r.Beside, r.Seed)
	if err != nil {
		return err
	}
	events, differences := ^uint64(0), uint64(0)
	for _, s := range shellNames {
		one, err := PlayBeside(bytes.NewReader(lines), r.shells[s], 1000)
		if err != nil {
			return err
		}
		r.fault(one.First...)
		events = min(events, one.Events)
		differences += one.Differences + one.Odd + one.AboveN
	}
	r.note("p4_software_events", events)
	r.note("p4_software_differences", differences)
	return nil
}

const (
	mutationEvents   = 20_000
	mutationSegments = 5_000
	mutationMessages = 20_000
	mutationRequests = 20_000
	mutationBeside   = 30_000
)

func (r *runner) mutations() error {
	rows, err := Mutations(filepath.Join(r.Root, "dataplane/tests/p4/mutations.yaml"))
	if err != nil {
		return err
	}
	lines, err := r.lines("router", mutationEvents, r.Seed+1)
	if err != nil {
		return err
	}
	segments, err := r.lines("crab", mutationSegments, r.Seed)
	if err != nil {
		return err
	}
	messages, err := r.lines("aggregator", mutationMessages, r.Seed)
	if err != nil {
		return err
	}
	requests, err := r.lines("box", mutationRequests, r.Seed)
	if err != nil {
		return err
	}
	beside, err := r.lines("software", mutationBeside, r.Seed)
	if err != nil {
		return err
	}
	b := &Bench{Root: r.Root, Segments: segments, Messages: messages, Requests: requests, Beside: beside, Vectors: filepath.Join(r.Root, "dataplane/tests/vectors/r2p2.json"), Lines: lines, Frames: 3000}
	planted, missed := uint64(0), uint64(0)
	for _, m := range rows {
		what, err := b.Plant(m)
		if err != nil {
			return err
		}
		planted++
		if what == "" {
			missed++
			r.fault("NOT NOTICED " + m.Name + ": " + m.Why)
			continue
		}
		fmt.Fprintf(r.out, "  noticed %s: %.110s\n", m.Name, what)
	}
	r.note("p4_mutations_planted", planted)
	r.note("p4_mutations_missed", missed)
	return nil
}
