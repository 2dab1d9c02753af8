// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// C-82: maps and programs have a prefix of their own, by which nobody (Cilium: cilium_, cil_; Calico: cali_) takes them for its own, and
// every map that outlives its loader is pinned in our folder: none goes to bpffs' tc/globals, where others' loaders look.
func TestNamesAreNobodyElses(t *testing.T) {
	specs, err := programs.Specs()
	must(t, err)
	for _, spec := range specs {
		for name := range spec.Programs {
			if !strings.HasPrefix(name, "crab_") {
				t.Errorf("program %s", name)
			}
		}
		for name, m := range spec.Maps {
			if !strings.HasPrefix(name, "crab_") && !strings.HasPrefix(name, ".") { // .rodata is the program's own
				t.Errorf("map %s", name)
			}
			if m.Pinning != 0 && m.Name != name {
				t.Errorf("map %s is pinned as %s", name, m.Name)
			}
		}
	}
}
