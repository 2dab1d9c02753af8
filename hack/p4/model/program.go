// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/bobtail-dev/bobtail/hack/p4/syntax"

// Program is a checked program: blocks to run, and what a control plane sees.
type Program struct {
	Arch      string
	Slots     []string // names of the variables
	Tables    []*Table
	Registers []*Register
	Counters  []*Counter
	ports     []*arrival // blocks of the architecture
	Ingress   []*Node    // for the judge
	Egress    []*Node
}

// NodeKind tells nodes apart.
type NodeKind uint8

// The kinds of nodes.
const (
	NAssign NodeKind = iota
	NIf
	NTable
	NEffect // of an extern
	NBlock
)

// Node is one step of a program, as it is run and as it is judged.
type Node struct {
	Kind       NodeKind
	Pos        syntax.Pos
	What       string
	Reads      []int
	Writes     []int
	Depth      int // operations one after another
	Cond       *Expr
	Then, Else []*Node
	Register   *Register
	Stateful   *Stateful
	Table      *Table
	Counter    *Counter
	run        func(m *Machine)
}

// Register is an array of entries of one or more words.
type Register struct {
	Name    string
	ID      uint64
	Pos     syntax.Pos
	Size    uint64
	Lanes   []*Type
	Actions []*Stateful
	index   int
}

// Bits of one entry.
func (r *Register) Bits() int {
	n := 0
	for _, l := range r.Lanes {
		n += l.Width
	}
	return n
}

// Stateful is one RegisterAction.
type Stateful struct {
	Name        string
	Pos         syntax.Pos
	Inputs      map[int]bool
	Constants   map[uint64]bool
	Comparisons int
	value, told *Place
	outer       map[int]bool // slots of its own
	body        []*Node
}

// Counter is an array of packet counters.
type Counter struct {
	Name  string
	ID    uint64
	Pos   syntax.Pos
	Size  uint64
	Last  bool // it says what became of a packet (W-13); others watch packets on their way
	index int
}

// Table with what may be in it.
type Table struct {
	Name    string
	ID      uint64
	Pos     syntax.Pos
	Keys    []TableKey
	Actions []*TableAction
	Default *TableAction
	Preset  []uint64 // arguments of Default
	Size    uint64
	hit     int // slot
	index   int
}

// TableKey is one field of a key.
type TableKey struct {
	Name string
	Kind string
	Expr *Expr
}

// TableAction is an action as a table runs it.
type TableAction struct {
	Name   string
	ID     uint64
	Params []*Place
	Body   []*Node
}

// Action by its name; nil: none.
func (t *Table) Action(name string) *TableAction {
	for _, a := range t.Actions {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Table by its name; nil: none.
func (p *Program) Table(name string) *Table {
	for _, t := range p.Tables {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Expr is an expression that can be evaluated.
type Expr struct {
	T      *Type
	Eval   func(m *Machine) uint64
	Const  bool
	Value  uint64 // of a constant
	Reads  []int
	Depth  int
	Place  *Place // a whole variable
	Hi, Lo int    // of a slice of Place that can be assigned to
	Sliced bool
	List   []*Expr
	// what the judge asks
	Unequal  bool // compares two variables by size
	Computes bool // a comparison of something computed
	effect   *Node
}
