// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// family is which IP: each has maps and pools of its own (dataplane/bpf/crab_family.h).
type family struct {
	suffix   string // of its maps' names
	addrSize int
}

var (
	four     = family{"", 4}
	six      = family{"6", 16}
	families = []family{four, six}
)

// poolID names a pool: each family numbers its VIPs from 0.
type poolID struct {
	family
	id uint32
}

func familyOf(a netip.Addr) family {
	if a.Is4() {
		return four
	}
	return six
}

// of is the name of the family's map.
func (f family) of(name string) string { return name + f.suffix }

// m is the map of a family; nil: this node knows nothing of IPv6 yet.
func (n *Node) m(f family, name string) *ebpf.Map {
	if f == four {
		return n.maps[name]
	}
	if maps := n.six.Load(); maps != nil {
		return (*maps)[f.of(name)]
	}
	return nil
}

// known are the families this node has maps of.
func (n *Node) known() []family {
	if n.six.Load() == nil {
		return []family{four}
	}
	return families
}

// UseIPv6 is useSix for who knows that IPv6 will be needed.
func (n *Node) UseIPv6() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.useSix(); err != nil {
		return fmt.Errorf("IPv6: %w", err)
	}
	return nil
}

// useSix makes what IPv6 needs when it is needed first, so that a node without it
// pays neither memory nor time: maps, and programs that those of IPv4 go to.
func (n *Node) useSix() error {
	if n.sixEntered {
		return nil
	}
	if n.six.Load() == nil {
		if n.refused {
			return errors.New("the programs of a former version are at work, and know none")
		}
		if err := n.openSix(); err != nil {
			return err
		}
	}
	if n.refused { // what is at work finds the programs it came with
		return nil
	}
	pins, err := n.pins()
	if err != nil {
		return err
	}
	for _, p := range pins {
		if err := n.enterSix(p.part.program); err != nil {
			return err
		}
	}
	n.sixEntered = true
	return nil
}

// openSix opens the maps of IPv6, or makes them.
func (n *Node) openSix() error {
	specs := map[string]*ebpf.CollectionSpec{}
	for name, spec := range n.specs {
		if strings.HasSuffix(name, six.suffix) {
			specs[name] = spec
		}
	}
	maps, err := openMaps(specs, n.root, n.sizes, n.maps)
	if err == nil {
		n.six.Store(&maps)
	}
	return err
}

// enterSix puts the IPv6 program where the IPv4 one will look for it; an entry
// that is there is exchanged in place.
func (n *Node) enterSix(program string) error {
	at, has := programs.SixEntries[program]
	if !has || n.six.Load() == nil {
		return nil
	}
	prog, err := n.program(program + six.suffix)
	if err != nil {
		return err
	}
	if err := n.maps[at.Map].Put(at.Entry, prog); err != nil {
		return fmt.Errorf("%s[%d]: %w", at.Map, at.Entry, err)
	}
	return n.keepProgram(program + six.suffix)
}

// digest names an IPv6 address in the mark of the fall-back path, as crab_addr_digest does.
func digest(a netip.Addr) uint32 {
	b := a.As16()
	h := uint32(0x9e3779b9)
	for i := 0; i < len(b); i += 4 {
		h ^= uint32(b[i])<<24 | uint32(b[i+1])<<16 | uint32(b[i+2])<<8 | uint32(b[i+3])
		h *= 0x85ebca6b
		h ^= h >> 13
		h *= 0xc2b2ae35
		h ^= h >> 16
	}
	if h == 0 {
		return ^uint32(0)
	}
	return h
}
