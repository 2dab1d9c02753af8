// SPDX-License-Identifier: Apache-2.0

package ll7

import (
	"encoding/json"
	"strings"
	"testing"
)

// Sorted by somebody else, or recorded here: the same histogram.
func TestFromCounts(t *testing.T) {
	var want Histogram
	buckets, sum := map[int]uint64{}, uint64(0)
	for _, v := range []uint64{1, 1023, 1024, 5000, 5000, 1 << 36, 1 << 37, 1 << 40} {
		want.Record(v)
		buckets[Index(v)]++
		sum += v
	}
	want.RecordInf()
	got, err := FromCounts(buckets, sum, 1)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(&want)
	b, _ := json.Marshal(got)
	if string(a) != string(b) {
		t.Errorf("%s\nwant %s", b, a)
	}
	for _, index := range []int{-1, Buckets} {
		if _, err := FromCounts(map[int]uint64{index: 1}, 0, 0); err == nil || !strings.Contains(err.Error(), "must be 0..3457") {
			t.Errorf("bucket %d: %v", index, err)
		}
		if n := got.Count(index); n != 0 {
			t.Errorf("bucket %d holds %d", index, n)
		}
	}
}

// What is new since an earlier reading, and that reading, make the later one; counts
// that went back are told, each of them.
func TestSince(t *testing.T) {
	var before, more Histogram
	for _, v := range []uint64{1, 5000, 5000, 1 << 40} {
		before.Record(v)
	}
	before.RecordInf()
	for _, v := range []uint64{5000, 77_000} {
		more.Record(v)
	}
	more.RecordInf()
	after := before.Clone()
	after.Merge(&more)
	got, ok := after.Since(&before)
	if !ok {
		t.Fatal("it went back?")
	}
	a, _ := json.Marshal(&more)
	b, _ := json.Marshal(got)
	if string(a) != string(b) {
		t.Errorf("%s\nwant %s", b, a)
	}
	if none, ok := after.Since(after); !ok || none.Total() != 0 || none.SumNanoseconds() != 0 {
		t.Error("something is new since now")
	}
	if all, ok := after.Since(&Histogram{}); !ok || all.Total() != after.Total() {
		t.Error("not everything is new since nothing")
	}
	var moved, answered Histogram // as many as before, but others
	for _, v := range []uint64{1, 5000, 9000, 1 << 40, 1 << 41} {
		moved.Record(v)
	}
	moved.RecordInf()
	for _, v := range []uint64{1, 5000, 5000, 1 << 40, 1 << 41} {
		answered.Record(v)
	}
	for name, h := range map[string]*Histogram{"less of a bucket": &moved, "less without an answer": &answered, "nothing": {}} {
		if _, ok := h.Since(&before); ok {
			t.Errorf("%s: not noticed", name)
		}
	}
}
