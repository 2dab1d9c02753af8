// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// Bounds of what is read and reported.
const (
	// MaxEntries is the most that is read from one switch.
	MaxEntries = 1 << 17
	// maxReported is how many entries that are not ours are named.
	maxReported = 8
)

// Owner tells our entries from others'. A server may or may not keep the metadata of an
// entry: without it we know our own as long as we live, and by what is wanted.
type Owner struct {
	// Tag is the metadata of our entries.
	Tag []byte
	// Written are the keys that this process has written.
	Written map[string]bool
}

// Difference is what stands between a switch and what is wanted.
type Difference struct {
	// Steps are the writes, each of them one stage: nothing of a later one points at
	// what an earlier one failed to make (W-22).
	Steps [][]Write
	// Missing, Changed and Stale are how many entries are to be inserted, modified,
	// deleted.
	Missing, Changed, Stale int
	// Strange is how many entries are somebody else's, and Strangers some of them. They
	// stay (W-23).
	Strange   int
	Strangers []string
	// Contested are wanted entries in whose place stands somebody else's.
	Contested []string
	// Used is how many entries stand in each table, whoever wrote them.
	Used map[string]int64
}

// Write is one update, with the entry it is about.
type Write struct {
	Kind  p4.Update_Type
	Entry Entry
}

// Update is what is sent.
func (w Write) Update() *p4.Update {
	entity := w.Entry.Entity()
	if w.Kind == p4.Update_DELETE {
		entity = bare(entity)
	}
	return &p4.Update{Type: w.Kind, Entity: entity}
}

// Settled says that the switch holds exactly what is wanted, as far as it is ours.
func (d Difference) Settled() bool { return len(d.Steps) == 0 && len(d.Contested) == 0 }

// Compare says what must be written so that a switch that holds `held` holds `wanted`.
func Compare(wanted []Entry, held []Entry, o Owner, ranks map[string]int) Difference {
	d := Difference{Used: map[string]int64{}}
	places := make(map[string]int, len(held))
	kept := keepsTags(held, o)
	for n, h := range held {
		d.Used[h.table]++
		places[h.key] = n
	}
	var first, writes []Write
	for _, w := range wanted {
		at, there := places[w.key]
		delete(places, w.key)
		var h Entry
		if there {
			h = held[at]
		}
		switch {
		case !there:
			d.Missing++
			writes = append(writes, Write{p4.Update_INSERT, tagged(w, o.Tag)})
		case h.value == w.value:
		case !o.ours(h, kept):
			d.Contested = report(d.Contested, h)
		case anew[h.table]:
			d.Changed++
			first = append(first, Write{p4.Update_DELETE, h})
			writes = append(writes, Write{p4.Update_INSERT, tagged(w, o.Tag)})
		default:
			d.Changed++
			writes = append(writes, Write{p4.Update_MODIFY, tagged(w, o.Tag)})
		}
	}
	var stale []Write
	for _, at := range places {
		h := held[at]
		if !o.ours(h, kept) {
			d.Strange++
			d.Strangers = report(d.Strangers, h)
			continue
		}
		d.Stale++
		h.rank = ranks[h.table]
		stale = append(stale, Write{p4.Update_DELETE, h})
	}
	slices.Sort(d.Strangers)
	d.Steps = ordered(writes, stale)
	if len(first) > 0 {
		d.Steps = slices.Insert(d.Steps, 0, first)
	}
	return d
}

// ours: by its tag where there is one; without, because this process wrote it and the
// server does not keep tags.
func (o Owner) ours(h Entry, kept bool) bool {
	if len(h.metadata) > 0 {
		return bytes.Equal(h.metadata, o.Tag)
	}
	return !kept && o.Written[h.key]
}

// keepsTags: some entry came back with our tag, so that one without is not ours.
func keepsTags(held []Entry, o Owner) bool {
	return slices.ContainsFunc(held, func(h Entry) bool { return bytes.Equal(h.metadata, o.Tag) })
}

func report(all []string, e Entry) []string {
	if len(all) < maxReported {
		return append(all, fmt.Sprintf("%.120s", e.key))
	}
	return all
}

// ordered: what others point at is made first, by rank, and what points at others is
// taken away first, after everything is made.
func ordered(writes, stale []Write) (steps [][]Write) {
	slices.SortStableFunc(writes, func(a, b Write) int { return cmp.Compare(a.Entry.rank, b.Entry.rank) })
	slices.SortStableFunc(stale, func(a, b Write) int {
		return cmp.Or(cmp.Compare(b.Entry.rank, a.Entry.rank), cmp.Compare(a.Entry.key, b.Entry.key))
	})
	for _, all := range [][]Write{writes, stale} {
		for n, w := range all {
			if n == 0 || all[n-1].Entry.rank != w.Entry.rank {
				steps = append(steps, nil)
			}
			steps[len(steps)-1] = append(steps[len(steps)-1], w)
		}
	}
	return steps
}

// tagged is the entry with our mark, without touching the one that is shared.
func tagged(e Entry, tag []byte) Entry {
	e.mark = tag
	return e
}

// Modify is a write that puts a wanted entry in the place of the one that stands there.
func Modify(e Entry, tag []byte) Write { return Write{p4.Update_MODIFY, tagged(e, tag)} }

// Says that two entries of one place say the same.
func (e Entry) Says(other Entry) bool { return e.key == other.key && e.value == other.value }

// bare is an entity as a deletion names it: its key alone, and as P4Runtime writes one,
// however the switch did.
func bare(entity *p4.Entity) *p4.Entity {
	if t := entity.GetTableEntry(); t != nil {
		for _, f := range t.Match {
			unpad(f)
		}
		return &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{TableId: t.TableId, Match: t.Match, Priority: t.Priority}}}
	}
	if g := entity.GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); g != nil {
		return groupEntity(&p4.MulticastGroupEntry{MulticastGroupId: g.MulticastGroupId})
	}
	return entity
}

func unpad(f *p4.FieldMatch) {
	switch m := f.GetFieldMatchType().(type) {
	case *p4.FieldMatch_Exact_:
		m.Exact.Value = trimmed(m.Exact.GetValue())
	case *p4.FieldMatch_Lpm:
		m.Lpm.Value = trimmed(m.Lpm.GetValue())
	case *p4.FieldMatch_Ternary_:
		m.Ternary.Value, m.Ternary.Mask = trimmed(m.Ternary.GetValue()), trimmed(m.Ternary.GetMask())
	}
}
