// SPDX-License-Identifier: Apache-2.0

// Package pipe gives the P4Runtime server for tests a data plane: the checker of P4
// programs (hack/p4) runs the shipped sources on frames of network devices. It is a test
// tool, and no switch: one frame at a time, some tens of thousands a second.
package pipe

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// An archive has the folder of a program, by this name, and what it includes beside it.
const (
	inArchive = "program"
	// Program is the file of an archive that a pipeline begins with.
	Program = inArchive + "/v1model.p4"
)

// Counts are of frames.
type Counts struct {
	// Arrived and Left went through ports, Looped round the loop.
	Arrived, Left, Looped uint64
	// Unsent found no port, or no room at one; Unreadable were none that a wire carries.
	Unsent, Unreadable uint64
}

// Pipe is a machine with ports.
type Pipe struct {
	begin time.Time
	done  chan struct{}
	end   sync.WaitGroup

	mu      sync.Mutex
	machine *model.Machine
	tables  map[uint32]table
	tallies map[uint32]tallied
	ports   map[uint64]*port
	waiting []model.Frame // the loop
	counts  Counts
}

// table is what an id of the P4Info means to the machine.
type table struct {
	name    string
	fields  int
	ternary bool // fields may be left out
	actions map[uint32]action
}

// tallied is what the id of a counter means to the machine.
type tallied struct {
	name string
	size int64
}

type action struct {
	name   string
	params int
}

// New has no program and no ports yet.
func New() *Pipe {
	p := &Pipe{begin: time.Now(), done: make(chan struct{}), ports: map[uint64]*port{}}
	p.end.Add(1)
	go p.tick()
	return p
}

// Close ends it.
func (p *Pipe) Close() {
	close(p.done)
	p.end.Wait()
}

// Sources are the files that the program in a folder is read from.
func Sources(folder string) (map[string][]byte, error) {
	out := map[string][]byte{}
	_, err := model.LoadFrom(Program, func(name string) (string, error) {
		file := filepath.Join(filepath.Dir(folder), name)
		if rest, there := strings.CutPrefix(name, inArchive+"/"); there {
			file = filepath.Join(folder, rest)
		}
		text, err := os.ReadFile(file)
		out[name] = text
		return string(text), err
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	return out, nil
}

// Read is the program of sources.
func Read(sources map[string][]byte) (*model.Program, error) {
	return model.LoadFrom(Program, func(name string) (string, error) {
		text, there := sources[path.Clean(name)]
		if !there {
			return "", fmt.Errorf("there is no file %s", name)
		}
		return string(text), nil
	}, nil)
}

// Archive is what this data plane takes for a compiled program: a tar file of its sources.
func Archive(sources map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, text := range sources {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			return nil, fmt.Errorf("write the header of %s: %w", name, err)
		}
		if _, err := w.Write(text); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func unpack(archive []byte) (map[string][]byte, error) {
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("is no tar file of sources: %w", err)
		}
		text, err := io.ReadAll(io.LimitReader(r, 1<<20))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", h.Name, err)
		}
		files[path.Clean(h.Name)] = text
	}
}

// Load runs another program, which begins with nothing in it. One that the checker does not
// take, or that is not what the P4Info says, changes nothing.
func (p *Pipe) Load(c *p4.ForwardingPipelineConfig) error {
	files, err := unpack(c.GetP4DeviceConfig())
	if err != nil {
		return err
	}
	prog, err := Read(files)
	if err != nil {
		return fmt.Errorf("the program: %w", err)
	}
	info := prog.P4Info()
	if !proto.Equal(info, c.GetP4Info()) {
		return errors.New("the P4Info is of another program")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.machine, p.tables, p.waiting = model.NewMachine(prog), tablesOf(info), nil
	p.tallies = map[uint32]tallied{}
	for _, c := range info.GetCounters() {
		p.tallies[c.GetPreamble().GetId()] = tallied{c.GetPreamble().GetName(), c.GetSize()}
	}
	return nil
}

func tablesOf(info *p4config.P4Info) map[uint32]table {
	actions := map[uint32]action{}
	for _, a := range info.GetActions() {
		actions[a.GetPreamble().GetId()] = action{a.GetPreamble().GetAlias(), len(a.GetParams())}
	}
	out := map[uint32]table{}
	for _, t := range info.GetTables() {
		one := table{name: t.GetPreamble().GetName(), fields: len(t.GetMatchFields()), actions: map[uint32]action{}}
		for _, f := range t.GetMatchFields() {
			one.ternary = one.ternary || f.GetMatchType() == p4config.MatchField_TERNARY
		}
		for _, ref := range t.GetActionRefs() {
			one.actions[ref.GetId()] = actions[ref.GetId()]
		}
		out[t.GetPreamble().GetId()] = one
	}
	return out
}

// Generate has a frame come in by a port, so many times a second, as a packet generator makes it, until Close. Who falls
// behind makes up for it, so that the rate holds on a busy machine.
func (p *Pipe) Generate(port uint64, frame []byte, perSecond int) {
	p.end.Add(1)
	go func() {
		defer p.end.Done()
		begin, made := time.Now(), 0
		t := time.NewTicker(time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-p.done:
				return
			case <-t.C:
			}
			for due := int(time.Since(begin).Seconds() * float64(perSecond)); made < due; made++ {
				p.arrive(port, frame)
			}
		}
	}()
}

// Unload is a reboot: no program runs.
func (p *Pipe) Unload() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.machine, p.tables, p.waiting = nil, nil, nil
}

// Count is of switchpeer.Counting.
func (p *Pipe) Count(id uint32, index int64) (packets uint64, there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, known := p.tallies[id]
	if p.machine == nil || !known || index < 0 || index >= c.size {
		return 0, false
	}
	return p.machine.Count(c.name, uint64(index)), true
}

var errNoProgram = errors.New("no program runs")

// Put inserts or replaces an entry.
func (p *Pipe) Put(e *p4.Entity) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.machine == nil {
		return errNoProgram
	}
	if g := e.GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); g != nil {
		var copies []model.Copy
		for _, r := range g.GetReplicas() {
			copies = append(copies, model.Copy{Port: number(r.GetPort()), Instance: uint64(r.GetInstance())})
		}
		p.machine.Groups[uint64(g.GetMulticastGroupId())] = copies
		return nil
	}
	t, match, err := p.match(e.GetTableEntry())
	if err != nil {
		return err
	}
	direct := e.GetTableEntry().GetAction().GetAction()
	a, known := t.actions[direct.GetActionId()]
	if !known || len(direct.GetParams()) != a.params {
		return fmt.Errorf("table %s: no such action, or other parameters", t.name)
	}
	entry := model.Entry{Match: match, Priority: int(e.GetTableEntry().GetPriority()), Action: a.name, Args: make([]uint64, a.params)}
	for _, v := range direct.GetParams() {
		if n := int(v.GetParamId()); n >= 1 && n <= a.params {
			entry.Args[n-1] = number(v.GetValue())
		}
	}
	return p.machine.Insert(t.name, entry)
}

// Remove takes an entry out.
func (p *Pipe) Remove(e *p4.Entity) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.machine == nil {
		return errNoProgram
	}
	if g := e.GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); g != nil {
		delete(p.machine.Groups, uint64(g.GetMulticastGroupId()))
		return nil
	}
	t, match, err := p.match(e.GetTableEntry())
	if err != nil {
		return err
	}
	return p.machine.Delete(t.name, match, int(e.GetTableEntry().GetPriority()))
}

// match needs p.mu.
func (p *Pipe) match(e *p4.TableEntry) (table, []model.Match, error) {
	t, known := p.tables[e.GetTableId()]
	if !known || len(e.GetMatch()) != t.fields && !t.ternary {
		return t, nil, errors.New("no such table, or another key")
	}
	match := slices.Repeat([]model.Match{{Any: true}}, t.fields) // P4Runtime leaves out what matches everything
	for _, f := range e.GetMatch() {
		if n := int(f.GetFieldId()); n >= 1 && n <= t.fields {
			match[n-1] = matched(f)
		}
	}
	return t, match, nil
}

func matched(f *p4.FieldMatch) model.Match {
	if t := f.GetTernary(); t != nil {
		return model.Match{Value: number(t.GetValue()), Mask: number(t.GetMask())}
	}
	return model.Match{Value: number(f.GetExact().GetValue())}
}

func number(octets []byte) (v uint64) {
	for _, o := range octets {
		v = v<<8 | uint64(o)
	}
	return v
}

// Counts are what happened so far.
func (p *Pipe) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// Waiting is how many frames go round the loop.
func (p *Pipe) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

// Look shows the machine to a test while nothing runs.
func (p *Pipe) Look(see func(*model.Machine)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.machine != nil {
		see(p.machine)
	}
}

// Passes that a frame makes one after another before others have their turn: what a report
// needs, and enough for a request to ask each of a few rows.
const together = 4

// turns is how many of the frames that wait have their turn when one arrives, and at every
// tick. All of them each time would cost the more the more wait, and a loop that once is
// longer than the machine can carry would stay so.
const turns = 8

// arrive runs a frame, and then some that wait, since credits may have come.
func (p *Pipe) arrive(port uint64, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Arrived++
	if p.machine == nil {
		return
	}
	p.machine.Now = uint64(time.Since(p.begin).Microseconds())
	p.run(model.Frame{Port: port, Data: data})
	p.turn()
}

// run needs p.mu.
func (p *Pipe) run(f model.Frame) {
	out, still := p.machine.Run(f, together)
	for _, g := range out {
		p.counts.Left++
		if to := p.ports[g.Port]; to == nil || !to.send(g.Data) {
			p.counts.Unsent++
		}
	}
	p.counts.Looped += uint64(len(still))
	p.waiting = append(p.waiting, still...)
}

// turn needs p.mu. Those that have to go on waiting are behind all others then.
func (p *Pipe) turn() {
	n := min(turns, len(p.waiting))
	first := slices.Clone(p.waiting[:n])
	p.waiting = slices.Delete(p.waiting, 0, n)
	for _, f := range first {
		p.run(f)
	}
}

// tick looks after what waits while nothing arrives: patience ends.
func (p *Pipe) tick() {
	defer p.end.Done()
	t := time.NewTicker(time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-t.C:
		}
		p.mu.Lock()
		if p.machine != nil && len(p.waiting) > 0 {
			p.machine.Now = uint64(time.Since(p.begin).Microseconds())
			p.turn()
		}
		p.mu.Unlock()
	}
}
