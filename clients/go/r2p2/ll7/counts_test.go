// SPDX-License-Identifier: Apache-2.0

package ll7

import (
	"encoding/json"
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
		if _, err := FromCounts(map[int]uint64{index: 1}, 0, 0); err == nil {
			t.Errorf("bucket %d was taken", index)
		}
	}
}
