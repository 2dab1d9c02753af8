// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// groupWorld is one group: pods with sidecars, and members behind them that agree at
// once. It does what the StatefulSet's controller and the disruption controller do.
type groupWorld struct {
	*world

	mu      sync.Mutex
	seats   map[int]*groupSeat
	formed  map[string]bool // names that have been up
	begun   bool
	force   []dataplane.MemberState
	leader  int
	term    uint64
	index   uint64
	said    []string // commands that were taken
	founded []string
	latency map[int]*dataplane.HistogramReply // by place
	others  atomic.Int32                      // pods that are not members

	// spawn starts what is behind a pod, despawn ends it.
	spawn   func(place int, ip, disk string)
	despawn func(place int)
}

// groupSeat is a pod and its member.
type groupSeat struct {
	ip, disk, revision string
	down               bool
}

func newGroupWorld(t *testing.T, name string) *groupWorld {
	t.Helper()
	w := &groupWorld{world: newWorld(t, name), seats: map[int]*groupSeat{}, formed: map[string]bool{}, despawn: func(int) {}}
	w.spawn = func(place int, ip, _ string) { w.serveMember(place, ip) }
	return w
}

// revisionOf is what the StatefulSet's controller calls pods of an image.
func revisionOf(image string) string {
	return "r-" + strings.NewReplacer("/", "-", ":", "-").Replace(image)
}

// start makes the pod in a place, with a disk. It may be called from any goroutine.
func (w *groupWorld) start(place int, disk, revision string) {
	w.nextIP++
	ip := fmt.Sprintf("127.88.%d.%d", w.nextIP>>8, w.nextIP&255)
	name := fmt.Sprintf("%s-member-%d", w.name, place)
	l := render.Selector(w.name, v1alpha1.ComponentMember)
	l[appsv1.ControllerRevisionHashLabelKey] = revision
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name, Labels: l},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "member", Image: "none"}}, TerminationGracePeriodSeconds: new(int64)},
	}
	if err := direct.Create(context.Background(), p); err != nil {
		w.t.Error(err)
		return
	}
	if err := say(direct, p, runsAt(ip)); err != nil {
		w.t.Error(err)
		return
	}
	w.mu.Lock()
	w.seats[place] = &groupSeat{ip: ip, disk: name + "-" + disk, revision: revision}
	w.mu.Unlock()
	w.spawn(place, ip, disk)
}

func (w *groupWorld) serveMember(place int, ip string) {
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "9443"))
	if err != nil {
		w.t.Error(err)
		return
	}
	alive := func(next http.HandlerFunc) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			w.mu.Lock()
			s := w.seats[place]
			down := s == nil || s.ip != ip || s.down
			w.mu.Unlock()
			if down {
				http.Error(rw, "down", http.StatusServiceUnavailable)
				return
			}
			next(rw, r)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/state", alive(w.acknowledge))
	mux.HandleFunc("GET "+dataplane.GroupPath, alive(func(rw http.ResponseWriter, _ *http.Request) { respond(rw, w.state(place)) }))
	mux.HandleFunc("GET /v1/histogram", alive(func(rw http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		respond(rw, w.latency[place])
	}))
	mux.HandleFunc("POST "+dataplane.GroupPath, alive(func(rw http.ResponseWriter, r *http.Request) {
		c, refused := dataplane.ReadChange(r.Body)
		if refused == nil {
			refused = w.change(place, c)
		}
		if refused != nil {
			rw.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(rw).Encode(map[string]any{"error": refused})
			return
		}
		respond(rw, &dataplane.GroupChanged{Reply: ctl.Reply{V: 1, OK: true}, Index: 1})
	}))
	w.serve(listener, mux)
}

// acknowledge is what a sidecar says whose dataplane has taken the document.
func (w *groupWorld) acknowledge(rw http.ResponseWriter, _ *http.Request) {
	_, hash := w.document()
	respond(rw, &dataplane.SidecarState{Role: "test", AppliedHash: hash, SidecarVersion: "test"})
}

func (w *groupWorld) serve(listener net.Listener, mux *http.ServeMux) {
	s := &sidecar{world: w.world}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, GetConfigForClient: s.handshake,
	}}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	w.t.Cleanup(func() { _ = server.Close() })
}

// beside makes a pod of a box or an aggregator, which is ready and takes every document.
func (w *groupWorld) beside(component, name string) *corev1.Pod {
	w.t.Helper()
	ip := fmt.Sprintf("127.88.%d.%d", w.nextIP>>8, 200+w.others.Add(1)) // of this world's own network
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name, Labels: render.Selector(w.name, component)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: component, Image: "none"}}, TerminationGracePeriodSeconds: new(int64)},
	}
	if err := direct.Create(context.Background(), p); err != nil {
		w.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "9443"))
	if err != nil {
		w.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/state", w.acknowledge)
	w.serve(listener, mux)
	says(w.t, p, func(p *corev1.Pod) {
		runsAt(ip)(p)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	return p
}

// measures makes the member in a place answer with a histogram.
func (w *groupWorld) measures(place, count int, microseconds uint64) {
	h := &dataplane.Histogram{}
	for range count {
		h.Record(microseconds * 1000)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.latency == nil {
		w.latency = map[int]*dataplane.HistogramReply{}
	}
	w.latency[place] = &dataplane.HistogramReply{Name: "latency", Source: "Server", WindowSeconds: 5, CoveredSeconds: 5, Histogram: h, Requests: uint64(count)}
}

// document is the one in the ConfigMap.
func (w *groupWorld) document() (*dataplane.GroupConfig, string) {
	cm := &corev1.ConfigMap{}
	if direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: w.name + "-dataplane"}, cm) != nil {
		return nil, ""
	}
	doc, err := dataplane.ParseGroup([]byte(cm.Data[dataplane.ConfigMapKeyConfig]))
	if err != nil {
		w.t.Errorf("the ConfigMap holds a document that cannot be read: %v", err)
		return nil, ""
	}
	return doc, cm.Data[dataplane.ConfigMapKeyHash]
}

// state is what the member in a place says.
func (w *groupWorld) state(place int) *dataplane.GroupState {
	doc, hash := w.document()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seats[place]
	out := &dataplane.GroupState{Reply: ctl.Reply{V: 1, OK: true}, Hash: hash, Phase: dataplane.PhaseWaiting, Reason: "NoDocument", Name: s.disk}
	if doc == nil {
		return out
	}
	at := slices.IndexFunc(doc.Members, func(m dataplane.GroupMember) bool { return m.Name == s.disk })
	if at < 0 {
		return out
	}
	out.Phase, out.Reason, out.ID, out.Cluster, out.Role = dataplane.PhaseRunning, "", doc.Members[at].ID, doc.Group.Cluster, dataplane.RoleLearner
	w.found(doc, s.disk)
	w.elect()
	if f := w.inForce(out.ID); f != nil && f.Role == dataplane.RoleVoter {
		out.Role = dataplane.RoleFollower
	}
	if out.ID == w.leader {
		out.Role = dataplane.RoleLeader
	}
	out.Term, out.Leader.ID, out.Formed, out.ConfigurationIndex = w.term, w.leader, w.begun, w.index
	out.Members = append(out.Members, w.force...)
	out.Quorum.Heard, out.Quorum.Voters = w.up()
	out.Quorum.Needed = out.Quorum.Voters/2 + 1
	for i := range out.Members {
		if !w.runs(out.Members[i].ID) {
			out.Members[i].HeardMillisecondsAgo = 60000
		}
	}
	return out
}

// found lets those begin the group that may.
func (w *groupWorld) found(doc *dataplane.GroupConfig, name string) {
	if !slices.Contains(doc.InitialMembers, name) || w.begun {
		return
	}
	if w.founded == nil {
		w.founded = slices.Clone(doc.InitialMembers)
	}
	if !slices.Equal(w.founded, doc.InitialMembers) {
		w.t.Errorf("founded by %v, and by %v", w.founded, doc.InitialMembers)
	}
	w.formed[name] = true
	if len(w.formed) != len(w.founded) {
		return
	}
	w.begun = true
	for _, m := range doc.Members {
		w.force = append(w.force, dataplane.MemberState{ID: m.ID, Name: m.Name, Role: dataplane.RoleVoter})
	}
}

func (w *groupWorld) inForce(id int) *dataplane.MemberState {
	for i := range w.force {
		if w.force[i].ID == id {
			return &w.force[i]
		}
	}
	return nil
}

// runs says whether the disk of a member is in a pod that answers.
func (w *groupWorld) runs(id int) bool {
	f := w.inForce(id)
	for _, s := range w.seats {
		if f != nil && s.disk == f.Name && !s.down {
			return true
		}
	}
	return false
}

func (w *groupWorld) up() (heard, voters int) {
	for _, f := range w.force {
		if f.Role == dataplane.RoleVoter {
			voters++
			if w.runs(f.ID) {
				heard++
			}
		}
	}
	return heard, voters
}

func (w *groupWorld) elect() {
	heard, voters := w.up()
	if heard < voters/2+1 {
		w.leader = 0
		return
	}
	if f := w.inForce(w.leader); f != nil && f.Role == dataplane.RoleVoter && w.runs(w.leader) {
		return
	}
	for _, f := range w.force {
		if f.Role == dataplane.RoleVoter && w.runs(f.ID) {
			w.leader, w.term = f.ID, w.term+1
			return
		}
	}
}

// change does what a leader does with a command.
func (w *groupWorld) change(place int, c dataplane.GroupChange) *dataplane.CtlError {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.inForce(c.ID)
	leads := w.inForce(w.leader)
	switch {
	case leads == nil || leads.Name != w.seats[place].disk:
		return &dataplane.CtlError{Code: "NotLeader", Message: "another member leads"}
	case (c.Op == dataplane.OpAdd) != (f == nil):
		return &dataplane.CtlError{Code: "Already", Message: "it is"}
	}
	switch c.Op {
	case dataplane.OpAdd:
		w.force = append(w.force, dataplane.MemberState{ID: c.ID, Name: c.Name, Role: dataplane.RoleLearner})
	case dataplane.OpPromote:
		f.Role = dataplane.RoleVoter
	case dataplane.OpRemove:
		w.force = slices.DeleteFunc(w.force, func(m dataplane.MemberState) bool { return m.ID == c.ID })
	case dataplane.OpTransfer:
		w.leader, w.term = c.ID, w.term+1
	}
	w.index++
	w.said = append(w.said, fmt.Sprintf("%s %d", c.Op, c.ID))
	if heard, voters := w.up(); heard < voters/2+1 {
		w.t.Errorf("after %v there are %d of %d voters", w.said, heard, voters)
	}
	return nil
}

func (w *groupWorld) commands() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.said, ", ")
}

func (w *groupWorld) stop(place int, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seats[place].down = down
}

func (w *groupWorld) group() *v1alpha1.ReplicationGroup {
	w.t.Helper()
	g := &v1alpha1.ReplicationGroup{}
	if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: w.name}, g); err != nil {
		w.t.Fatal(err)
	}
	return g
}

func (w *groupWorld) set() *appsv1.StatefulSet {
	w.t.Helper()
	set := &appsv1.StatefulSet{}
	if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: w.name + "-member"}, set); err != nil {
		w.t.Fatal(err)
	}
	return set
}

// keep does what the controllers of Kubernetes do, until the test ends: pods of the
// StatefulSet's count, with the disk that their places have, and room for an eviction
// while all are ready.
func (w *groupWorld) keep(disks map[int]string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			w.keepOnce(disks)
			time.Sleep(50 * time.Millisecond)
		}
	}()
	w.t.Cleanup(func() { cancel(); <-done })
}

func (w *groupWorld) keepOnce(disks map[int]string) {
	ctx := context.Background()
	set := &appsv1.StatefulSet{}
	if direct.Get(ctx, types.NamespacedName{Namespace: w.ns, Name: w.name + "-member"}, set) != nil {
		return
	}
	revision := revisionOf(set.Spec.Template.Spec.Containers[0].Image)
	if set.Status.ObservedGeneration != set.Generation || set.Status.UpdateRevision != revision {
		before := set.DeepCopy()
		set.Status = appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, Replicas: *set.Spec.Replicas, UpdateRevision: revision}
		_ = direct.Status().Patch(ctx, set, client.MergeFrom(before))
	}
	pods := &corev1.PodList{}
	if direct.List(ctx, pods, client.InNamespace(w.ns)) != nil {
		return
	}
	there := map[string]bool{}
	joined := 0
	for i := range pods.Items {
		there[pods.Items[i].Name] = true
		for _, c := range pods.Items[i].Status.Conditions {
			if c.Type == v1alpha1.PodConditionJoined && c.Status == corev1.ConditionTrue {
				joined++
			}
		}
	}
	want := int(*set.Spec.Replicas)
	for place := range want {
		if !there[fmt.Sprintf("%s-member-%d", w.name, place)] {
			w.despawn(place)
			w.start(place, disks[place], revision)
		}
	}
	for place := want; there[fmt.Sprintf("%s-member-%d", w.name, place)]; place++ {
		_ = direct.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: fmt.Sprintf("%s-member-%d", w.name, place)}})
		w.despawn(place)
		w.mu.Lock()
		delete(w.seats, place)
		w.mu.Unlock()
	}
	w.allow(joined, want)
}

// allow does what the disruption controller does with the budget.
func (w *groupWorld) allow(joined, want int) {
	ctx := context.Background()
	b := &policyv1.PodDisruptionBudget{}
	if direct.Get(ctx, types.NamespacedName{Namespace: w.ns, Name: w.name + "-member"}, b) != nil {
		return
	}
	desired := want - b.Spec.MaxUnavailable.IntValue()
	status := policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, CurrentHealthy: int32(joined), DesiredHealthy: int32(desired),
		ExpectedPods: int32(want), DisruptionsAllowed: max(int32(joined-desired), 0)}
	if b.Status.ObservedGeneration == status.ObservedGeneration && b.Status.DisruptionsAllowed == status.DisruptionsAllowed && b.Status.CurrentHealthy == status.CurrentHealthy {
		return
	}
	before := b.DeepCopy()
	b.Status = status
	_ = direct.Status().Patch(ctx, b, client.MergeFrom(before))
}

func (w *groupWorld) waitGroup(kind string, status metav1.ConditionStatus, reason, says string) *v1alpha1.ReplicationGroup {
	w.t.Helper()
	var g *v1alpha1.ReplicationGroup
	eventually(w.t, fmt.Sprintf("%s=%s (%s)", kind, status, reason), func() (bool, string) {
		g = w.group()
		c := meta.FindStatusCondition(g.Status.Conditions, kind)
		if c == nil {
			return false, "absent"
		}
		ok := c.Status == status && c.Reason == reason && c.ObservedGeneration == g.Generation && strings.Contains(c.Message, says)
		return ok, fmt.Sprintf("%s (%s: %s) generation %d of %d; %s", c.Status, c.Reason, c.Message, c.ObservedGeneration, g.Generation, w.commands())
	})
	return g
}

func (w *groupWorld) scale(members int32) {
	w.t.Helper()
	w.patch(&v1alpha1.ReplicationGroup{}, w.name, fmt.Sprintf(`{"spec":{"members":%d}}`, members))
}
