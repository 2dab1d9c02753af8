// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
)

// Match is one field of an entry: a value, and the bits of it that count.
type Match struct {
	Value, Mask uint64
	Any         bool // all of an exact field's bits count when false and Mask is zero
}

// Entry of a table. Of several that match the one of the highest priority counts.
type Entry struct {
	Match    []Match
	Priority int
	Action   string
	Args     []uint64
	action   *TableAction
}

type tableState struct {
	table   *Table
	exact   map[[maxKeys]uint64]*Entry
	others  []*Entry
	preset  []uint64
	current *TableAction // default, when it was set
	n       uint64
}

func (m *Machine) table(name string) (*tableState, error) {
	t := m.Prog.Table(name)
	if t == nil {
		return nil, fmt.Errorf("there is no table %s", name)
	}
	return &m.tables[t.index], nil
}

func allExact(t *Table) bool {
	for _, k := range t.Keys {
		if k.Kind != "exact" {
			return false
		}
	}
	return true
}

func checkArgs(t *Table, e *Entry) error {
	a := t.Action(e.Action)
	if a == nil {
		return fmt.Errorf("table %s has no action %s", t.Name, e.Action)
	}
	if len(e.Args) != len(a.Params) {
		return fmt.Errorf("action %s takes %d arguments, got %d", a.Name, len(a.Params), len(e.Args))
	}
	for i, v := range e.Args {
		if v > mask(a.Params[i].Type.Width) {
			return fmt.Errorf("%d does not fit %s of %s", v, a.Params[i].Name, a.Name)
		}
	}
	e.action = a
	return nil
}

// Insert puts an entry into a table, in the place of one with the same match.
func (m *Machine) Insert(name string, e Entry) error {
	s, err := m.table(name)
	if err != nil {
		return err
	}
	t := s.table
	if len(e.Match) != len(t.Keys) {
		return fmt.Errorf("table %s has %d keys, got %d", name, len(t.Keys), len(e.Match))
	}
	if err := checkArgs(t, &e); err != nil {
		return err
	}
	for i, f := range e.Match {
		if f.Value > mask(t.Keys[i].Expr.T.Width) {
			return fmt.Errorf("%d does not fit %s of table %s", f.Value, t.Keys[i].Name, name)
		}
	}
	if !allExact(t) {
		for i, o := range s.others {
			if o.Priority == e.Priority && slices.Equal(o.Match, e.Match) {
				s.others[i] = &e
				return nil
			}
		}
		if s.n == t.Size {
			return fmt.Errorf("table %s is full: %d entries", name, t.Size)
		}
		s.others = append(s.others, &e)
		s.n++
		return nil
	}
	key := e.key()
	if s.exact[key] == nil {
		if s.n == t.Size {
			return fmt.Errorf("table %s is full: %d entries", name, t.Size)
		}
		s.n++
	}
	s.exact[key] = &e
	return nil
}

func (e *Entry) key() [maxKeys]uint64 {
	var key [maxKeys]uint64
	for i, f := range e.Match {
		key[i] = f.Value
	}
	return key
}

// Delete takes an entry out: that of the priority, where a table has them.
func (m *Machine) Delete(name string, match []Match, priority int) error {
	s, err := m.table(name)
	if err != nil {
		return err
	}
	key := (&Entry{Match: match}).key()
	at := slices.IndexFunc(s.others, func(o *Entry) bool { return o.Priority == priority && slices.Equal(o.Match, match) })
	switch {
	case at >= 0:
		s.others = slices.Delete(s.others, at, at+1)
	case allExact(s.table) && s.exact[key] != nil:
		delete(s.exact, key)
	default:
		return fmt.Errorf("table %s has no such entry", name)
	}
	s.n--
	return nil
}

// SetDefault changes what a table does where nothing matches.
func (m *Machine) SetDefault(name, action string, args []uint64) error {
	s, err := m.table(name)
	if err != nil {
		return err
	}
	e := Entry{Action: action, Args: args}
	if err := checkArgs(s.table, &e); err != nil {
		return err
	}
	s.current, s.preset = e.action, args
	return nil
}

// Entries of a table, in no order.
func (m *Machine) Entries(name string) []*Entry {
	s, err := m.table(name)
	if err != nil {
		return nil
	}
	all := s.others
	for _, e := range s.exact {
		all = append(all, e)
	}
	return all
}

func (s *tableState) find(key [maxKeys]uint64) *Entry {
	if e := s.exact[key]; e != nil {
		return e
	}
	var best *Entry
	for _, e := range s.others {
		if e.matches(key, s.table) && (best == nil || e.Priority > best.Priority) {
			best = e
		}
	}
	return best
}

func (e *Entry) matches(key [maxKeys]uint64, t *Table) bool {
	for i, f := range e.Match {
		m := f.Mask
		if m == 0 && !f.Any {
			m = mask(t.Keys[i].Expr.T.Width)
		}
		if (key[i]^f.Value)&m != 0 {
			return false
		}
	}
	return true
}

// run applies a table.
func (t *Table) run() func(m *Machine) {
	index, hit := t.index, t.hit
	keys := make([]func(*Machine) uint64, 0, len(t.Keys))
	for _, k := range t.Keys {
		keys = append(keys, k.Expr.Eval)
	}
	bodies := map[*TableAction]func(*Machine){}
	for _, a := range append([]*TableAction{t.Default}, t.Actions...) {
		bodies[a] = runAll(a.Body)
	}
	return func(m *Machine) {
		var key [maxKeys]uint64
		for i, k := range keys {
			key[i] = k(m)
		}
		s := &m.tables[index]
		action, args := t.Default, t.Preset
		if s.current != nil {
			action, args = s.current, s.preset
		}
		e := s.find(key)
		m.S[hit] = truth(e != nil)
		if e != nil {
			action, args = e.action, e.Args
		}
		if m.Trace != nil {
			m.Trace("  table %s %x: hit %v, %s%v", t.Name, key[:len(keys)], e != nil, action.Name, args)
		}
		for i, v := range args {
			m.S[action.Params[i].Slot] = v
		}
		bodies[action](m)
	}
}
