// SPDX-License-Identifier: Apache-2.0

package judge_test

import (
	"sort"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/judge"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// W-4, W-5: the router keeps TNA's discipline, and fits twelve stages by this estimate.
func TestRouterKeepsDiscipline(t *testing.T) {
	p, err := model.Load("../../../dataplane/p4/router/tna.p4", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, nodes := range map[string][]*model.Node{"ingress": p.Ingress, "egress": p.Egress} {
		v := judge.Gress(p, nodes)
		for _, f := range v.Findings {
			t.Errorf("%s: %s", name, f)
		}
		var names []string
		for r := range v.At {
			names = append(names, r)
		}
		sort.Slice(names, func(i, k int) bool { return v.At[names[i]] < v.At[names[k]] })
		t.Logf("%s: %d stages, %d double accesses", name, v.Stages, v.DoubleAccesses)
		for _, r := range names {
			t.Logf("  %2d %s", v.At[r], r)
		}
	}
}
