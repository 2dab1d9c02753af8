// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// W-13: what each program discards of nobody's is found in the cell that tells of it.
func TestStrayCells(t *testing.T) {
	whole := bed.Frame(bed.Ends{Src: bed.ClientIP, Dst: bed.ClientIP + 9, SrcPort: 53, DstPort: 5353}, []byte("hello"))
	for program, control := range map[Program]string{ProgramRouter: "route", ProgramCRAB: "balance", ProgramSLOG: "slog", ProgramAggregator: "aggregate", ProgramBox: "admit"} {
		for _, shell := range []string{"v1model", "tna"} {
			prog, err := model.Load("../../../dataplane/p4/"+string(program)+"/"+shell+".p4", nil)
			if err != nil {
				t.Fatal(err)
			}
			info, err := NewInfo(prog.P4Info())
			if err != nil {
				t.Fatal(err)
			}
			for fate, data := range map[Fate][]byte{Strange: whole, Malformed: whole[:9]} {
				m := model.NewMachine(prog)
				if out := m.Pass(model.Frame{Port: 3, Data: data}); len(out) != 0 || m.Odd() != 0 {
					t.Errorf("%s for %s: %d frames, %s", program, shell, len(out), m.LastOdd)
				}
				n := uint64(0)
				for cell, of := range info.StrayCells() {
					if of == fate {
						n += m.Count("Ingress."+control+".outcomes", uint64(cell.Index))
					}
				}
				if n != 1 {
					t.Errorf("%s for %s: %d are counted as %s, want 1", program, shell, n, fate)
				}
			}
		}
	}
}
