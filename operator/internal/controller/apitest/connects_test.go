// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/waits"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/pki"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// dialled is a node whose clients make 500 connections, of which one in a hundred
// never comes to stand, between any two looks.
type dialled struct {
	vip   redirect.VIPKey
	took  time.Duration
	looks atomic.Uint64
}

func (d *dialled) Since() (time.Time, error) { return time.Now().Add(-time.Hour), nil }

func (d *dialled) Connects() (map[redirect.VIPKey]*ll7.Histogram, error) {
	h := &ll7.Histogram{}
	for range d.looks.Add(1) {
		for range 495 {
			h.Record(uint64(d.took))
		}
		for range 5 {
			h.RecordInf()
		}
	}
	return map[redirect.VIPKey]*ll7.Histogram{d.vip: h}, nil
}

// Lost are none: its maps are never full.
func (d *dialled) Lost() (map[string]uint64, error) { return nil, nil }

// node makes one whose agent says that it works; whether anybody listens there is
// another matter.
func (w *world) node(name, version string) (address string) {
	w.t.Helper()
	address = "127.89." + strings.TrimPrefix(name, "node-")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := direct.Create(context.Background(), n); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = direct.Delete(context.Background(), n) })
	says(w.t, n, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	acknowledge(w.t, name, w.front())
	a := &v1alpha1.NodeDataplane{}
	if err := direct.Get(context.Background(), types.NamespacedName{Name: name}, a); err != nil {
		w.t.Fatal(err)
	}
	before := a.DeepCopy()
	a.Status.AgentVersion = version
	meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionTrue, Reason: "Programmed"})
	if err := direct.Status().Patch(context.Background(), a, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
	return address
}

// agent answers for a node with the certificate that the operator made for agents.
func (w *world) agent(node, address string, took time.Duration) {
	w.t.Helper()
	dir, secret := w.t.TempDir(), &corev1.Secret{}
	eventually(w.t, "the agents' certificate", func() (bool, string) {
		err := direct.Get(context.Background(), types.NamespacedName{Namespace: operatorNamespace, Name: pki.AgentSecretName}, secret)
		return err == nil && len(secret.Data) == 3, "an empty Secret"
	})
	for file, content := range secret.Data {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o400); err != nil {
			w.t.Fatal(err)
		}
	}
	vip := redirect.VIPKey{Addr: crabplan.Addresses(w.front())[0], Port: 8080}
	record, err := waits.New(node, &dialled{vip: vip, took: took})
	if err != nil {
		w.t.Fatal(err)
	}
	record.Set(waits.Services{vip: {Namespace: w.ns, Name: w.name}})
	target := dataplane.AgentTarget(address, 9442)
	if err := record.Serve(w.t.Context(), target.Address, &dataplane.Identity{Dir: dir, Log: slog.New(slog.DiscardHandler)}); err != nil {
		w.t.Fatal(err)
	}
}

// The whole way: two nodes, each with a part of the connections, read over mutual
// TLS, merged, judged, shown; not before every agent tells, of which one is older.
func TestObjectiveIsMeasuredOnClientsNodes(t *testing.T) {
	w := onTCP(t, "dialled")
	first, second := w.node("node-1.1", "9.9.9"), w.node("node-1.2", "0.1.0")
	w.objective(`{spec: {percentile: "95", latencyMicroseconds: 1000}}`)
	w.agent("node-1.1", first, 200*time.Microsecond)
	slo := w.waitMet(metav1.ConditionUnknown, v1alpha1.ReasonMeasurementIncomplete)
	eventually(t, "the older agent alone is missing", func() (bool, string) {
		slo = w.waitMet(metav1.ConditionUnknown, v1alpha1.ReasonMeasurementIncomplete)
		m := meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionMet).Message
		return strings.HasPrefix(m, "no histogram from node-1.2 (agent 0.1.0: Unreachable); an agent older than this operator"), m
	})
	w.agent("node-1.2", second, 300*time.Microsecond)
	slo = w.waitMet(metav1.ConditionTrue, v1alpha1.ReasonObjectiveMet)
	st := slo.Status
	if st.Source != v1alpha1.SourceClientNode || *st.ObservedMicroseconds < 300 || *st.ObservedMicroseconds > 303 || *st.Unanswered == 0 || st.RejectedShare != "" || *st.RequestsPerSecond == 0 {
		t.Errorf("%+v", st)
	}
	if m := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionMet).Message; !strings.Contains(m, "as the clients of 2 of 2 nodes saw it") {
		t.Errorf("%q", m)
	}
	if _, row := shown(t, table(t, w.ns, "servicelevelobjectives", "echo-p99")); !strings.HasPrefix(row, "echo-p99 dialled 95 1ms "+st.Observed+" ") || !strings.Contains(row, " True ") {
		t.Errorf("slo row: %s", row)
	}
	w.patch(&v1alpha1.ServiceLevelObjective{}, "echo-p99", `{"spec":{"percentile":"99.5"}}`)
	slo = w.waitMet(metav1.ConditionFalse, v1alpha1.ReasonObjectiveMissed)
	if slo.Status.Observed != "+Inf" {
		t.Errorf("one connection in a hundred never came to stand, and p99.5 is %s", slo.Status.Observed)
	}
	w.patch(&v1alpha1.ServiceLevelObjective{}, "echo-p99", `{"spec":{"enforcement":{"mode":"Reject"}}}`)
	slo = w.waitMet(metav1.ConditionUnknown, v1alpha1.ReasonNoMeasurementSource)
	if c := meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionAccepted); c.Reason != v1alpha1.ReasonNothingEnforces {
		t.Errorf("%+v", c)
	}
}
