// SPDX-License-Identifier: Apache-2.0

// p4check is a test tool: it reads the P4 programs of dataplane/p4 themselves, in a strict subset of P4_16, and runs them.
// It is no compiler and no switch.
package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/bobtail-dev/bobtail/hack/p4/judge"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
	"github.com/bobtail-dev/bobtail/hack/p4/stf"
	"github.com/bobtail-dev/bobtail/hack/p4/suite"
)

const usage = `usage: p4check COMMAND [options] [FILE]

A test tool: reads P4 programs in a strict subset of P4_16, for v1model and TNA, and runs them. It is no compiler.

  check FILE.p4              is the program in the subset?
  p4info FILE.p4             what a control plane may name, as protobuf text
  judge FILE.p4              Tofino's discipline: accesses, register actions, stages by dependency (an estimate)
  stf FILE.p4 FILE.stf...    replays test files in the compiler's format
  trace FILE.p4 FILE.stf     the same, and prints what every packet met
  lockstep FILE.p4           compares with lines of bobtail-sim switch, read from standard input
  aggregator TNA.p4 V1.p4  the same with lines of bobtail-sim switch --program=aggregator, both architectures
  suite [options]            all that make p4 proves
  mutate --check             every planted bug finds its text

exit code: 0 fine, 1 refused, different or not noticed, 2 usage
`

var errUsage = errors.New("see p4check --help")

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "p4check:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	commands := map[string]func([]string) error{"check": check, "p4info": p4info, "judge": judgeProgram, "stf": replay, "trace": trace,
		"lockstep": lockstep, "aggregator": aggregator, "suite": runSuite, "mutate": mutate}
	if args[0] == "--help" || args[0] == "-h" {
		fmt.Print(usage)
		return nil
	}
	command := commands[args[0]]
	if command == nil {
		return fmt.Errorf("unknown command %s; %w", args[0], errUsage)
	}
	return command(args[1:])
}

func load(args []string, most int) (*model.Program, error) {
	if len(args) == 0 || len(args) > most {
		return nil, errUsage
	}
	return model.Load(args[0], nil)
}

func check(args []string) error {
	p, err := load(args, 1)
	if err == nil {
		fmt.Println(p.Describe())
	}
	return err
}

func p4info(args []string) error {
	p, err := load(args, 1)
	if err != nil {
		return err
	}
	text, err := p.P4InfoText()
	fmt.Print(text)
	return err
}

func judgeProgram(args []string) error {
	p, err := load(args, 1)
	if err != nil {
		return err
	}
	findings := 0
	for _, g := range []struct {
		name  string
		nodes []*model.Node
	}{{"ingress", p.Ingress}, {"egress", p.Egress}} {
		v := judge.Gress(p, g.nodes)
		fmt.Printf("%s: %d stages by dependency (an estimate), %d double accesses\n", g.name, v.Stages, v.DoubleAccesses)
		for stage := range v.Stages {
			if names := v.Registers(stage); len(names) > 0 {
				fmt.Printf("  stage %2d: %s\n", stage, strings.Join(names, ", "))
			}
		}
		for _, f := range v.Findings {
			fmt.Println(f)
		}
		findings += len(v.Findings)
	}
	if findings > 0 {
		return fmt.Errorf("%d findings", findings)
	}
	return nil
}

func replayFile(p *model.Program, file string, trace func(string, ...any)) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	m := model.NewMachine(p)
	m.Trace = trace
	r, err := stf.Replay(file, string(text), m)
	if err != nil {
		return err
	}
	for _, f := range r.Failed {
		fmt.Println(f)
	}
	if len(r.Failed) > 0 {
		return fmt.Errorf("%s: %d of what was expected did not come", file, len(r.Failed))
	}
	fmt.Printf("%s: %d packets in, %d expected came\n", file, r.Packets, r.Expected)
	return nil
}

func replay(args []string) error {
	if len(args) < 2 {
		return errUsage
	}
	p, err := model.Load(args[0], nil)
	if err != nil {
		return err
	}
	for _, file := range args[1:] {
		if err := replayFile(p, file, nil); err != nil {
			return err
		}
	}
	return nil
}

func trace(args []string) error {
	if len(args) != 2 {
		return errUsage
	}
	p, err := model.Load(args[0], nil)
	if err != nil {
		return err
	}
	return replayFile(p, args[1], func(format string, a ...any) {
		for i, v := range a {
			if b, ok := v.([]byte); ok {
				a[i] = hex.EncodeToString(b)
			}
		}
		fmt.Printf(format+"\n", a...)
	})
}

func lockstep(args []string) error {
	p, err := load(args, 1)
	if err != nil {
		return err
	}
	r, err := suite.Play(bufio.NewReader(os.Stdin), p, 10)
	if err != nil {
		return err
	}
	for _, f := range r.First {
		fmt.Println(f)
	}
	fmt.Printf("%d events, %d differences, %d above n, %d without their credits at rest\n", r.Events, r.Differences, r.AboveN, r.Missing)
	if r.Differences+r.AboveN+r.Missing > 0 {
		return errors.New("not in lockstep")
	}
	return nil
}

func aggregator(args []string) error {
	if len(args) != 2 {
		return errUsage
	}
	tna, err := model.Load(args[0], nil)
	if err != nil {
		return err
	}
	v1, err := model.Load(args[1], nil)
	if err != nil {
		return err
	}
	r, err := suite.PlayAggregator(bufio.NewReader(os.Stdin), v1, tna, 10)
	if err != nil {
		return err
	}
	for _, f := range r.First {
		fmt.Println(f)
	}
	fmt.Printf("%d messages, %d differences, %d between the architectures, %d recirculations\n", r.Events, r.Differences+r.Odd, r.ShellDifferences,
		r.Recirculations)
	if r.Differences+r.Odd+r.ShellDifferences > 0 {
		return errors.New("not in lockstep")
	}
	return nil
}

const mutationRows = "dataplane/tests/p4/mutations.yaml"

func mutate(args []string) error {
	if len(args) != 1 || args[0] != "--check" {
		return errUsage
	}
	rows, err := suite.Mutations(mutationRows)
	if err != nil {
		return err
	}
	if err := (&suite.Bench{Root: "."}).Check(rows); err != nil {
		return err
	}
	fmt.Printf("%d planted bugs find their text\n", len(rows))
	return nil
}

func runSuite(args []string) error {
	flags := flag.NewFlagSet("suite", flag.ContinueOnError)
	o := suite.Options{Root: "."}
	flags.Uint64Var(&o.Events, "events", 100_000, "packets to compare with the simulator, at least, of each architecture")
	flags.Uint64Var(&o.Seed, "seed", 1, "of all that is drawn")
	flags.Uint64Var(&o.Frames, "frames", 20_000, "frames that both architectures get")
	flags.Uint64Var(&o.Segments, "segments", 20_000, "TCP segments to compare with the software's balancer of connections")
	flags.Uint64Var(&o.Messages, "messages", 100_000, "messages of a replication group to compare with the software's aggregator")
	flags.Uint64Var(&o.Requests, "requests", 100_000, "requests and FEEDBACK of a replication group to compare with the software's flow-control box")
	flags.Uint64Var(&o.Beside, "beside", 50_000, "packets to compare with the router in software, of each architecture")
	flags.Float64Var(&o.TemplateNS, "template-ns", 81.6, "what the load generator needs for a template: 81.6 of 1,000 bytes, 6.72 of 64")
	flags.StringVar(&o.Simulator, "simulator", "build/dataplane/apps/bobtail-sim/bobtail-sim", "bobtail-sim")
	flags.StringVar(&o.Measurements, "measurements", "", "where the figures go, as JSON")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return errUsage
	}
	return suite.Run(o, os.Stdout)
}
