// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

const (
	linkFolder = "links"
	poolFolder = "pools"
	nextPin    = "-next"
)

// Node is the Plane made of kernel maps and programs.
type Node struct {
	root  string
	sizes Sizes
	specs map[string]*ebpf.CollectionSpec
	maps  map[string]*ebpf.Map                 // of IPv4, and those both families share
	six   atomic.Pointer[map[string]*ebpf.Map] // of IPv6; nil until they are needed
	// sixEntered: every program that is attached finds its IPv6 one.
	sixEntered bool
	// refused: Exchange failed, and programs of a former version are at work. No entry of theirs is exchanged alone.
	refused bool

	mu      sync.Mutex // of what follows, and of read-modify-write on the maps
	loaded  map[string]*ebpf.Program
	kept    map[string]bool                  // of those, what is pinned as what is at work
	loads   map[poolID]map[netip.Addr]uint16 // load counters by pool and server, of pools that are reported on
	swept   map[family]bool                  // crab_connects holds nothing of VIPs that are gone
	bits    bits                             // what crab_balanced holds
	relayed map[netip.Addr]bool              // VIPs that relays were left of at the last sweep
	idle    time.Duration                    // Lives.Idle of the last sweep
	// evicted is what Expire found pushed out, by kind: it never goes down.
	evicted map[string]uint64
	closed  bool
}

var _ Plane = (*Node)(nil)

// Open finds the state below o.Root, or makes it. Programs are verified by the
// kernel when the first one is attached. Needs CAP_BPF and CAP_NET_ADMIN.
func Open(o Options) (*Node, error) {
	wire, err := o.Wire.normal()
	if err != nil {
		return nil, err
	}
	if o.ReadOnly {
		_, err = os.Stat(filepath.Join(o.Root, "crab_meta"))
	} else {
		err = prepareRoot(o.Root)
	}
	if err != nil {
		return nil, err
	}
	if err := checkLayout(o.Root); err != nil {
		return nil, err
	}
	specs, err := programs.Specs()
	if err != nil {
		return nil, fmt.Errorf("embedded programs: %w", err)
	}
	n := &Node{root: o.Root, sizes: o.Sizes, specs: specs, loaded: map[string]*ebpf.Program{}, kept: map[string]bool{}, loads: map[poolID]map[netip.Addr]uint16{}, swept: map[family]bool{}, evicted: map[string]uint64{}}
	if err := n.openAll(); err != nil {
		return nil, err
	}
	if o.ReadOnly {
		return n, nil
	}
	if err := n.takeOver(wire); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// retired are maps of former versions. Their programs hold them until they are exchanged.
var retired = []string{"crab_echoes", "crab_recent"}

// takeOver makes this process' own what is pinned.
func (n *Node) takeOver(wire Wire) error {
	for _, f := range families {
		for _, name := range retired {
			if err := os.Remove(filepath.Join(n.root, f.of(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	if err := n.countFrom(); err != nil {
		return err
	}
	if err := n.inheritBalanced(); err != nil {
		return err
	}
	return n.writeMeta(wire)
}

// openAll opens what is there, and makes what every node needs.
func (n *Node) openAll() error {
	four := map[string]*ebpf.CollectionSpec{}
	for name, spec := range n.specs {
		if !strings.HasSuffix(name, six.suffix) {
			four[name] = spec
		}
	}
	var err error
	if n.maps, err = openMaps(four, n.root, n.sizes, nil); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(n.root, six.of("crab_vips"))); err != nil {
		return nil // nobody has needed IPv6 here
	}
	if err := n.openSix(); err != nil {
		n.Close()
		return err
	}
	return nil
}

// Check refuses what cannot be written.
func (w Wire) Check() error {
	_, err := w.normal()
	return err
}

// normal fills in the default and refuses what cannot be written (C-7).
func (w Wire) normal() (Wire, error) {
	switch {
	case w.Kind == 0:
		w.Kind = 42
	case w.Kind < 42 && w.Kind != 42, w.Kind == 255:
		return w, &FieldError{"wire.kind", fmt.Sprintf("%d belongs to another TCP option; use 42, 253 or 254", w.Kind)}
	}
	if w.Kind != 253 && w.Kind != 254 && w.ExID != 0 {
		return w, &FieldError{"wire.exid", "is for kinds 253 and 254 only"}
	}
	if (w.Kind == 253 || w.Kind == 254) && (w.ExID == 0 || w.ExID == 0xffff) {
		return w, &FieldError{"wire.exid", "must be 1…65534 with an experimental kind"}
	}
	return w, nil
}

// prepareRoot makes the folder, which must lie on a bpffs.
func prepareRoot(root string) error {
	if !filepath.IsAbs(root) {
		return &FieldError{"root", fmt.Sprintf("%q is no absolute path", root)}
	}
	for _, folder := range []string{linkFolder, poolFolder, programFolder} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o700); err != nil {
			return err
		}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return err
	}
	if st.Type != unix.BPF_FS_MAGIC {
		return &FieldError{"root", root + " is not on a bpffs (mount -t bpf bpf DIR)"}
	}
	return nil
}

// writeMeta leaves when the last fall-back SYN came: the programs write it.
func (n *Node) writeMeta(w Wire) error {
	var meta programs.Meta
	if err := n.maps["crab_meta"].Lookup(uint32(0), &meta); err != nil {
		return fmt.Errorf("crab_meta: %w", err)
	}
	meta.Magic, meta.Layout = programs.LayoutMagic, programs.LayoutVersion
	meta.Kind, meta.Exid = w.Kind, w.ExID
	return n.maps["crab_meta"].Put(uint32(0), meta)
}

// kernelTypes is where the programs look for the kernel's own fields. A kernel that does not tell
// them has no kernel functions either, and what reads the fields is cut out: then any place will do.
func kernelTypes(spec *ebpf.CollectionSpec) (*btf.Spec, error) {
	types, err := btf.LoadKernelSpec()
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, fs.ErrNotExist) {
		return spec.Types, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the kernel's type information: %w", err)
	}
	return types, nil
}

// program has the kernel verify and load one program, once.
func (n *Node) program(name string) (*ebpf.Program, error) {
	if p := n.loaded[name]; p != nil {
		return p, nil
	}
	var err error
	for object, spec := range n.specs {
		if spec.Programs[name] == nil {
			continue
		}
		one := spec.Copy()
		one.Programs = map[string]*ebpf.ProgramSpec{name: one.Programs[name]}
		for m := range n.used(spec) { // the state's bounds, not the ones compiled in
			one.Maps[m].MaxEntries = n.open(m).MaxEntries()
		}
		o := ebpf.CollectionOptions{MapReplacements: n.used(spec)}
		if o.Programs.KernelTypes, err = kernelTypes(spec); err != nil {
			return nil, err
		}
		c, err := ebpf.NewCollectionWithOptions(one, o)
		if err != nil {
			return nil, fmt.Errorf("load %s of %s: %w", name, object, err)
		}
		defer c.Close()
		n.loaded[name] = c.DetachProgram(name)
		return n.loaded[name], nil
	}
	return nil, fmt.Errorf("no program %s", name)
}

// open is the map of a name, of either family.
func (n *Node) open(name string) *ebpf.Map {
	if m := n.maps[name]; m != nil {
		return m
	}
	if maps := n.six.Load(); maps != nil {
		return (*maps)[name]
	}
	return nil
}

// used are the open maps that one object refers to.
func (n *Node) used(spec *ebpf.CollectionSpec) map[string]*ebpf.Map {
	used := map[string]*ebpf.Map{}
	for name := range spec.Maps {
		if m := n.open(name); m != nil {
			used[name] = m
		}
	}
	return used
}

// Close lets go of the state and leaves all of it pinned and at work.
func (n *Node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	for _, p := range n.loaded {
		p.Close()
	}
	closeMaps(n.maps)
	if maps := n.six.Load(); maps != nil {
		closeMaps(*maps)
	}
	return nil
}
