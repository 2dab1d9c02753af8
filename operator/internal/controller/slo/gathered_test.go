// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// stand is a reconciler whose sidecars all measured the same, and whose API server refuses on request.
type stand struct {
	*Reconciler
	now     time.Time
	refuse  map[string]error // by verb and kind
	events  *events.FakeRecorder
	reply   *dataplane.HistogramReply
	started time.Time

	mu    sync.Mutex
	asked []string
}

func newStand(t *testing.T, objects ...client.Object) *stand {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &stand{now: start, refuse: map[string]error{}, events: events.NewFakeRecorder(100), reply: measured(2000, 100, 0, 30), started: start.Add(-time.Hour)}
	refused := func(verb string, o any) error {
		name := fmt.Sprintf("%T", o)
		return s.refuse[verb+" "+name[strings.LastIndex(name, ".")+1:]]
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.ServiceLevelObjective{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if err := refused("get", o); err != nil {
					return err
				}
				return c.Get(ctx, k, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				if err := refused("list", l); err != nil {
					return err
				}
				return c.List(ctx, l, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := refused("patch", o); err != nil {
					return err
				}
				return c.Status().Patch(ctx, o, p, opts...)
			},
		}).Build()
	s.Reconciler = &Reconciler{Client: c, Sidecars: s, Events: s.events, Now: func() time.Time { return s.now }}
	return s
}

func (s *stand) note(what string, t dataplane.Target, details ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, strings.TrimSpace(what+" of "+strings.TrimSuffix(t.Address, fmt.Sprint(":", dataplane.SidecarPort))+" "+fmt.Sprint(details...)))
}

func (s *stand) Histogram(_ context.Context, t dataplane.Target, name string, seconds int) (*dataplane.HistogramReply, error) {
	s.note(name, t, seconds)
	return s.reply, nil
}

func (s *stand) Parts(_ context.Context, t dataplane.Target, name string, seconds, parts int) (*dataplane.HistogramReply, error) {
	s.note(name, t, seconds, "/", parts)
	return s.reply, nil
}

func (s *stand) History(_ context.Context, t dataplane.Target) (*dataplane.History, error) {
	s.note("history", t)
	return &dataplane.History{Started: s.started, All: dataplane.HistoryWindow{Latency: s.reply.Histogram}}, nil
}

func (s *stand) Connects(context.Context, dataplane.Target, string, string, int, int) (*dataplane.Connects, error) {
	return nil, errors.New("no agent is asked")
}

// calls is what was asked since the last call, in one order.
func (s *stand) calls() string {
	slices.Sort(s.asked)
	out := strings.Join(s.asked, ", ")
	s.asked = nil
	return out
}

// aPod runs and is ready.
func aPod(namespace, of, component, name, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelService: of, v1alpha1.LabelComponent: component}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// a namespace with a service, a group, and pods of both and of others.
func peopled(placement v1alpha1.RouterPlacement) []client.Object {
	target := aTarget()
	target.Name, target.Namespace, target.Spec.Router.Placement = "echo", "demo", placement
	target.Spec.Router.Policy, target.Spec.Router.WorkerQueueDepth, target.Status.ReadyWorkers = v1alpha1.PolicyJBSQ, 1, 4
	return []client.Object{
		target, &v1alpha1.ReplicationGroup{ObjectMeta: metav1.ObjectMeta{Name: "kv", Namespace: "demo"}},
		aPod("demo", "echo", v1alpha1.ComponentRouter, "r", "r1"), aPod("demo", "echo", v1alpha1.ComponentServer, "s", "s1"),
		aPod("demo", "kv", v1alpha1.ComponentMember, "m", "m1"), aPod("demo", "other", v1alpha1.ComponentRouter, "o", "o1"),
		aPod("elsewhere", "echo", v1alpha1.ComponentRouter, "e", "e1"),
	}
}

// Who is read: those who see every request, and in a slow look their records, too, and the servers' execution alone.
func TestWhoIsRead(t *testing.T) {
	routers, records := "latency of r1 30/15", "history of r1, hold of r1 30, latency of r1 30/15, service of s1 600"
	for name, c := range map[string]struct {
		kind, target string
		placement    v1alpha1.RouterPlacement
		slow         bool
		want         string
		parts        int
	}{
		"a service, quickly":      {"RpcService", "echo", v1alpha1.PlacementSoftware, false, routers, 1},
		"a service":               {"RpcService", "echo", v1alpha1.PlacementSoftware, true, records, 1},
		"one without routers":     {"RpcService", "echo", v1alpha1.PlacementNone, true, "history of s1, latency of s1 30/15, service of s1 600", 1},
		"a group":                 {"ReplicationGroup", "kv", v1alpha1.PlacementSoftware, true, "history of m1, latency of m1 30/15", 1},
		"a group, quickly":        {"ReplicationGroup", "kv", v1alpha1.PlacementSoftware, false, "latency of m1 30/15", 1},
		"a service that is gone":  {"RpcService", "gone", v1alpha1.PlacementSoftware, true, "", 0},
		"a group that is gone":    {"ReplicationGroup", "echo", v1alpha1.PlacementSoftware, true, "", 0},
		"a switch without times":  {"RpcService", "echo", v1alpha1.PlacementSwitch, false, "latency of s1 30/15", 1},
		"a service is no group's": {"RpcService", "kv", v1alpha1.PlacementSoftware, true, "", 0},
	} {
		stand := newStand(t, peopled(c.placement)...)
		slo := anObjective("99", 1000)
		slo.Spec.TargetRef.Kind, slo.Spec.TargetRef.Name = c.kind, c.target
		s, err := stand.gather(context.Background(), slo, c.slow)
		if got := stand.calls(); err != nil || got != strings.ReplaceAll(c.want, "/15", fmt.Sprint("/", windowParts)) || len(s.parts) != c.parts || s.slow != c.slow {
			t.Errorf("%s: asked %q, %d parts, %v", name, got, len(s.parts), err)
		}
		found := c.parts > 0
		if (s.target != nil) != (found && c.kind == "RpcService") || (s.group != nil) != (found && c.kind != "RpcService") {
			t.Errorf("%s: target %v, group %v", name, s.target, s.group)
		}
		if want := c.slow && found; (len(s.records) == 1) != want || (len(s.services) == 1) != (want && c.kind == "RpcService") {
			t.Errorf("%s: %d records, %d of servers", name, len(s.records), len(s.services))
		}
	}
}

// A switch that keeps times stands beside routers; what one without them refused is added.
func TestReadingWithASwitch(t *testing.T) {
	objects := peopled(v1alpha1.PlacementSwitch)
	objects[0].(*v1alpha1.RpcService).Status.Switch = &v1alpha1.RpcServiceSwitchStatus{Name: "leaf"}
	stand := newStand(t, objects...)
	keeps, refused := true, SwitchRefusals{Since: start, Count: 10}
	stand.Switches = func(string, string, string, time.Duration, int) (SwitchMeasured, bool) {
		return SwitchMeasured{Window: measured(1, 1, 0, 1), History: &dataplane.History{Started: start}}, keeps
	}
	known := true
	stand.Refusals = func(name, namespace, service string) (SwitchRefusals, bool) {
		if name != "leaf" || namespace != "demo" || service != "echo" {
			t.Errorf("asked %s of %s/%s", name, namespace, service)
		}
		return refused, known
	}
	look := func(parts int, count uint64, asked string) {
		t.Helper()
		s, err := stand.gather(context.Background(), anObjective("99", 1000), false)
		if got := stand.calls(); err != nil || len(s.parts) != parts || s.refused != count || got != asked {
			t.Errorf("%d parts, %d refused, asked %q: %v", len(s.parts), s.refused, got, err)
		}
	}
	look(2, 0, "latency of r1 30/3")
	keeps = false
	servers := fmt.Sprint("latency of s1 30/", windowParts)
	look(1, 0, servers)
	refused.Count, stand.now = 14, start.Add(time.Second)
	look(1, 4, servers)
	known = false
	look(1, 0, servers)
	known = true
	stand.refused.forget(client.ObjectKey{Namespace: "demo", Name: "p"})
	look(1, 0, servers)
}

func TestPartsOnSwitch(t *testing.T) {
	for seconds, want := range map[int32]int{5: 1, 10: 1, 19: 1, 20: 2, 60: 6, 600: windowParts} {
		slo := anObjective("99", 1000)
		slo.Spec.WindowSeconds = seconds
		if got := (&snapshot{slo: slo, onSwitch: &SwitchMeasured{}}).windowParts(); got != want {
			t.Errorf("%d s: %d parts, want %d", seconds, got, want)
		}
	}
}

// Who runs is read, by name; only who is in rotation is waited for.
func TestRunning(t *testing.T) {
	pod := func(name string, change func(*corev1.Pod)) corev1.Pod {
		p := aPod("demo", "echo", v1alpha1.ComponentRouter, name, "10.0.0."+name)
		change(p)
		return *p
	}
	pods := []corev1.Pod{
		pod("4", func(*corev1.Pod) {}),
		pod("3", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		pod("2", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }),
		pod("1", func(p *corev1.Pod) { p.Status.PodIP = "" }),
		pod("0", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }),
	}
	target := aTarget()
	target.Name, target.Namespace = "echo", "demo"
	var got []string
	for _, a := range running(target, pods) {
		got = append(got, fmt.Sprint(a.Name, " ", a.Required, " ", a.Target.Address, " ", a.Target.ServerName))
	}
	tail := fmt.Sprintf(":%d %s", dataplane.SidecarPort, dataplane.SidecarServerName("echo", "demo"))
	if want := []string{"0 false 10.0.0.0" + tail, "2 false 10.0.0.2" + tail, "4 true 10.0.0.4" + tail}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// aConfig is one that this version writes.
func aConfig(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../render/testdata/no-router.out.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(raw), "\n---\n") {
		m := &corev1.ConfigMap{}
		if yaml.Unmarshal([]byte(document), m) == nil && m.Kind == "ConfigMap" && m.Data[dataplane.ConfigMapKeyConfig] != "" {
			return m.Data[dataplane.ConfigMapKeyConfig]
		}
	}
	t.Fatal("there is no configuration")
	return ""
}

// The configuration is looked at for an objective that asks to be enforced, and one of another version is none.
func TestGatherEnforcement(t *testing.T) {
	text := aConfig(t)
	hash := dataplane.HashConfig([]byte(text))
	for name, c := range map[string]struct {
		mode   v1alpha1.EnforcementMode
		text   string
		there  bool
		hashes string
	}{
		"enforced":        {v1alpha1.EnforcementReject, text, true, hash + " a b"},
		"observed":        {v1alpha1.EnforcementObserve, text, true, ""},
		"none yet":        {v1alpha1.EnforcementReject, "", false, ""},
		"another version": {v1alpha1.EnforcementReject, "{", true, ""},
	} {
		slo, target := anObjective("99", 1000), aTarget()
		target.Name, target.Namespace, slo.Spec.Enforcement.Mode = "echo", "demo", c.mode
		objects := []client.Object{slo}
		if c.there {
			objects = append(objects, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: render.ConfigMapName(target), Annotations: map[string]string{dataplane.AnnotationSameGeneration: "a,b"}},
				Data:       map[string]string{dataplane.ConfigMapKeyConfig: c.text},
			})
		}
		s := &snapshot{slo: slo, target: target}
		if err := newStand(t, objects...).gatherEnforcement(context.Background(), s); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.enforcement.hashes, " "); got != c.hashes || (s.enforcement.config != nil) != (c.hashes != "") {
			t.Errorf("%s: hashes %q, want %q", name, got, c.hashes)
		}
		if chosen := s.enforcement.chosen; (chosen != nil) != (c.mode == v1alpha1.EnforcementReject) {
			t.Errorf("%s: chosen %v", name, chosen)
		}
	}
}
