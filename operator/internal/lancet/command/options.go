// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/definition"
)

const usage = `usage: lancet [DEFINITION.yaml] [flags]

Measures a latency percentile of a service under open-loop load, and says how far
it may be trusted. The load is described by a file, by flags, or by a file that
flags change. Exit status: 0 every point is conclusive, 1 failed, 2 bad usage,
3 measured but inconclusive (the output says why).

  lancet --target=127.0.0.1:6379 --protocol=redis --rate=2000 --width=200
  lancet sweep.yaml --plot=sweep.svg --json=sweep.json
  lancet sweep.yaml --agent=10.0.0.5:5001 --agent=10.0.0.6:5001 --agent-token-file=token

`

// options are the command line.
type options struct {
	definition definition.Definition
	agents     list
	tokenFile  string
	wait       float64
	summary    string
	local      int
	program    string
	output     string
	json       string
	csv        string
	plot       string
	quiet      bool
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("lancet", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	targets := o.bind(flags)
	files, err := positional(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stderr, usage)
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		return o, err
	}
	if err != nil {
		return o, fmt.Errorf("%w; lancet --help lists the flags", err)
	}
	if len(files) > 1 {
		return o, fmt.Errorf("one load definition at most, got %s", strings.Join(files, " "))
	}
	if len(files) == 1 { // the file first, then flags again on top of it
		if o, err = fromFile(files[0], args); err != nil {
			return o, err
		}
	}
	if err := o.setTargets(*targets); err != nil {
		return o, err
	}
	return o, errors.Join(o.definition.Validate(), o.validate())
}

// positional parses flags before, between and behind the other arguments.
func positional(flags *flag.FlagSet, args []string) ([]string, error) {
	var others []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return others, nil
		}
		others = append(others, flags.Arg(0))
		args = flags.Args()[1:]
	}
}

func fromFile(path string, args []string) (options, error) {
	var o options
	raw, err := os.ReadFile(path)
	if err != nil {
		return o, err
	}
	if o.definition, err = definition.Parse(bytes.TrimSpace(raw)); err != nil {
		return o, fmt.Errorf("%s: %w", path, err)
	}
	flags := flag.NewFlagSet("lancet", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.bind(flags)
	if _, err := positional(flags, args); err != nil {
		return o, err
	}
	if given(flags, "rate") { // one load instead of the file's pattern
		o.definition.Load = definition.Load{RequestsPerSecond: o.definition.Load.RequestsPerSecond}
	}
	return o, nil
}

func given(flags *flag.FlagSet, name string) bool {
	found := false
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// bind ties flags to the fields they set; what the fields hold are the defaults.
func (o *options) bind(flags *flag.FlagSet) *list {
	d, m, c := &o.definition, &o.definition.Measurement, &o.definition.Connections
	targets := &list{}
	flags.Var(targets, "target", "`HOST:PORT` of the service; may be repeated")
	flags.StringVar(&d.Protocol, "protocol", d.Protocol, "one of "+strings.Join(definition.Protocols, ", "))
	flags.Float64Var(&d.Load.RequestsPerSecond, "rate", d.Load.RequestsPerSecond, "`requests` per second")
	flags.StringVar(&d.Interarrival.Kind, "interarrival", d.Interarrival.Kind, "exponential (default) or fixed")
	flags.IntVar(&c.Count, "connections", c.Count, "connections of each agent (default 16)")
	flags.IntVar(&c.Outstanding, "outstanding", c.Outstanding, "requests on a connection at a time (default 1)")
	flags.StringVar(&c.Polling, "polling", c.Polling, "busy or wait (default)")
	flags.StringVar(&d.Requests.Path, "path", d.Requests.Path, "of http (default /)")
	flags.StringVar(&m.Latency, "latency", m.Latency, "response (default: from when the request was due) or service (from its transmission)")
	flags.Float64Var(&m.Percentile, "percentile", m.Percentile, "the percentile that must be known (default 99)")
	flags.Float64Var(&m.WidthMicroseconds, "width", m.WidthMicroseconds, "widest acceptable confidence interval, `microseconds` (default 10)")
	flags.Float64Var(&m.LimitSeconds, "limit", m.LimitSeconds, "`seconds` for each load (default 900)")
	flags.IntVar(&m.LatencyAgents, "latency-agents", m.LatencyAgents, "the first so many agents only measure, the others only make the load (default: all do both)")
	flags.Float64Var(&m.LatencyRequestsPerSecond, "latency-rate", m.LatencyRequestsPerSecond, "`requests` per second of each of these at most (default 4000)")
	flags.Float64Var(&d.Traces.Share, "trace-share", d.Traces.Share, "`share` of the samples of r2p2 whose spans are sent to --otlp-endpoint (default 0)")
	flags.StringVar(&d.Traces.OTLPEndpoint, "otlp-endpoint", d.Traces.OTLPEndpoint, "`URL` of an OTLP receiver, http://collector:4318")
	flags.Var(&o.agents, "agent", "`ADDRESS` of a running bobtail-load --agent: HOST:PORT or unix:PATH; may be repeated")
	flags.StringVar(&o.tokenFile, "agent-token-file", "", "`FILE` with the secret of agents elsewhere")
	flags.Float64Var(&o.wait, "agent-wait", 0, "`seconds` to wait for agents elsewhere to listen")
	flags.StringVar(&o.summary, "summary", "", "also write the wanted percentile of each load, at most 4096 bytes of JSON, to this `file`; the exit status is then 0 for a measurement that is not conclusive, too")
	flags.IntVar(&o.local, "local", 0, "agents to start on this machine (default 1 when there is no --agent)")
	flags.StringVar(&o.program, "agent-program", defaultProgram(), "the agent to start on this machine")
	flags.StringVar(&o.output, "output", "table", "on standard output: table, json or csv")
	flags.StringVar(&o.json, "json", "", "also write JSON to this `file`")
	flags.StringVar(&o.csv, "csv", "", "also write CSV to this `file`")
	flags.StringVar(&o.plot, "plot", "", "also draw latency over throughput into this .svg or .png `file`")
	flags.BoolVar(&o.quiet, "quiet", false, "do not tell what is going on")
	return targets
}

// defaultProgram is beside this program, where the build put it, or on the path.
func defaultProgram() string {
	const name = "bobtail-load"
	if self, err := os.Executable(); err == nil {
		for _, p := range []string{name, "../dataplane/apps/" + name + "/" + name} {
			if path := filepath.Join(filepath.Dir(self), p); executable(path) {
				return path
			}
		}
	}
	return name
}

func executable(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}

func (o *options) setTargets(texts []string) error {
	if len(texts) == 0 {
		return nil
	}
	o.definition.Targets = nil
	for _, text := range texts {
		t, err := definition.ParseTarget(text)
		if err != nil {
			return err
		}
		o.definition.Targets = append(o.definition.Targets, t)
	}
	return nil
}

// validate checks what is not part of the definition.
func (o *options) validate() error {
	var all []error
	if o.output != "table" && o.output != "json" && o.output != "csv" {
		all = append(all, fmt.Errorf("--output=%s: must be table, json or csv", o.output))
	}
	if kind := filepath.Ext(o.plot); o.plot != "" && kind != ".svg" && kind != ".png" {
		all = append(all, fmt.Errorf("--plot=%s: must be a .svg or a .png file", o.plot))
	}
	if o.local < 0 || o.local > 64 { // then nothing can be said of what so many agents would do
		return errors.Join(append(all, fmt.Errorf("--local=%d: must be between 0 and 64", o.local))...)
	}
	if o.local == 0 && len(o.agents) == 0 {
		o.local = 1
	}
	if k, n := o.definition.Measurement.LatencyAgents, o.local+len(o.agents); k >= n && k > 0 {
		all = append(all, fmt.Errorf("--latency-agents=%d: must be fewer than the agents, %d: the others make the load", k, n))
	}
	return errors.Join(append(all, o.checkExperiments())...)
}

// checkExperiments finds before the first request what could not be run.
func (o *options) checkExperiments() error {
	if o.definition.Validate() != nil {
		return nil // said already
	}
	if err := o.definition.CheckExperiments(); err != nil {
		return err
	}
	return lancet.CheckPhases(o.definition.Template(), o.definition.Phases(), o.local+len(o.agents))
}
