// SPDX-License-Identifier: Apache-2.0

package model

// Machine runs packets through a program. It has what a switch keeps: entries, registers, counters.
type Machine struct {
	Prog  *Program
	S     []uint64
	Trace func(format string, args ...any)
	Now   uint64 // microseconds in v1model, units of 1,024 ns in TNA
	Fine  uint64 // nanoseconds more, in TNA
	Waits uint64 // of a packet between ingress and egress: microseconds in v1model, nanoseconds in TNA

	Dice      []uint64          // what is drawn next, before the seed's own numbers
	Groups    map[uint64][]Copy // multicast
	Sessions  map[uint64]uint64 // mirroring: port of a session
	clones    [2][]copied
	registers []pages
	counters  []pages
	tables    []tableState

	packet      []byte
	at          int
	out         []byte
	parserError int
	badChecksum bool
	recirculate bool
	seed        uint64
	pass        uint64
	touched     []uint64 // by register: the pass of its last access

	Changes uint64 // words of registers that became others
	ended   uint64 // what counters that say what became of a packet counted, in all
	unheard uint64 // packets for a group that has no copies: the replication engine's, not the program's

	// What should not happen.
	Doubles    uint64 // a register accessed twice in a pass
	Invalids   uint64 // fields read or written of headers that are not there
	OutOfRange uint64 // entries of registers and counters that are not there
	Uncounted  uint64 // packets discarded, of which not exactly one counter says what became; or several of one sent on (W-13)
	LastOdd    string
}

// Copy is where one copy of a multicast group goes, and the number that egress knows it by.
type Copy struct{ Port, Instance uint64 }

// CopiesTo are copies to ports that egress does not tell apart.
func CopiesTo(ports ...uint64) []Copy {
	all := make([]Copy, len(ports))
	for i, p := range ports {
		all[i].Port = p
	}
	return all
}

// NewMachine is a fresh switch: no entries, all zeros.
func NewMachine(p *Program) *Machine {
	m := &Machine{Prog: p, S: make([]uint64, len(p.Slots)), Groups: map[uint64][]Copy{}, Sessions: map[uint64]uint64{}, seed: 1, touched: make([]uint64, len(p.Registers))}
	for _, r := range p.Registers {
		m.registers = append(m.registers, newPages(r.Size, len(r.Lanes)))
	}
	for _, c := range p.Counters {
		m.counters = append(m.counters, newPages(c.Size, 1))
	}
	for _, t := range p.Tables {
		m.tables = append(m.tables, tableState{table: t, exact: map[[maxKeys]uint64]*Entry{}})
	}
	return m
}

// Seed of what the program draws at random.
func (m *Machine) Seed(s uint64) { m.seed = s*2 + 1 }

func (m *Machine) random() uint64 { // splitmix64
	if len(m.Dice) > 0 {
		v := m.Dice[0]
		m.Dice = m.Dice[1:]
		return v
	}
	m.seed += 0x9e3779b97f4a7c15
	z := m.seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Odd is how much happened that should not.
func (m *Machine) Odd() uint64 { return m.Doubles + m.Invalids + m.OutOfRange + m.Uncounted }

func (m *Machine) invalid(slot int) {
	m.Invalids++
	m.LastOdd = m.Prog.Slots[slot]
}

var nowhere = make([]uint64, 8)

// entry of a register, by its index.
func (m *Machine) entry(r *Register, at uint64) []uint64 {
	if m.touched[r.index] == m.pass {
		m.Doubles++
		m.LastOdd = r.Name
	}
	m.touched[r.index] = m.pass
	n := uint64(len(r.Lanes))
	if at >= r.Size {
		m.OutOfRange++
		m.LastOdd = r.Name
		clear(nowhere)
		return nowhere[:n]
	}
	return m.registers[r.index].entry(at)
}

func (m *Machine) readWord(r *Register, at uint64) uint64 { return m.entry(r, at)[0] }

// writeWord belongs to the access that read.
func (m *Machine) writeWord(r *Register, at, v uint64) {
	if at >= r.Size {
		return
	}
	word := &m.registers[r.index].entry(at)[0]
	if m.Trace != nil {
		m.Trace("    %s[%d] %d -> %d", r.Name, at, *word, v)
	}
	if *word != v {
		m.Changes++
	}
	*word = v
}

func (m *Machine) words(slots []int) []uint64 {
	out := make([]uint64, len(slots))
	for i, s := range slots {
		out[i] = m.S[s]
	}
	return out
}

func (m *Machine) count(c *Counter, at uint64) {
	if at >= c.Size {
		m.OutOfRange++
		m.LastOdd = c.Name
		return
	}
	m.counters[c.index].entry(at)[0]++
	if c.Last {
		m.ended++
	}
	if m.Trace != nil {
		m.Trace("    %s[%d] counts", c.Name, at)
	}
}

// Register reads an entry from outside: for tests alone, nothing depends on it (W-12).
func (m *Machine) Register(name string, at uint64) []uint64 {
	for _, r := range m.Prog.Registers {
		if r.Name == name && at < r.Size {
			return m.registers[r.index].entry(at)
		}
	}
	return nil
}

// Count is a counter's value.
func (m *Machine) Count(name string, at uint64) uint64 {
	for _, c := range m.Prog.Counters {
		if c.Name == name && at < c.Size {
			return m.counters[c.index].entry(at)[0]
		}
	}
	return 0
}

// State is everything that packets can change: a digest of all registers, for tests that say nothing changed.
func (m *Machine) State() uint64 {
	h := uint64(14695981039346656037)
	for i, r := range m.registers {
		r.each(func(at int, w uint64) {
			h = (((h^uint64(i))*1099511628211^uint64(at))*1099511628211 ^ w) * 1099511628211
		})
	}
	return h
}
