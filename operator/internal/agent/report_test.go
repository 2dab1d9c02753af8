// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// desk is a reporter whose API server gives generation 7 and refuses on request, and what was written there.
type desk struct {
	*reporter
	events         *events.FakeRecorder
	refuse, status error
	counters       map[string]uint64
	uncounted      error
	writes         []*v1alpha1.NodeDataplane
}

func newDesk() *desk {
	d := &desk{events: events.NewFakeRecorder(100)}
	keep := func(o runtime.ApplyConfiguration, refuse error) error {
		u := o.(interface {
			SetGeneration(int64)
			UnstructuredContent() map[string]any
		})
		n := &v1alpha1.NodeDataplane{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), n); err != nil {
			return err
		}
		d.writes = append(d.writes, n)
		u.SetGeneration(7)
		return refuse
	}
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			return keep(o, d.refuse)
		},
		SubResourceApply: func(_ context.Context, _ client.Client, _ string, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
			return keep(o, d.status)
		},
	}).Build()
	d.reporter = newReporter("n1", c, d.events, func() (map[string]uint64, error) { return d.counters, d.uncounted })
	return d
}

func (d *desk) told() string {
	var all []string
	for len(d.events.Events) > 0 {
		all = append(all, <-d.events.Events)
	}
	return strings.Join(all, "; ")
}

// seen is what an agent observed, with a device and a condition.
func seen(mode v1alpha1.DeviceMode, why string, ready metav1.ConditionStatus, reason string) observed {
	o := observed{uid: "u"}
	o.status.Devices = []v1alpha1.NodeDevice{{Name: "eth0", Mode: mode, Reason: why}}
	o.status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: reason, Message: "m"}}
	return o
}

// The object is written before its status, which names the generation that it is of; what cannot be written is tried again,
// and is told of when it was.
func TestReportsAreWritten(t *testing.T) {
	d, o := newDesk(), seen("Native", "", metav1.ConditionFalse, "R")
	for _, c := range []struct {
		refuse, status error
		writes         int
		says           string
	}{{errors.New("no"), nil, 1, "apply NodeDataplane n1: no"}, {nil, errors.New("nor"), 2, "apply NodeDataplane n1: nor"}, {nil, nil, 2, ""}} {
		d.writes, d.refuse, d.status = nil, c.refuse, c.status
		err := d.write(t.Context(), o)
		if len(d.writes) != c.writes || (err == nil) != (c.says == "") || err != nil && err.Error() != c.says || (d.told() != "") != (err == nil) || (d.written.uid == "u") != (err == nil) {
			t.Errorf("%+v: %d writes, %v", c, len(d.writes), err)
		}
	}
	object, status := d.writes[0], d.writes[1]
	if object.OwnerReferences[0].UID != "u" || len(object.Status.Conditions) != 0 || status.Status.ObservedGeneration != 7 || status.Status.Conditions[0].ObservedGeneration != 7 || status.Status.Devices[0].Name != "eth0" {
		t.Errorf("%+v, then %+v", object, status)
	}
	d.writes = nil
	if err := d.exist(t.Context(), ""); err != nil || len(d.writes) != 1 || len(d.writes[0].OwnerReferences) != 0 {
		t.Errorf("%+v, %v", d.writes, err)
	}
}

// A condition has the time since which it says so, and stays where an observation does not name it; counters that cannot be
// read are none.
func TestWhatIsReported(t *testing.T) {
	d := newDesk()
	d.counters = map[string]uint64{"a": 3, "b": 0}
	first := d.object(seen("Native", "", metav1.ConditionTrue, "R")).Status
	if c := first.Counters; len(c) != 1 || c[0].Name != "a" || c[0].Count != 3 {
		t.Errorf("%+v", c)
	}
	d.uncounted = errors.New("no")
	again := d.object(seen("Native", "", metav1.ConditionTrue, "R")).Status
	other := d.object(observed{}).Status
	if len(again.Counters) != 0 || !again.Conditions[0].LastTransitionTime.Equal(&first.Conditions[0].LastTransitionTime) || len(other.Conditions) != 1 {
		t.Errorf("%+v, %+v", again, other)
	}
	counters := map[string]uint64{}
	for i := range v1alpha1.MaxNodeCounters + 2 {
		counters[fmt.Sprintf("c%03d", i)] = uint64(i + 1)
	}
	all := most(counters)
	if len(all) != v1alpha1.MaxNodeCounters || all[0].Name != "c002" || all[len(all)-1].Name != fmt.Sprintf("c%03d", v1alpha1.MaxNodeCounters+1) {
		t.Errorf("%d counters from %s to %s", len(all), all[0].Name, all[len(all)-1].Name)
	}
}

// What became worse is told, and what became better again; what stays, and what is well from the start, is not.
func TestWhatIsAnnouncedOfANode(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	well, bad := seen("Native", "", yes, "R"), seen("Generic", "no driver", no, "Q")
	for name, c := range map[string]struct {
		before, after observed
		want          string
	}{
		"well from the start": {observed{}, well, ""},
		"bad from the start":  {observed{}, bad, "Warning FallingBack device eth0 balances by Generic: no driver; Warning Q m"},
		"as before":           {bad, bad, ""},
		"worse":               {well, bad, "Warning FallingBack device eth0 balances by Generic: no driver; Warning Q m"},
		"better":              {bad, well, "Normal R m"},
		"another reason":      {seen("Generic", "old", no, "P"), seen("Generic", "old", no, "Q"), "Warning Q m"},
		"the device's":        {seen("Generic", "old", no, "Q"), seen("Generic", "new", no, "Q"), "Warning FallingBack device eth0 balances by Generic: new"},
	} {
		d := newDesk()
		d.written = c.before
		d.announce(c.after, &v1alpha1.NodeDataplane{})
		if got := d.told(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// An agent is ready once its programs were loaded and its first state is in place.
func TestWhenAnAgentIsReady(t *testing.T) {
	a := &agent{}
	for _, applied := range []bool{false, true} {
		a.applied.Store(applied)
		w := httptest.NewRecorder()
		a.ready(w, nil)
		if (w.Code == http.StatusOK) != applied {
			t.Errorf("applied %v: %d", applied, w.Code)
		}
	}
	a.options.Metrics = "0"
	if err := a.serve(t.Context()); err != nil {
		t.Error(err)
	}
	a.options.Metrics = "nowhere:x"
	if err := a.serve(t.Context()); err == nil {
		t.Error("an address that is none is served at")
	}
}
