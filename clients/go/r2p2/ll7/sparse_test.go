// SPDX-License-Identifier: Apache-2.0

package ll7

import (
	"reflect"
	"testing"
)

// A histogram comes back from its sparse form as it was, and merging sparse
// forms is merging histograms.
func TestSparse(t *testing.T) {
	var a, b, both, back Histogram
	for i := range uint64(500) {
		a.Record(i * 7919)
		b.Record(i * 104729)
		both.Record(i * 7919)
		both.Record(i * 104729)
	}
	b.Record(1 << 40)
	both.Record(1 << 40)
	a.RecordInf()
	both.RecordInf()
	back.MergeSparse(a.Sparse())
	if !reflect.DeepEqual(back, a) {
		t.Error("the sparse form loses something")
	}
	back.MergeSparse(b.Sparse())
	if !reflect.DeepEqual(back, both) {
		t.Error("merged sparse forms differ from the merged histogram")
	}
	if back.MergeSparse((&Histogram{}).Sparse()); !reflect.DeepEqual(back, both) {
		t.Error("an empty one adds something")
	}
}
