// SPDX-License-Identifier: Apache-2.0

package latencyexperiment

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
)

func experiment(change func(*v1alpha1.LatencyExperimentSpec)) *v1alpha1.LatencyExperiment {
	e := &v1alpha1.LatencyExperiment{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "apps", Generation: 3}, Spec: v1alpha1.LatencyExperimentSpec{
		Target: v1alpha1.ExperimentTarget{Addresses: []string{"a:80", "[::1]:81"}},
		Workload: v1alpha1.ExperimentWorkload{
			Protocol: "HTTP", Interarrival: "Poisson", ConnectionsPerAgent: 8, OutstandingPerConnection: 1, TimeoutMilliseconds: 500, Path: "/p",
		},
		Load: v1alpha1.ExperimentLoad{RequestsPerSecond: 1000}, Agents: 2, Measure: v1alpha1.MeasureResponse,
		Percentile: "99.9", WidthMicroseconds: 50, LimitSeconds: 900,
	}}
	change(&e.Spec)
	return e
}

func TestDefine(t *testing.T) {
	e := experiment(func(s *v1alpha1.LatencyExperimentSpec) {
		s.Measure, s.Workload.Interarrival, s.LatencyAgents = v1alpha1.MeasureService, "Fixed", 1
		s.LatencyRequestsPerSecond, s.ArrivalGaps = 300, 2000
	})
	d, accepted := decideAccepted(e, surroundings{})
	if accepted.Status != metav1.ConditionTrue {
		t.Fatal(accepted.Message)
	}
	all, c := d.Experiments(), d.Configuration(1)
	if len(all) != 1 || all[0].Percentile != 0.999 || all[0].Width != 50*time.Microsecond || all[0].Arrivals != "Fixed" || all[0].Load != 1000 {
		t.Errorf("experiments %+v", all)
	}
	if c.Protocol != "http" || c.Targets[1] != "[::1]:81" || c.Connections != 8 || c.TimeoutNanoseconds != 500_000_000 || c.Path != "/p" || c.Arrivals != "fixed" {
		t.Errorf("configuration %+v", c)
	}
	if first := d.Configuration(0); first.Role != "latency" || c.Role != "throughput" || all[0].LatencyAgents != 1 {
		t.Errorf("roles %q and %q of %d", first.Role, c.Role, all[0].LatencyAgents)
	}
	if all[0].LatencyRate != 300 || all[0].ArrivalGaps != 2000 {
		t.Errorf("rate %v of the agents that measure, %d gaps", all[0].LatencyRate, all[0].ArrivalGaps)
	}
	if d.LatencyMeant() != "Service" {
		t.Errorf("latency %s", d.LatencyMeant())
	}
}

// The workload reaches the agents whole.
func TestWorkload(t *testing.T) {
	reads := int32(90)
	e := experiment(func(s *v1alpha1.LatencyExperimentSpec) {
		s.Workload = v1alpha1.ExperimentWorkload{
			Protocol: "Redis", Interarrival: "Poisson", ConnectionsPerAgent: 8, OutstandingPerConnection: 1, TimeoutMilliseconds: 500,
			Keys: 1000, KeyOrder: "zipf:0.99", KeyBytes: "fb-key", ValueBytes: "fb-value", Mix: "YCSBE", ReadPercent: &reads, ScanLength: "fixed:10",
		}
	})
	d, accepted := decideAccepted(e, surroundings{})
	if accepted.Status != metav1.ConditionTrue {
		t.Fatal(accepted.Message)
	}
	c := d.Configuration(0)
	if c.KeyOrder != "zipf:0.99" || c.KeyBytes != "fb-key" || c.ValueBytes != "fb-value" || c.Mix != "ycsb-e" || c.ScanLength != "fixed:10" ||
		c.ReadRatio == nil || *c.ReadRatio != 0.9 {
		t.Errorf("configuration %+v", c)
	}
	e.Spec.Workload = v1alpha1.ExperimentWorkload{Protocol: "Stss", Interarrival: "Poisson", ConnectionsPerAgent: 8, OutstandingPerConnection: 1,
		TimeoutMilliseconds: 500, RequestBytes: "fixed:64", ReplyBytes: "fixed:128", ServiceTimeNanoseconds: "exp:10000"}
	if d, accepted = decideAccepted(e, surroundings{}); accepted.Status != metav1.ConditionTrue {
		t.Fatal(accepted.Message)
	}
	if c = d.Configuration(0); c.ReplyBytes != "fixed:128" || c.ServiceTime != "exp:10000" {
		t.Errorf("configuration %+v", c)
	}
}

// Every protocol of the API is one of the agent's.
func TestProtocols(t *testing.T) {
	for _, row := range v1alpha1.ExperimentProtocols {
		e := experiment(func(s *v1alpha1.LatencyExperimentSpec) { s.Workload.Protocol = row.Protocol })
		if _, accepted := decideAccepted(e, surroundings{}); accepted.Status != metav1.ConditionTrue {
			t.Errorf("%s: %s", row.Protocol, accepted.Message)
		}
	}
}

func TestDecideAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.LatencyExperimentSpec)
		target *v1alpha1.RpcService
		reason string
		says   string
	}{
		"a service":   {func(s *v1alpha1.LatencyExperimentSpec) { s.Target, s.Workload.Protocol = ref, "R2P2" }, &v1alpha1.RpcService{}, v1alpha1.ReasonAccepted, ""},
		"no service":  {func(s *v1alpha1.LatencyExperimentSpec) { s.Target = ref }, nil, v1alpha1.ReasonTargetNotFound, `"echo"`},
		"a slow load": {func(s *v1alpha1.LatencyExperimentSpec) { s.Load.RequestsPerSecond = 10 }, nil, v1alpha1.ReasonInvalidExperiment, "limit"},
		// K-36: what is wrong besides is told with it.
		"no service and a slow load": {func(s *v1alpha1.LatencyExperimentSpec) { s.Target, s.Load.RequestsPerSecond = ref, 10 }, nil, v1alpha1.ReasonTargetNotFound, "create it, or another experiment; at 10 requests/s"},
		"a port beyond":              {func(s *v1alpha1.LatencyExperimentSpec) { s.Target.Addresses = []string{"a:70000"} }, nil, v1alpha1.ReasonInvalidExperiment, "targets[0].port"},
	} {
		_, got := decideAccepted(experiment(c.change), surroundings{target: c.target})
		if got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %s: %s; want %s saying %s", name, got.Reason, got.Message, c.reason, c.says)
		}
	}
}

var ref = v1alpha1.ExperimentTarget{TargetRef: &v1alpha1.TargetReference{Kind: "RpcService", Name: "echo"}}

// What a coordinator says is bytes from outside: nothing of it breaks the schema.
func TestOutcomeKeepsTheBoundsOfTheSchema(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	loads := strings.Repeat(`{"o":-5,"a":1,"v":3,"c":true,"r":"`+long+`"},`, 50)
	job := finished("Failed")
	pod := said(job, v1alpha1.ComponentCoordinator, `{"loads":[`+strings.TrimSuffix(loads, ",")+`]}`)
	e := experiment(func(*v1alpha1.LatencyExperimentSpec) {})
	o := decideOutcome([]corev1.Pod{pod}, job)
	accepted := verdict.Yes(v1alpha1.ReasonAccepted, long)
	e.Status.Target = message.Bounded(long, maxTarget)
	writeStatus(e, accepted, accepted, o, time.Now())
	st := e.Status
	if len(st.Results) != maxResults || st.Results[0].OfferedRequestsPerSecond != 0 || len([]rune(st.Results[0].Reason)) != maxReason || len([]rune(st.Target)) != maxTarget {
		t.Errorf("%d results, reason of %d, target of %d", len(st.Results), len([]rune(st.Results[0].Reason)), len([]rune(st.Target)))
	}
	if st.Observed != "" {
		t.Errorf("observed %q without an interval", st.Observed)
	}
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionConclusive); c.Status != metav1.ConditionTrue || c.ObservedGeneration != 3 {
		t.Errorf("%+v", c)
	}
}

// A Job that ended and left no pod is a failure, not an endless wait.
func TestOutcomeWithoutAPod(t *testing.T) {
	if o := decideOutcome(nil, finished("DeadlineExceeded")); !o.over || !strings.Contains(o.failure, "DeadlineExceeded") {
		t.Errorf("%+v", o)
	}
	if o := decideOutcome(nil, &batchv1.Job{}); o.over {
		t.Error("over before it began")
	}
}

// Labels can be copied. A result comes from a pod the coordinator's Job controls,
// by its uid, and there from the container the operator put in.
func TestOutcomeHearsTheJobsPodsAlone(t *testing.T) {
	const forged, honest = `{"loads":[{"o":1,"a":1,"v":1,"l":1,"h":1,"c":true}]}`, `{"loads":[{"o":2,"a":2,"v":2,"l":2,"h":2,"c":true}]}`
	job := finished("Complete")
	before := finished("Complete")
	before.UID = "an earlier Job of that name"
	named, owned := said(job, v1alpha1.ComponentCoordinator, forged), said(job, v1alpha1.ComponentCoordinator, forged)
	named.OwnerReferences, owned.OwnerReferences[0].Controller = nil, nil
	strangers := []corev1.Pod{named, owned, said(before, v1alpha1.ComponentCoordinator, forged), said(job, "proxy", "draining")}
	if o := decideOutcome(strangers, job); !o.over || o.failure == "" || len(o.summary.Loads) != 0 {
		t.Errorf("believed a stranger: %+v", o)
	}
	o := decideOutcome(append(strangers, said(job, v1alpha1.ComponentCoordinator, honest)), job)
	if o.failure != "" || len(o.summary.Loads) != 1 || o.summary.Loads[0].Offered != 2 {
		t.Errorf("%+v", o)
	}
}

func finished(reason string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "x-coordinator", UID: "this Job"},
		Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, Reason: reason}}},
	}
}

// said is a pod of a Job, a container of which ended with those words.
func said(job *batchv1.Job, container, words string) corev1.Pod {
	controlled := true
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "x-coordinator-1", OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: job.Name, UID: job.UID, Controller: &controlled}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: words}},
		}}},
	}
}
