// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// programFolder holds the programs at work, by name: an upgrade that fails in its midst goes back to them. (To find a
// program by a link's information would need CAP_SYS_ADMIN.)
const programFolder = "programs"

// swap puts another program where one is at work.
type swap struct {
	program string // by its name
	what    string
	put     func(*ebpf.Program) error
}

// Exchange makes what a former process pinned run this process' programs. The kernel verifies all of them first, which
// takes seconds: one that it refuses leaves the former ones at work, all of them. Then the places follow one
// another within milliseconds, and one that fails puts the others back.
func (n *Node) Exchange() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.exchangeAll()
	n.refused = err != nil
	return err
}

func (n *Node) exchangeAll() error {
	pins, err := n.pins()
	if err != nil {
		return err
	}
	if err := n.loadAll(pins); err != nil {
		return fmt.Errorf("the programs of a former version stay at work: %w", err)
	}
	swaps, release, err := n.swaps(pins)
	defer release()
	if err != nil {
		return err
	}
	former := n.former(swaps)
	defer closeAll(former)
	if err := exchange(swaps, n.loaded, former); err != nil {
		return err
	}
	return errors.Join(n.keep(swaps), n.dropUnknown(pins))
}

// loadAll has the kernel verify every program of the parts that are pinned, those of IPv6 included.
func (n *Node) loadAll(pins []pinned) error {
	for _, p := range pins {
		for _, q := range append(slices.Clone(parts[p.duty][p.at]), p.part) {
			if !n.knows(q.program) {
				continue
			}
			if _, err := n.program(q.program); err != nil {
				return err
			}
			if _, has := programs.SixEntries[q.program]; !has || n.six.Load() == nil {
				continue
			}
			if _, err := n.program(q.program + six.suffix); err != nil {
				return err
			}
		}
	}
	return nil
}

// knows tells whether this version has a program of that name.
func (n *Node) knows(program string) bool {
	for _, spec := range n.specs {
		if spec.Programs[program] != nil {
			return true
		}
	}
	return false
}

// swaps are the places where programs are at work; a link that lost its device is none.
func (n *Node) swaps(pins []pinned) (all []swap, release func(), err error) {
	var links []link.Link
	release = func() {
		for _, l := range links {
			l.Close()
		}
	}
	for _, p := range pins {
		if !n.knows(p.part.program) {
			continue
		}
		l, err := link.LoadPinnedLink(p.path, nil)
		if err != nil {
			return nil, release, fmt.Errorf("%s: %w", p.path, err)
		}
		links = append(links, l)
		if holds(l) {
			all = append(append(all, n.sixSwaps(p.part.program)...), swap{p.part.program, filepath.Base(p.path), l.Update})
		}
	}
	return all, release, nil
}

// sixSwaps is the entry by which a program finds its IPv6 one.
func (n *Node) sixSwaps(program string) []swap {
	at, has := programs.SixEntries[program]
	if !has || n.six.Load() == nil {
		return nil
	}
	return []swap{{program + six.suffix, fmt.Sprintf("%s[%d]", at.Map, at.Entry), func(p *ebpf.Program) error { return n.maps[at.Map].Put(at.Entry, p) }}}
}

// former opens the programs that a former process kept.
func (n *Node) former(swaps []swap) map[string]*ebpf.Program {
	all := map[string]*ebpf.Program{}
	for _, s := range swaps {
		if all[s.program] != nil {
			continue
		}
		if p, err := ebpf.LoadPinnedProgram(filepath.Join(n.root, programFolder, s.program), nil); err == nil {
			all[s.program] = p
		}
	}
	return all
}

func closeAll(all map[string]*ebpf.Program) {
	for _, p := range all {
		p.Close()
	}
}

// exchange makes all swaps or none.
func exchange(swaps []swap, next, former map[string]*ebpf.Program) error {
	for i, s := range swaps {
		err := s.put(next[s.program])
		if err == nil || errors.Is(err, unix.ENOLINK) { // its device went just now
			continue
		}
		err = fmt.Errorf("exchange the program of %s: %w", s.what, err)
		for _, done := range slices.Backward(swaps[:i]) {
			if former[done.program] == nil {
				err = errors.Join(err, fmt.Errorf("%s keeps the new program: the former one was not kept", done.what))
			} else if back := done.put(former[done.program]); back != nil && !errors.Is(back, unix.ENOLINK) {
				err = errors.Join(err, fmt.Errorf("put back the program of %s: %w", done.what, back))
			}
		}
		return err
	}
	return nil
}

// keep pins what is at work now for the next upgrade.
func (n *Node) keep(swaps []swap) error {
	for _, s := range swaps {
		if err := n.keepProgram(s.program); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) keepProgram(name string) error {
	if n.kept[name] {
		return nil
	}
	path := filepath.Join(n.root, programFolder, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p, err := n.loaded[name].Clone()
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Pin(path); err != nil {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	n.kept[name] = true
	return nil
}

// dropUnknown takes away parts and programs that only a former version had.
func (n *Node) dropUnknown(pins []pinned) error {
	kept, err := os.ReadDir(filepath.Join(n.root, programFolder))
	if err != nil {
		return err
	}
	for _, e := range kept {
		if !n.knows(e.Name()) {
			if err := os.Remove(filepath.Join(n.root, programFolder, e.Name())); err != nil {
				return err
			}
		}
	}
	for _, p := range pins {
		if p.part.hook == xdpHook || slices.Contains(parts[p.duty][p.at], p.part) {
			continue
		}
		if err := os.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
