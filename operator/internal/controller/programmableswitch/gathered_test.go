// SPDX-License-Identifier: Apache-2.0

package programmableswitch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
)

// cluster is an API server with these objects, and a reconciler on it. refuses names a kind that cannot be read.
func cluster(t *testing.T, refuses string, objects ...client.Object) *Reconciler {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	refused := func(o any) error {
		if refuses != "" && strings.HasSuffix(fmt.Sprintf("%T", o), "."+refuses) {
			return errors.New("not now")
		}
		return nil
	}
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(&v1alpha1.ProgrammableSwitch{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				return errors.Join(refused(o), w.Get(ctx, key, o, opts...))
			},
			List: func(ctx context.Context, w client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
				return errors.Join(refused(o), w.List(ctx, o, opts...))
			},
		}).Build()
	return &Reconciler{Client: c, Live: c, Switches: &remembering{}, Board: switchboard.New(), Events: events.NewFakeRecorder(20),
		Now: func() time.Time { return time.Unix(500, 0) }, Namespace: "bobtail-system"}
}

// naming is a service that names a switch in its specification, its status, or none.
func naming(name, asked, had string) *v1alpha1.RpcService {
	s := &v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID("u-" + name)}}
	if asked != "" {
		s.Spec.Router.Switch = &v1alpha1.RouterSwitch{Name: asked}
	}
	if had != "" {
		s.Status.Switch = &v1alpha1.RpcServiceSwitchStatus{Name: had}
	}
	return s
}

// configuring is the configuration of a service that an owner has.
func configuring(t *testing.T, of *v1alpha1.RpcService, owner types.UID, text string) *corev1.ConfigMap {
	t.Helper()
	controls := true
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: render.ConfigMapName(of), Labels: map[string]string{v1alpha1.LabelService: of.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "bobtail.dev/v1alpha1", Kind: "RpcService", Name: of.Name, UID: owner, Controller: &controls}}},
		Data: map[string]string{dataplane.ConfigMapKeyConfig: text},
	}
}

// documentText is a configuration that can be read.
func documentText(t *testing.T) string {
	t.Helper()
	doc := asks("echo", "192.0.2.1", 1, "10.0.1.5").doc
	doc.APIVersion, doc.Sources, doc.KeyIDs, doc.Routers = config.APIVersion, []config.Source{}, []int{}, []dataplane.Router{}
	doc.Service.Name, doc.Service.Namespace, doc.Service.Placement, doc.Service.Forwarding, doc.Service.LegacyPeers = "echo", "demo", "Software", "Transparent", "Deny"
	doc.Service.RequestTimeoutMilliseconds, doc.Service.WorkersPerReplica = 1000, 2
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dataplane.ParseConfig(text); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A switch serves who names it and who has yet to leave it, each with the configuration that is its own and can be read.
func TestWhoseServicesASwitchHas(t *testing.T) {
	text := documentText(t)
	gone := naming("gone", "leaf", "")
	gone.Finalizers, gone.DeletionTimestamp = []string{"a/b"}, &metav1.Time{Time: time.Unix(1, 0)}
	first, forged, broken := naming("first", "leaf", "leaf"), naming("forged", "leaf", ""), naming("broken", "leaf", "")
	r := cluster(t, "", first, configuring(t, first, first.UID, text), forged, configuring(t, forged, "another", text),
		broken, configuring(t, broken, broken.UID, "{"), naming("leaves", "spine", "leaf"), naming("elsewhere", "spine", "spine"), naming("none", "", ""), gone)
	s := &snapshot{psw: &v1alpha1.ProgrammableSwitch{ObjectMeta: metav1.ObjectMeta{Name: "leaf"}}}
	if err := r.gatherServices(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range s.services {
		got = append(got, fmt.Sprintf("%s %t %t", a.service.Name, a.doc != nil, a.hash == dataplane.HashConfig([]byte(text))))
	}
	slices.Sort(got)
	want := []string{"broken false false", "first true true", "forged false false", "leaves false false"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a switch names is read: its Secret, also an empty one, and the parts of its pipeline as text or as bytes. What
// is not there is left out; what cannot be read stops the attempt, by name.
func TestWhatASwitchNamesIsRead(t *testing.T) {
	leaf := world(t, func(s *snapshot) { s.psw.Spec.TLS = &v1alpha1.SwitchTLS{SecretName: "keys"} }).psw
	other := leaf.DeepCopy()
	other.Name = "spine"
	parts := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bobtail-system", Name: "router"},
		Data: map[string]string{"p4info": string(routerInfo(t))}, BinaryData: map[string][]byte{"bin": {1, 2, 3}}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "bobtail-system", Name: "keys"}}
	s, err := cluster(t, "", leaf, other, parts, secret).gather(t.Context(), leaf)
	if err != nil || len(s.others) != 1 || s.others[0].Name != "spine" || s.secret == nil || len(s.parts) != 2 || string(s.parts[leaf.Spec.Pipeline.DeviceConfig[0]]) != "\x01\x02\x03" {
		t.Errorf("%v: others %d, secret %v, %d parts", err, len(s.others), s.secret, len(s.parts))
	}
	s, err = cluster(t, "", leaf).gather(t.Context(), leaf)
	if err != nil || s.secret != nil || len(s.parts) != 0 || len(s.others) != 0 {
		t.Errorf("nothing is there: %v, secret %v, %d parts", err, s.secret, len(s.parts))
	}
	for kind, says := range map[string]string{"Secret": "read Secret keys", "ConfigMap": "read ConfigMap router", "ProgrammableSwitchList": "list switches",
		"RpcServiceList": "list services"} {
		if _, err := cluster(t, kind, leaf, other, parts, secret).gather(t.Context(), leaf); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s cannot be read: %v, want %q", kind, err, says)
		}
	}
}

// A switch is held, its keeper told what is wanted, and what was found is written and told once; of one that went nothing is kept.
func TestWhatIsReadIsCarriedOut(t *testing.T) {
	leaf := world(t, nil).psw
	parts := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bobtail-system", Name: "router"},
		Data: map[string]string{"p4info": string(routerInfo(t))}, BinaryData: map[string][]byte{"bin": {1, 2, 3}}}
	r := cluster(t, "", leaf, parts)
	k, recorder := &remembering{}, events.NewFakeRecorder(20)
	var seen []string
	r.Switches, r.Events, r.Observe = k, recorder, func(name string, _ keeper.State, known bool) { seen = append(seen, fmt.Sprint(name, known)) }
	r.Board.ToldGroups()
	r.Board.Ask(nil)
	for range 2 {
		if next, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "leaf"}}); err != nil || next.RequeueAfter != again {
			t.Fatalf("again in %s, %v", next.RequeueAfter, err)
		}
	}
	is := &v1alpha1.ProgrammableSwitch{}
	if err := r.Client.Get(t.Context(), types.NamespacedName{Name: "leaf"}, is); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(is.Status.Conditions, v1alpha1.ConditionAccepted) || len(is.Finalizers) != 1 || k.set != 2 || len(recorder.Events) != 2 {
		t.Errorf("%+v, finalizers %v, set %d times, %d events", is.Status.Conditions, is.Finalizers, k.set, len(recorder.Events))
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "gone"}}); err != nil || k.forgotten != 1 {
		t.Errorf("%v, forgotten %d times", err, k.forgotten)
	}
	if want := []string{"leaffalse", "leaffalse", "gonefalse"}; !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
	r.Observe = nil
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "gone"}}); err != nil {
		t.Errorf("without metrics: %v", err)
	}
}

// A finalizer that is gone already is taken away without a word.
func TestReleaseOfWhatIsReleased(t *testing.T) {
	api := &patching{}
	r := &Reconciler{Client: api}
	if err := r.release(t.Context(), &v1alpha1.ProgrammableSwitch{}); err != nil || api.patches != 0 {
		t.Errorf("%v, %d patches", err, api.patches)
	}
	api.conflict = true
	held := &v1alpha1.ProgrammableSwitch{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{v1alpha1.FinalizerSwitch}}}
	if err := r.release(t.Context(), held); !apierrors.IsConflict(err) || api.patches != 1 {
		t.Errorf("%v, %d patches", err, api.patches)
	}
}
