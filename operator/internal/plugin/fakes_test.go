// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

var update = flag.Bool("update", false, "write testdata/*.txt instead of comparing with it")

// golden compares what a command printed.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name + ".txt"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s; run go test -update and review the difference. Got:\n%s", path, got)
	}
}

// answers stands in for the control servers of the pods, by pod and path; the
// histogram's name counts as part of the path.
type answers map[string]any

func (a answers) get(_ context.Context, pod *corev1.Pod, path string, params map[string]string) ([]byte, error) {
	if name := params["name"]; name != "" {
		path += "?" + name
	}
	v, ok := a[pod.Name+" "+path]
	if !ok {
		return nil, errors.New("read pod " + pod.Name + ": connection refused")
	}
	return json.Marshal(v)
}

const ns = "shop"

// steps of a histogram: so many requests of each duration.
func steps(of map[time.Duration]int) *dataplane.Histogram {
	h := &dataplane.Histogram{}
	for d, n := range of {
		for range n {
			h.Record(uint64(d))
		}
	}
	return h
}

// exponential service times of a mean, without a random number.
func exponential(mean time.Duration, n int) *dataplane.Histogram {
	h := &dataplane.Histogram{}
	for i := range n {
		h.Record(uint64(-float64(mean) * math.Log1p(-(float64(i)+0.5)/float64(n))))
	}
	return h
}

func reply(h *dataplane.Histogram, rejected uint64) *dataplane.HistogramReply {
	return &dataplane.HistogramReply{Histogram: h, CoveredSeconds: 10, WindowSeconds: 10, Requests: h.Total() + rejected, Rejected: rejected}
}

func aPod(name, component string) *corev1.Pod {
	labels := map[string]string{}
	if component != "" {
		labels = map[string]string{v1alpha1.LabelService: "cart", v1alpha1.LabelComponent: component}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels},
		Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "sidecar", Image: "registry.example/team/bobtail/sidecar:1.2.3"}},
			Containers: []corev1.Container{{Name: "main", Image: "x", Args: []string{"--password=hunter2"}, Env: []corev1.EnvVar{{Name: "TOKEN", Value: "hunter2"}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"},
	}
}

func aService() *v1alpha1.RpcService {
	return &v1alpha1.RpcService{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "cart", Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}},
		Spec: v1alpha1.RpcServiceSpec{
			WorkersPerReplica: 8,
			Router:            v1alpha1.RpcServiceRouter{Placement: v1alpha1.PlacementSoftware, Policy: v1alpha1.PolicyJBSQ, WorkerQueueDepth: 3},
			Server:            v1alpha1.RpcServiceServer{Image: "x", Args: []string{"--key=hunter2"}, Env: []v1alpha1.EnvironmentVariable{{Name: "A", Value: "hunter2"}}},
		},
		Status: v1alpha1.RpcServiceStatus{Workers: "16/16", ReadyWorkers: 16, DesiredWorkers: 16, Address: "cart.shop.svc:8000"},
	}
}

func anSLO() *v1alpha1.ServiceLevelObjective {
	return &v1alpha1.ServiceLevelObjective{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "cart-p99"},
		Spec: v1alpha1.ServiceLevelObjectiveSpec{TargetRef: v1alpha1.TargetReference{Name: "cart"}, Percentile: "99",
			LatencyMicroseconds: 10_000, WindowSeconds: 30},
		Status: v1alpha1.ServiceLevelObjectiveStatus{
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionMet, Status: "False", Reason: v1alpha1.ReasonObjectiveMissed,
				Message: "p99 is 39.8ms, 95 % interval 36.2ms to 42.7ms, the objective 10ms; its 155800 requests come fast and slow in stretches and show as much as 18400 independent ones"}},
			Capacity:     &v1alpha1.CapacityEstimate{LowRequestsPerSecond: 14100, HighRequestsPerSecond: 15500, Range: "14100-15500"},
			ErrorBudgets: []v1alpha1.ErrorBudget{{WindowSeconds: 3600, Requests: 1000, Violations: 25, Remaining: "-150.0%"}},
		},
	}
}

// aCluster is two routers, two servers with eight workers each, a client and an
// objective; overloaded says whether more comes than they can do.
func aCluster(t *testing.T, overloaded bool, more ...client.Object) (*cluster, answers) {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	objects := append([]client.Object{
		aService(), anSLO(), aPod("cart-router-a", v1alpha1.ComponentRouter), aPod("cart-router-b", v1alpha1.ComponentRouter),
		aPod("cart-server-a", v1alpha1.ComponentServer), aPod("cart-server-b", v1alpha1.ComponentServer), aPod("web", ""),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{corev1.LabelMetadataName: ns}}},
	}, more...)
	all := answers{}
	for _, pod := range []string{"cart-server-a", "cart-server-b"} {
		all[pod+" v1/histogram?service"] = reply(exponential(time.Millisecond, 50_000), 0)
		all[pod+" v1/state"] = &dataplane.SidecarState{Role: "server"}
	}
	for _, pod := range []string{"cart-router-a", "cart-router-b"} {
		fast, held, rejected := steps(map[time.Duration]int{2 * time.Millisecond: 29_800, 4 * time.Millisecond: 200}), steps(map[time.Duration]int{0: 30_000}), uint64(0)
		if overloaded {
			fast, held, rejected = steps(map[time.Duration]int{5 * time.Millisecond: 70_000, 40 * time.Millisecond: 8_000}), steps(map[time.Duration]int{3 * time.Millisecond: 70_000, 36 * time.Millisecond: 8_000}), 2_000
		}
		all[pod+" v1/histogram?latency"], all[pod+" v1/histogram?hold"] = reply(fast, rejected), reply(held, 0)
		all[pod+" v1/counters"] = &dataplane.Counters{
			Counters: []dataplane.Sample{{Name: "router_dropped_total", Labels: map[string]string{"reason": "queue_full"}, Value: float64(rejected)}},
			Gauges:   []dataplane.Sample{{Name: "router_held", Value: float64(rejected / 10)}},
		}
		all[pod+" v1/state"] = &dataplane.SidecarState{Role: "router", Dataplane: &dataplane.State{Members: []dataplane.WorkerState{{Joined: true}}}}
	}
	return &cluster{Client: crfake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Event{}, "involvedObject.kind", func(o client.Object) []string { return []string{o.(*corev1.Event).InvolvedObject.Kind} }).Build(), sidecars: all,
		set: fake.NewClientset(), namespace: ns}, all
}

// execute runs a command line as the shell would.
func execute(t *testing.T, c *cluster, args ...string) (out, errs string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	s := streams{&o, &e}
	connect := func() (*cluster, error) { return c, nil }
	root := Command("test", &o, &e)
	root.ResetCommands()
	root.AddCommand(commands(s, "0.2.0", connect)...)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}
