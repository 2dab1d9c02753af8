// SPDX-License-Identifier: Apache-2.0

// Package judge holds a program for Tofino to what its pipeline allows, as far as that is publicly known
// (docs/reference/switch-programs.md): how often a register is accessed, what a register action may compute, and how many stages
// the dependencies take. It estimates: only a compiler for the device knows.
package judge

import (
	"fmt"
	"slices"
	"sort"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Limits of Tofino 1.
const (
	Stages            = 12
	RegistersPerStage = 4
	ActionsPerReg     = 4
	InputsPerAction   = 2
	Comparisons       = 2
	Constants         = 4
	BlockBits         = 128 << 10
	BlocksPerStage    = 48
	BlocksPerRegister = 35
)

// Verdict of one gress.
type Verdict struct {
	Stages         int
	DoubleAccesses int
	Findings       []string
	At             map[string]int // stage of each register
}

// step is a node with what it stands under.
type step struct {
	node   *model.Node
	arms   map[*model.Node]bool // of each if around it, whether in the first arm
	gate   []int                // what these ifs read
	reads  []int
	writes []int
	cost   int
	stage  int
	before []dependency
}

type dependency struct {
	of  int
	far int // stages between
}

type judging struct {
	prog  *model.Program
	steps []*step
	least map[*model.Register]int
	out   *Verdict
}

// Gress judges an ingress or egress.
func Gress(p *model.Program, nodes []*model.Node) *Verdict {
	j := &judging{prog: p, least: map[*model.Register]int{}, out: &Verdict{At: map[string]int{}}}
	j.flatten(nodes, nil, nil)
	j.depend()
	j.accesses()
	j.actions()
	j.place()
	return j.out
}

func (j *judging) find(n *model.Node, format string, args ...any) {
	j.out.Findings = append(j.out.Findings, n.Pos.String()+": "+fmt.Sprintf(format, args...))
}

func (j *judging) flatten(nodes []*model.Node, arms map[*model.Node]bool, gate []int) {
	for _, n := range nodes {
		if n.Kind == model.NIf {
			j.gateway(n)
			inner := slices.Concat(gate, n.Reads)
			j.flatten(n.Then, with(arms, n, true), inner)
			j.flatten(n.Else, with(arms, n, false), inner)
			continue
		}
		s := &step{node: n, arms: arms, gate: gate, reads: slices.Concat(n.Reads, gate), writes: n.Writes, cost: max(1, n.Depth)}
		if n.Table != nil {
			s.cost = j.tableCost(n)
		}
		if n.Kind == model.NAssign && n.Depth > 1 {
			j.find(n, "%s is computed in %d operations: one stage has one", n.What, n.Depth)
		}
		j.steps = append(j.steps, s)
	}
}

func with(arms map[*model.Node]bool, n *model.Node, first bool) map[*model.Node]bool {
	out := map[*model.Node]bool{n: first}
	for k, v := range arms {
		out[k] = v
	}
	return out
}

// gateway judges the condition of an if.
func (j *judging) gateway(n *model.Node) {
	if n.Cond.Unequal {
		j.find(n, "an if compares two variables by size: a gateway has constants only")
	}
	if n.Cond.Computes || n.Cond.Depth > 0 {
		j.find(n, "an if computes: a gateway only compares")
	}
}

// tableCost is how many stages a table's longest action takes.
func (j *judging) tableCost(n *model.Node) int {
	cost := 1
	for _, a := range n.Table.Actions {
		inner := &judging{prog: j.prog, least: map[*model.Register]int{}, out: &Verdict{At: map[string]int{}}}
		inner.flatten(a.Body, nil, nil)
		inner.depend()
		cost = max(cost, inner.levels())
		for _, s := range inner.steps {
			if s.node.Register != nil {
				j.find(n, "a register in an action of a table: not looked at")
			}
		}
	}
	return cost
}

// exclusive: two steps are never of one packet.
func exclusive(a, b *step) bool {
	for n, first := range a.arms {
		if other, ok := b.arms[n]; ok && other != first {
			return true
		}
	}
	return false
}

func meet(a, b []int) bool {
	for _, x := range a {
		if slices.Contains(b, x) {
			return true
		}
	}
	return false
}

// depend finds what has to come before what.
func (j *judging) depend() {
	for i, later := range j.steps {
		for k, earlier := range j.steps[:i] {
			if exclusive(earlier, later) {
				continue
			}
			switch {
			case meet(earlier.writes, later.reads), meet(earlier.writes, later.writes):
				later.before = append(later.before, dependency{k, earlier.cost})
			case meet(earlier.reads, later.writes):
				later.before = append(later.before, dependency{k, 0})
			}
		}
	}
}

// accesses finds registers that one packet accesses twice.
func (j *judging) accesses() {
	for i, later := range j.steps {
		if later.node.Register == nil {
			continue
		}
		for _, earlier := range j.steps[:i] {
			if earlier.node.Register == later.node.Register && !exclusive(earlier, later) {
				j.out.DoubleAccesses++
				j.find(later.node, "register %s is accessed a second time by one packet (first at %s)", later.node.Register.Name, earlier.node.Pos)
			}
		}
	}
}

// actions judges the register actions of the registers that are used here.
func (j *judging) actions() {
	seen := map[*model.Register]bool{}
	for _, s := range j.steps {
		r := s.node.Register
		if r == nil || seen[r] {
			continue
		}
		seen[r] = true
		if len(r.Actions) > ActionsPerReg {
			j.find(s.node, "register %s has %d actions: a stateful unit has %d", r.Name, len(r.Actions), ActionsPerReg)
		}
		if len(r.Lanes) > 2 || r.Bits() > 64 {
			j.find(s.node, "register %s has entries of %d words and %d bits: at most two of 32", r.Name, len(r.Lanes), r.Bits())
		}
		if b := blocks(r); b > BlocksPerRegister {
			j.find(s.node, "register %s takes %d blocks: at most %d", r.Name, b, BlocksPerRegister)
		}
		for _, a := range r.Actions {
			j.action(s.node, a)
		}
	}
}

func (j *judging) action(n *model.Node, a *model.Stateful) {
	if len(a.Inputs) > InputsPerAction {
		var names []string
		for in := range a.Inputs {
			names = append(names, j.prog.Slots[in])
		}
		sort.Strings(names)
		j.find(n, "%s takes %d inputs of the packet: at most %d (%v)", a.Name, len(a.Inputs), InputsPerAction, names)
	}
	if a.Comparisons > Comparisons {
		j.find(n, "%s compares %d times: at most %d", a.Name, a.Comparisons, Comparisons)
	}
	if len(a.Constants) > Constants {
		j.find(n, "%s has %d constants: at most %d", a.Name, len(a.Constants), Constants)
	}
}

func blocks(r *model.Register) int {
	return int((r.Size*uint64(r.Bits())+BlockBits-1)/BlockBits) + 1
}

// levels gives each step the earliest stage that its dependencies allow, and says how many stages that takes.
func (j *judging) levels() int {
	most := 0
	for _, s := range j.steps {
		s.stage = 0
		for _, d := range s.before {
			s.stage = max(s.stage, j.steps[d.of].stage+d.far)
		}
		if r := s.node.Register; r != nil {
			s.stage = max(s.stage, j.least[r])
		}
		most = max(most, s.stage+s.cost)
	}
	return most
}

// settle moves registers, each of which is in one stage, until nothing moves.
func (j *judging) settle() int {
	for range 1 + 10*len(j.steps) {
		most, moved := j.levels(), false
		for _, s := range j.steps {
			if r := s.node.Register; r != nil && j.least[r] < s.stage {
				j.least[r], moved = s.stage, true
			}
		}
		if !moved {
			return most
		}
	}
	return 1 << 10
}

// place puts registers into stages, and moves them on where a stage is full.
func (j *judging) place() {
	j.out.Stages = j.settle()
	for range 64 {
		full := j.fullStage()
		if full < 0 {
			break
		}
		j.moveOn(full)
	}
	for r, at := range j.least {
		j.out.At[r.Name] = at
	}
	for _, s := range j.steps {
		if r := s.node.Register; r != nil {
			j.out.At[r.Name] = s.stage
		}
	}
	if j.out.Stages > Stages {
		j.out.Findings = append(j.out.Findings, fmt.Sprintf("%d stages: there are %d", j.out.Stages, Stages))
	}
}

func (j *judging) fullStage() int {
	registers, used := map[int]map[*model.Register]bool{}, map[int]int{}
	for _, s := range j.steps {
		r := s.node.Register
		if r == nil || registers[s.stage][r] {
			continue
		}
		if registers[s.stage] == nil {
			registers[s.stage] = map[*model.Register]bool{}
		}
		registers[s.stage][r] = true
		used[s.stage] += blocks(r)
	}
	full := -1
	for stage, all := range registers {
		if (len(all) > RegistersPerStage || used[stage] > BlocksPerStage) && (full < 0 || stage < full) {
			full = stage
		}
	}
	return full
}

// moveOn moves the register out of a full stage that costs the least stages.
func (j *judging) moveOn(stage int) {
	var best *model.Register
	var bestLeast map[*model.Register]int
	bestStages := 1 << 20
	tried := map[*model.Register]bool{}
	for _, s := range j.steps {
		r := s.node.Register
		if r == nil || s.stage != stage || tried[r] {
			continue
		}
		tried[r] = true
		other := &judging{prog: j.prog, steps: j.steps, least: map[*model.Register]int{r: stage + 1}, out: j.out}
		for k, v := range j.least {
			if k != r {
				other.least[k] = v
			}
		}
		if n := other.settle(); n < bestStages {
			best, bestStages, bestLeast = r, n, other.least
		}
		j.levels()
	}
	if best != nil {
		j.least = bestLeast
		j.out.Stages = j.settle()
	}
}

// Registers of a stage, by name.
func (v *Verdict) Registers(stage int) []string {
	var names []string
	for name, at := range v.At {
		if at == stage {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}
