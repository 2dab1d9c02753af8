// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// resized are the maps whose bound is a matter of configuration; each family has its own.
func resized(s Sizes) map[string]uint32 {
	all := map[string]uint32{}
	for _, f := range families {
		all[f.of("crab_flows_out")], all[f.of("crab_flows_in")], all[f.of("crab_pending")] = s.Flows, s.Flows, s.Pending
		all[f.of("crab_opening")], all[f.of("crab_syns")], all[f.of("crab_dsr")] = s.Echoes, s.SYNs, s.DSR
		all[f.of("crab_relays")], all[f.of("crab_relays_back")] = s.Relays, 2*s.Relays
	}
	return all
}

// mapSpecs are the maps of all programs; a map several of them share is one.
func mapSpecs(specs map[string]*ebpf.CollectionSpec, sizes Sizes) map[string]*ebpf.MapSpec {
	all := map[string]*ebpf.MapSpec{}
	for _, spec := range specs {
		for name, m := range spec.Maps {
			if m.Pinning == ebpf.PinByName {
				all[name] = m
			}
		}
	}
	for name, size := range resized(sizes) {
		if size != 0 && all[name] != nil {
			all[name].MaxEntries = size
		}
	}
	return all
}

// openMaps finds the pinned maps below root, and makes those that are missing; not those that are open already.
func openMaps(specs map[string]*ebpf.CollectionSpec, root string, sizes Sizes, open map[string]*ebpf.Map) (map[string]*ebpf.Map, error) {
	maps := map[string]*ebpf.Map{}
	for name, spec := range mapSpecs(specs, sizes) {
		if open[name] != nil {
			continue
		}
		m, err := openMap(spec, filepath.Join(root, name), root)
		if err != nil {
			closeMaps(maps)
			return nil, fmt.Errorf("map %s: %w", name, err)
		}
		maps[name] = m
	}
	return maps, nil
}

func openMap(spec *ebpf.MapSpec, pin, root string) (*ebpf.Map, error) {
	old, err := ebpf.LoadPinnedMap(pin, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return ebpf.NewMapWithOptions(spec, ebpf.MapOptions{PinPath: root})
	}
	if err != nil {
		return nil, err
	}
	spec.MaxEntries = old.MaxEntries() // state keeps the bound it was made with
	if err := spec.Compatible(old); err != nil {
		old.Close()
		return nil, fmt.Errorf("pinned state does not fit this program: %w", err)
	}
	return old, nil
}

func closeMaps(maps map[string]*ebpf.Map) {
	for _, m := range maps {
		m.Close()
	}
}

// checkLayout refuses a folder that another version of the programs wrote.
func checkLayout(root string) error {
	m, err := ebpf.LoadPinnedMap(filepath.Join(root, "crab_meta"), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s/crab_meta: %w", root, err)
	}
	defer m.Close()
	raw, err := m.LookupBytes(uint32(0))
	if err != nil || len(raw) < 8 {
		return &LayoutError{Root: root, Found: 0, Want: programs.LayoutVersion}
	}
	magic, layout := binary.NativeEndian.Uint32(raw), binary.NativeEndian.Uint32(raw[4:])
	if magic == 0 && layout == 0 { // made, but never written: a process was killed in between
		return nil
	}
	if magic != programs.LayoutMagic || layout != programs.LayoutVersion {
		return &LayoutError{Root: root, Found: layout, Want: programs.LayoutVersion}
	}
	return nil
}

// Remove takes the whole state of a folder away: programs are detached and
// redirected connections are reset.
func Remove(root string) error {
	links, err := os.ReadDir(filepath.Join(root, linkFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, l := range links { // attached programs go before the maps they use
		if err := os.Remove(filepath.Join(root, linkFolder, l.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(root)
}
