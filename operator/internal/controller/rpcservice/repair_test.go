// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/secrets"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// made is everything that is made for the service of the bench.
func (b *bench) made() []client.Object {
	b.t.Helper()
	in := render.Input{Service: b.service(), Registry: "r", Version: "1"}
	var out []client.Object
	for _, o := range append(render.Objects(in), render.ConfigMap(in, nil, ""), render.Secret(in, "echo-keys", nil, nil), render.Secret(in, "echo-tls", nil, nil)) {
		out = append(out, o.DeepCopyObject().(client.Object))
	}
	return out
}

func (b *bench) remove(o client.Object) {
	b.t.Helper()
	if err := b.Client.Delete(context.Background(), o); err != nil {
		b.t.Fatal(err)
	}
}

// present says which of the objects are missing.
func (b *bench) missing(all []client.Object) []string {
	b.t.Helper()
	var out []string
	for _, o := range all {
		if err := b.Client.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
			out = append(out, fmt.Sprintf("%T %s", o, o.GetName()))
		}
	}
	return out
}

// K-28: whatever is deleted by hand, one by one and in pairs, is made again, and pods
// that cannot go on with what was made are replaced: those whose ServiceAccount is
// another one. No packet key comes back under the number of one that still runs.
func TestK28DeletedObjectsAreRepaired(t *testing.T) {
	kinds := newBench(t).made()
	for i := range kinds {
		for j := i; j < len(kinds); j++ {
			lost := kinds[i].GetName() == "echo-keys" || kinds[j].GetName() == "echo-keys"
			if testing.Short() && i != j && !(lost && (isAccount(kinds[i]) || isAccount(kinds[j]))) {
				continue // a whole run has all pairs
			}
			name := fmt.Sprintf("%T %s and %T %s", kinds[i], kinds[i].GetName(), kinds[j], kinds[j].GetName())
			b := newBench(t)
			b.must(4)
			first := b.secret("echo-keys").Data["1"]
			b.now = b.now.Add(time.Minute) // the pods are older than what comes back
			b.remove(b.made()[i])
			if j != i {
				b.remove(b.made()[j])
			}
			b.must(5)
			if gone := b.missing(b.made()); len(gone) > 0 {
				t.Errorf("%s: not made again: %v", name, gone)
			}
			keys := b.secret("echo-keys").Data
			if again, ok := keys["1"]; ok && string(again) != string(first) {
				t.Errorf("%s: another key under the number of the one that runs", name)
			}
			if c := b.condition(v1alpha1.ConditionProgrammed); (c.Reason == v1alpha1.ReasonKeysLost) != lost {
				t.Errorf("%s: %+v", name, c)
			}
			account := kinds[i].GetName() == "echo-sidecar" && isAccount(kinds[i]) || isAccount(kinds[j])
			b.checkRenewal(name, account)
			b.now = b.now.Add(distribution)
			b.must(4)
			if c := b.condition(v1alpha1.ConditionProgrammed); c.Status != metav1.ConditionTrue {
				t.Errorf("%s: in the end %+v", name, c)
			}
		}
	}
}

func isAccount(o client.Object) bool { _, is := o.(*corev1.ServiceAccount); return is }

// checkRenewal: the templates name the account exactly where pods have to be replaced
// for it.
func (b *bench) checkRenewal(name string, due bool) {
	b.t.Helper()
	account := &corev1.ServiceAccount{}
	if err := b.Client.Get(context.Background(), types.NamespacedName{Namespace: "demo", Name: "echo-sidecar"}, account); err != nil {
		b.t.Error(err)
	}
	for _, d := range []string{"echo-server", "echo-router"} {
		found := &appsv1.Deployment{}
		if err := b.Client.Get(context.Background(), types.NamespacedName{Namespace: "demo", Name: d}, found); err != nil {
			b.t.Error(err)
		}
		got := found.Spec.Template.Annotations[render.AnnotationAccount]
		if want := string(account.UID); due && got != want || !due && got != "" {
			b.t.Errorf("%s: pods of %s are made for account %q, which is %q now", name, d, got, account.UID)
		}
	}
}

// K-28: a token that the API server refuses is replaced by a new pod, and a pod that has
// been made anew, or a refusal of a moment, replaces nobody.
func TestK28PodsWithDeadTokensAreReplaced(t *testing.T) {
	refused := func(status int, since int64) stateRead {
		a := runs(hash)
		a.Reply.Watch = &dataplane.WatchState{Status: status, FailingSeconds: since, Error: "API server: no"}
		return a
	}
	at := func(seconds int) metav1.Time { return metav1.NewTime(start.Add(time.Duration(seconds) * time.Second)) }
	for _, c := range []struct {
		name          string
		pod           int // when it was made
		read          stateRead
		annotated     string // what the pod says
		template      string // what the Deployment says
		noAccount     bool
		want          string
		deletionBegun bool
	}{
		{name: "as made", pod: 11, read: runs(hash)},
		{name: "in the same second", pod: 10, read: runs(hash)},
		{name: "older than the account", pod: 9, read: runs(hash), want: "new"},
		{name: "older, on its way out", pod: 9, read: runs(hash), deletionBegun: true},
		{name: "older, the account is not there yet", pod: 9, read: runs(hash), noAccount: true},
		{name: "401 for long", pod: 10, read: refused(401, 30), want: "new"},
		{name: "401 for a moment", pod: 10, read: refused(401, 29)},
		{name: "403 is a matter of the Role", pod: 10, read: refused(403, 300)},
		{name: "made anew", pod: 12, read: runs(hash), annotated: "new", template: "new", want: "new"},
		{name: "made anew for it and refused all the same", pod: 12, read: refused(401, 300), annotated: "new", template: "new", want: "new"},
		{name: "made anew for an account before", pod: 9, read: runs(hash), annotated: "old", template: "old", want: "new"},
		{name: "what the template says stays", pod: 12, read: runs(hash), annotated: "old", template: "old", want: "old"},
	} {
		p := aPod("s1", "10.0.0.1", "rR")
		p.CreationTimestamp = at(c.pod)
		p.Annotations = map[string]string{render.AnnotationAccount: c.annotated}
		if c.deletionBegun {
			p.DeletionTimestamp = &metav1.Time{Time: start}
		}
		s := &snapshot{service: aService(), servers: []*corev1.Pod{p}, states: map[string]stateRead{"s1": c.read}, serverDeployment: &appsv1.Deployment{}}
		s.serverDeployment.Spec.Template.Annotations = map[string]string{render.AnnotationAccount: c.template}
		if !c.noAccount {
			s.account = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{UID: "new", CreationTimestamp: at(10)}}
		}
		if got := renewals(s)[v1alpha1.ComponentServer]; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// K-28: Programmed names the pod whose sidecar is refused, and one that has run an
// earlier document for long, though both run this generation.
func TestK28ProgrammedNamesWhoHearsOfNoChange(t *testing.T) {
	failing := func(status int, since int64) stateRead {
		a := runs("same")
		a.Reply.Watch = &dataplane.WatchState{Status: status, FailingSeconds: since, Error: "API server: 401 Unauthorized: who are you"}
		return a
	}
	for _, c := range []struct {
		name   string
		read   stateRead
		lagged time.Duration
		reason string
		says   string
	}{
		{"it can read", runs("same"), 0, v1alpha1.ReasonProgrammed, ""},
		{"its token is dead", failing(401, 0), 0, v1alpha1.ReasonConfigUnreadable, "cannot read its configuration, of s1 (API server: 401 Unauthorized: who are you)"},
		{"its Role is gone", failing(403, 0), 0, v1alpha1.ReasonConfigUnreadable, "s1"},
		{"the API server restarts", failing(0, 29), 0, v1alpha1.ReasonProgrammed, ""},
		{"it reaches no API server", failing(0, 30), 0, v1alpha1.ReasonConfigUnreadable, "s1"},
		{"a document behind for a moment", runs("same"), watchPatience - time.Second, v1alpha1.ReasonProgrammed, ""},
		{"a document behind for long", runs("same"), watchPatience, v1alpha1.ReasonReconciling, "waiting for s1"},
		{"it runs the document", runs(hash), watchPatience, v1alpha1.ReasonProgrammed, ""},
	} {
		s := &snapshot{service: aService(), now: start, servers: []*corev1.Pod{aPod("s1", "10.0.0.1", "r")}, routers: []*corev1.Pod{aPod("r1", "10.0.1.1", "r")},
			states: map[string]stateRead{"s1": c.read, "r1": runs(hash)}}
		if c.lagged > 0 {
			s.lagged = map[string]time.Time{"s1": start.Add(-c.lagged)}
		}
		v := decideProgrammed(s, desired{hash: hash, sameGeneration: []string{"same"}})
		if v.Reason != c.reason || v.OK() != (c.reason == v1alpha1.ReasonProgrammed) || !strings.Contains(v.Message, c.says) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

// K-28: through the reconciler, a peer that runs an earlier document is told of in time.
func TestK28AnEarlierDocumentIsNotProgrammedForEver(t *testing.T) {
	b := newBench(t)
	b.must(3)
	b.lagged = true
	pod := &corev1.Pod{}
	if err := b.Client.Get(context.Background(), types.NamespacedName{Namespace: "demo", Name: "s1"}, pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.PodIP = "10.0.0.9" // another document of the same generation
	if err := b.Client.Status().Update(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	b.must(2)
	if c := b.condition(v1alpha1.ConditionProgrammed); c.Status != metav1.ConditionTrue {
		t.Errorf("at once: %+v", c)
	}
	b.now = b.now.Add(watchPatience)
	b.must(1)
	if c := b.condition(v1alpha1.ConditionProgrammed); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "waiting for") {
		t.Errorf("after %s: %+v", watchPatience, c)
	}
	b.lagged = false
	b.must(2)
	if c := b.condition(v1alpha1.ConditionProgrammed); c.Status != metav1.ConditionTrue {
		t.Errorf("afterwards: %+v", c)
	}
}

// K-29: the page promises Programmed=False and an event when the Secret of keys is gone.
func TestK29LostKeysAreTold(t *testing.T) {
	b := newBench(t)
	b.must(3)
	for b.told("never") { // drop the events so far
	}
	b.remove(b.secret("echo-keys"))
	b.now = b.now.Add(secrets.Believed)
	b.must(1)
	if c := b.condition(v1alpha1.ConditionProgrammed); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonKeysLost || !strings.Contains(c.Message, "Secret echo-keys") {
		t.Errorf("%+v", c)
	}
	if !b.told("Warning KeyRotation Secret echo-keys with the packet keys [1] was gone: new keys [2]") {
		t.Error("no event")
	}
	b.now = b.now.Add(distribution)
	b.must(3)
	if c := b.condition(v1alpha1.ConditionProgrammed); c.Status != metav1.ConditionTrue {
		t.Errorf("once every pod has the new key: %+v", c)
	}
}

// K-28: a lost key is waited for only while both sides of the wire hold it.
func TestK28NobodyWaitsForAKeyThatNobodyHolds(t *testing.T) {
	older, newer := aPod("s1", "10.0.0.1", "rR"), aPod("r1", "10.0.1.1", "r")
	older.CreationTimestamp, newer.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour)), metav1.NewTime(start.Add(time.Second))
	for _, c := range []struct {
		name    string
		routers []*corev1.Pod
		edit    func(*v1alpha1.RpcService)
		named   []int
	}{
		{"routers hold it", []*corev1.Pod{older}, nil, []int{1}},
		{"all routers are new", []*corev1.Pod{newer}, nil, []int{2}},
		{"there is no router", nil, nil, []int{2}},
		{"none is wanted", nil, func(s *v1alpha1.RpcService) { s.Spec.Router.Placement = v1alpha1.PlacementNone }, []int{1}},
	} {
		s := &snapshot{service: aService(), now: start.Add(2 * time.Second), servers: []*corev1.Pod{older}, routers: c.routers,
			keys: replaceLost([]int{1}, start, "", func() []byte { return []byte(strings.Repeat("0", 32)) })}
		if c.edit != nil {
			c.edit(s.service)
		}
		if got := decideKeys(s, true).named(); !slices.Equal(got, c.named) {
			t.Errorf("%s: named %v, want %v", c.name, got, c.named)
		}
	}
}

// Lost keys still serve while a server and a router run that had them: not one that ends, ended, or was made since.
func TestWhoHoldsLostKeys(t *testing.T) {
	lost := time.Unix(1000, 0)
	pod := func(made time.Time, ends bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"}}
		if ends {
			p.DeletionTimestamp = &metav1.Time{Time: lost}
		}
		return p
	}
	holds, ends, later := pod(lost.Add(-time.Hour), false), pod(lost.Add(-time.Hour), true), pod(lost.Add(time.Second), false)
	routed, direct := &v1alpha1.RpcService{}, &v1alpha1.RpcService{}
	direct.Spec.Router.Placement = v1alpha1.PlacementNone
	for _, c := range []struct {
		service          *v1alpha1.RpcService
		servers, routers []*corev1.Pod
		alive            bool
	}{
		{routed, []*corev1.Pod{ends, holds}, []*corev1.Pod{later, holds}, true},
		{routed, []*corev1.Pod{holds}, []*corev1.Pod{ends}, false}, {routed, []*corev1.Pod{holds}, []*corev1.Pod{later}, false},
		{routed, []*corev1.Pod{ends, later}, []*corev1.Pod{holds}, false}, {routed, nil, []*corev1.Pod{holds}, false},
		{direct, []*corev1.Pod{holds}, nil, true}, {direct, []*corev1.Pod{ends}, nil, false},
	} {
		s := &snapshot{service: c.service, servers: c.servers, routers: c.routers, now: lost.Add(time.Minute)}
		if got := keptAlive(s, lost); got != c.alive {
			t.Errorf("%d servers, %d routers: kept alive %v, want %v", len(c.servers), len(c.routers), got, c.alive)
		}
		if k := withoutHolders(s, keyring{stage: stageReplacing, since: lost}); (k.stage == stageReplacing) != c.alive {
			t.Errorf("%d servers, %d routers: stage %v", len(c.servers), len(c.routers), k.stage)
		}
	}
}
