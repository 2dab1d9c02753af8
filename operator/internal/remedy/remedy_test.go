// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"strings"
	"testing"
)

// Every reason has a command that names the pod, and none throws a disk away without a majority.
func TestRemedies(t *testing.T) {
	for reason := range remedies {
		for _, quorum := range []bool{true, false} {
			says := Member{reason, "shop", "orders-member-1", quorum}.Says()
			if !strings.Contains(says, "kubectl -n shop") || strings.Contains(says, "%") {
				t.Errorf("%s: %q", reason, says)
			}
			if !quorum && strings.Contains(says, "delete pvc") {
				t.Errorf("%s without a majority would lose a disk: %q", reason, says)
			}
		}
	}
	if says := (Member{"DiskDamaged", "shop", "orders-member-1", true}).Says(); !strings.Contains(says, "delete pvc data-orders-member-1") {
		t.Errorf("a damaged disk: %q", says)
	}
	if says := (Member{"Learner", "shop", "orders-member-1", true}).Says(); says != "" {
		t.Errorf("a learner: %q", says)
	}
}
