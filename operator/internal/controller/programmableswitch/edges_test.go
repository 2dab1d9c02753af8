// SPDX-License-Identifier: Apache-2.0

package programmableswitch

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// The same switch under two names is the older one's, of one second the one whose name comes first; other switches,
// and the same device number elsewhere, stand before it in the list.
func TestOlderTwin(t *testing.T) {
	made := func(name, endpoint string, device int64, age time.Duration) v1alpha1.ProgrammableSwitch {
		out := v1alpha1.ProgrammableSwitch{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1000, 0).Add(-age))}}
		out.Spec.Endpoint, out.Spec.DeviceID = endpoint, device
		return out
	}
	self := made("m", "s:1", 1, 0)
	others := []v1alpha1.ProgrammableSwitch{made("a", "s:2", 1, time.Hour), made("b", "s:1", 2, time.Hour)}
	for _, c := range []struct {
		name string
		twin v1alpha1.ProgrammableSwitch
		want string
	}{
		{"older", made("z", "s:1", 1, time.Second), "z"},
		{"younger", made("c", "s:1", 1, -time.Second), ""},
		{"of one second, its name before", made("c", "s:1", 1, 0), "c"},
		{"of one second, its name behind", made("z", "s:1", 1, 0), ""},
	} {
		for _, list := range [][]v1alpha1.ProgrammableSwitch{{c.twin}, append(others[:2:2], c.twin)} {
			if got := olderTwin(&snapshot{psw: &self, others: list}); got != c.want {
				t.Errorf("%s, of %d: %q, want %q", c.name, len(list), got, c.want)
			}
		}
	}
}

// Classes are counted from 0; what the switch has no place for is left out, and ends nothing.
func TestDroppableClasses(t *testing.T) {
	a := &dataplane.Admission{Mode: string(v1alpha1.EnforcementReject)}
	a.DroppableClasses = []int{-1, len(objectiveOf(nil, "").Droppable), 0, len(objectiveOf(nil, "").Droppable) - 1}
	out := objectiveOf(a, "v1model")
	for class, got := range out.Droppable {
		if want := class == 0 || class == len(out.Droppable)-1; got != want {
			t.Errorf("class %d: %v", class, got)
		}
	}
}
