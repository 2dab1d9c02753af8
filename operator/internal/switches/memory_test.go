// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"os"
	"runtime"
	"testing"
)

// A load's 65,536 gaps are wanted, and are read back every five seconds: what is kept of an entry is small, or an operator of
// 256 MiB does not bear it.
func TestEntriesAreSmall(t *testing.T) {
	text, err := os.ReadFile("testdata/slog.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	i, err := ParseInfo(text)
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	wanted := make([]Entry, 0, Gaps)
	for n := range uint64(Gaps) {
		e, err := i.Bind(Row{Table: tableGap, Match: []Match{{Field: "meta.draw", Value: n}}, Action: "drop_next", Args: []Arg{{"templates", n}}})
		if err != nil {
			t.Fatal(err)
		}
		wanted = append(wanted, e)
	}
	d := Compare(wanted, nil, Owner{Tag: []byte("bobtail")}, Ranks)
	const most = 600 // bytes of an entry, and of the write that makes it
	if each := (heap() - before) / Gaps; each > most {
		t.Errorf("an entry takes %d bytes, and may take %d", each, most)
	} else {
		t.Logf("%d bytes each", each)
	}
	if d.Missing != Gaps {
		t.Errorf("%d of %d entries are missing", d.Missing, Gaps)
	}
	runtime.KeepAlive(wanted)
}

// heap is what is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
