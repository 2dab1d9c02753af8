// SPDX-License-Identifier: Apache-2.0

// Package stf replays the test files of the P4 compiler (add, setdefault, packet, expect, no_packet, wait, and multicast
// groups) with a program, so that the same files run with the compiler's own tools.
package stf

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Result of one file.
type Result struct {
	Packets, Expected int
	Failed            []string
}

type wanted struct {
	line    int
	pattern string // hex digits and *
	exact   bool
	any     bool
}

type player struct {
	name   string
	m      *model.Machine
	sent   map[uint64][][]byte
	wanted map[uint64][]wanted
	none   bool           // no_packet was said
	nodes  [][]model.Copy // of multicast, by their handles
	result *Result
}

// Replay plays a file. An error names its line; what was expected and did not come stands in the result.
func Replay(name, text string, m *model.Machine) (*Result, error) {
	p := &player{name: name, m: m, sent: map[uint64][][]byte{}, wanted: map[uint64][]wanted{}, result: &Result{}}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := p.line(i+1, line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
	}
	p.settle()
	return p.result, nil
}

func (p *player) line(n int, line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "add":
		return p.add(rest)
	case "setdefault":
		return p.setDefault(rest)
	case "packet":
		return p.packet(rest)
	case "expect":
		return p.expect(n, rest)
	case "no_packet":
		p.none = true
		return nil
	case "wait":
		return nil
	case "mc_mgrp_create", "mc_node_create", "mc_node_associate":
		return p.multicast(word, rest)
	}
	return fmt.Errorf("%s is no command: there are add, setdefault, packet, expect, no_packet, wait, mc_mgrp_create, mc_node_create, mc_node_associate", word)
}

// multicast is a group, a node of copies (an instance and its ports), or a node of a group. Handles count from 0.
func (p *player) multicast(word, rest string) error {
	var of []uint64
	for _, f := range strings.Fields(rest) {
		v, err := number(f)
		if err != nil {
			return err
		}
		of = append(of, v)
	}
	switch {
	case word == "mc_mgrp_create" && len(of) == 1:
		p.m.Groups[of[0]] = nil
	case word == "mc_node_create" && len(of) > 1:
		copies := model.CopiesTo(of[1:]...)
		for i := range copies {
			copies[i].Instance = of[0]
		}
		p.nodes = append(p.nodes, copies)
	case word == "mc_node_associate" && len(of) == 2 && of[1] < uint64(len(p.nodes)):
		p.m.Groups[of[0]] = append(p.m.Groups[of[0]], p.nodes[of[1]]...)
	default:
		return fmt.Errorf("%s %s: want a group, an instance and ports, or a group and a handle", word, rest)
	}
	return nil
}

func number(s string) (uint64, error) {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", s)
	}
	return v, nil
}

// call splits name(a:1, b:2).
func call(s string) (string, []string, error) {
	s = strings.TrimSpace(s)
	open := strings.IndexByte(s, '(')
	if open < 0 || !strings.HasSuffix(s, ")") {
		return "", nil, fmt.Errorf("%q is no action with its arguments", s)
	}
	var args []string
	for _, a := range strings.Split(s[open+1:len(s)-1], ",") {
		if a = strings.TrimSpace(a); a != "" {
			args = append(args, a)
		}
	}
	return s[:open], args, nil
}

// action finds an action by its name, with or without its control, and puts its arguments into their order.
func (p *player) action(table, s string) (string, []uint64, error) {
	name, given, err := call(s)
	if err != nil {
		return "", nil, err
	}
	t := p.m.Prog.Table(table)
	if t == nil {
		return "", nil, fmt.Errorf("there is no table %s", table)
	}
	a := t.Action(name[strings.LastIndexByte(name, '.')+1:])
	if a == nil {
		return "", nil, fmt.Errorf("table %s has no action %s", table, name)
	}
	args := make([]uint64, len(a.Params))
	if len(given) != len(args) {
		return "", nil, fmt.Errorf("%s takes %d arguments, got %d", name, len(args), len(given))
	}
	for i, g := range given {
		key, value, named := strings.Cut(g, ":")
		at := i
		if !named {
			value = key
		} else if at = paramIndex(a, key); at < 0 {
			return "", nil, fmt.Errorf("%s has no parameter %s", name, key)
		}
		if args[at], err = number(value); err != nil {
			return "", nil, err
		}
	}
	return a.Name, args, nil
}

func paramIndex(a *model.TableAction, name string) int {
	for i, p := range a.Params {
		if p.Name == name {
			return i
		}
	}
	return -1
}

// add is: table, perhaps a priority, key:value for each key, action(argument:value, ...).
func (p *player) add(rest string) error {
	open := strings.IndexByte(rest, '(')
	if open < 0 {
		return fmt.Errorf("add wants an action with its arguments")
	}
	words := strings.Fields(rest[:open])
	if len(words) < 2 {
		return fmt.Errorf("add wants a table, keys and an action")
	}
	table, keys := words[0], words[1:len(words)-1]
	name, args, err := p.action(table, words[len(words)-1]+rest[open:])
	if err != nil {
		return err
	}
	e := model.Entry{Action: name, Args: args}
	if len(keys) > 0 && !strings.Contains(keys[0], ":") {
		v, err := number(keys[0])
		if err != nil {
			return err
		}
		e.Priority, keys = int(v), keys[1:]
	}
	t := p.m.Prog.Table(table)
	if len(keys) != len(t.Keys) {
		return fmt.Errorf("table %s has %d keys, got %d", table, len(t.Keys), len(keys))
	}
	e.Match = make([]model.Match, len(keys))
	for _, k := range keys {
		if err := match(t, k, e.Match); err != nil {
			return err
		}
	}
	return p.m.Insert(table, e)
}

func match(t *model.Table, k string, into []model.Match) error {
	name, value, _ := strings.Cut(k, ":")
	for i, key := range t.Keys {
		if key.Name != name {
			continue
		}
		width := key.Expr.T.Width
		v, bits, isPrefix := strings.Cut(value, "/")
		if isPrefix {
			n, err := number(bits)
			if err != nil || n > uint64(width) {
				return fmt.Errorf("%q is no prefix", k)
			}
			into[i].Mask = (uint64(1)<<n - 1) << (uint64(width) - n)
			into[i].Any = n == 0
			value = v
		} else if strings.Contains(value, "*") {
			return wildcard(value, &into[i])
		}
		var err error
		into[i].Value, err = number(value)
		return err
	}
	return fmt.Errorf("table %s has no key %s", t.Name, name)
}

// wildcard is 0x with * for digits that do not count.
func wildcard(value string, m *model.Match) error {
	if !strings.HasPrefix(value, "0x") {
		return fmt.Errorf("%q: digits that do not count are of 0x…", value)
	}
	for _, c := range value[2:] {
		m.Value, m.Mask = m.Value<<4, m.Mask<<4
		if c != '*' {
			d, err := strconv.ParseUint(string(c), 16, 8)
			if err != nil {
				return fmt.Errorf("%q is no number", value)
			}
			m.Value |= d
			m.Mask |= 15
		}
	}
	m.Any = m.Mask == 0
	return nil
}

func (p *player) setDefault(rest string) error {
	table, action, _ := strings.Cut(strings.TrimSpace(rest), " ")
	name, args, err := p.action(table, action)
	if err != nil {
		return err
	}
	return p.m.SetDefault(table, name, args)
}

func (p *player) packet(rest string) error {
	port, hexes, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := number(port)
	if err != nil {
		return err
	}
	hexes = strings.ReplaceAll(hexes, " ", "")
	data := make([]byte, len(hexes)/2)
	for i := range data {
		v, err := strconv.ParseUint(hexes[2*i:2*i+2], 16, 8)
		if err != nil {
			return fmt.Errorf("%q are no bytes", hexes)
		}
		data[i] = byte(v)
	}
	if len(hexes)%2 != 0 {
		return fmt.Errorf("half a byte at the end of a packet")
	}
	p.result.Packets++
	out, still := p.m.Run(model.Frame{Port: n, Data: data}, model.MaxPasses)
	if len(still) != 0 {
		return fmt.Errorf("the packet goes round for ever")
	}
	for _, f := range out {
		p.sent[f.Port] = append(p.sent[f.Port], f.Data)
	}
	return nil
}

func (p *player) expect(n int, rest string) error {
	port, hexes, _ := strings.Cut(strings.TrimSpace(rest), " ")
	at, err := number(port)
	if err != nil {
		return err
	}
	hexes = strings.ToUpper(strings.ReplaceAll(hexes, " ", ""))
	w := wanted{line: n, any: hexes == ""}
	w.pattern, w.exact = strings.CutSuffix(hexes, "$")
	p.wanted[at] = append(p.wanted[at], w)
	p.result.Expected++
	return nil
}

// settle compares what was sent with what was expected, port by port, in order.
func (p *player) settle() {
	fail := func(format string, args ...any) {
		p.result.Failed = append(p.result.Failed, p.name+fmt.Sprintf(format, args...))
	}
	for port, all := range p.wanted {
		for i, w := range all {
			if i >= len(p.sent[port]) {
				fail(":%d: nothing more came out of port %d", w.line, port)
				continue
			}
			if got := p.sent[port][i]; !w.fits(got) {
				fail(":%d: port %d sent %X", w.line, port, got)
			}
		}
	}
	for port, all := range p.sent {
		if n := len(p.wanted[port]); len(all) > n {
			fail(": %d frames that nobody expected at port %d: %X", len(all)-n, port, all[n])
		}
	}
	if p.none && len(p.sent) > 0 {
		fail(": frames came out where no_packet is said")
	}
}

func (w wanted) fits(got []byte) bool {
	if w.any {
		return true
	}
	have := []byte(fmt.Sprintf("%X", bytes.Clone(got)))
	if len(have) < len(w.pattern) || w.exact && len(have) != len(w.pattern) {
		return false
	}
	for i := range w.pattern {
		if w.pattern[i] != '*' && w.pattern[i] != have[i] {
			return false
		}
	}
	return true
}
