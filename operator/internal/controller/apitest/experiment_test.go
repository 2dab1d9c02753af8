// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/definition"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

const baseExperiment = `
apiVersion: bobtail.dev/v1alpha1
kind: LatencyExperiment
metadata: {name: sweep}
spec:
  target: {addresses: ["redis.default.svc:6379"]}
  workload: {protocol: Redis}
  load: {requestsPerSecond: 2000}
  widthMicroseconds: 100
`

// Every CEL rule of LatencyExperiment on both sides, and bounds.
var experimentAdmission = []admission{
	{"the least", `{}`, ""},
	{"name of 40", `{metadata: {name: ` + strings.Repeat("a", 40) + `}}`, ""},
	{"name of 41", `{metadata: {name: ` + strings.Repeat("a", 41) + `}}`, "`metadata.name` must be no longer than 40"},
	{"name with a dot", `{metadata: {name: a.b}}`, "`metadata.name` must be a DNS label"},
	{"two targets", `{spec: {target: {targetRef: {name: echo}}}}`, "`targetRef` and `addresses` exclude each other"},
	{"a group", `{spec: {workload: {protocol: R2P2}, target: {addresses: null, targetRef: {kind: ReplicationGroup, name: echo}}}}`, "`targetRef.kind` must be RpcService"},
	{"an RpcService", `{spec: {workload: {protocol: R2P2}, target: {addresses: null, targetRef: {name: echo}}}}`, ""},
	{"an RpcService by HTTP", `{spec: {workload: {protocol: HTTP}, target: {addresses: null, targetRef: {name: echo}}}}`, ""},
	{"two loads", `{spec: {load: {sweep: {fromRequestsPerSecond: 1, toRequestsPerSecond: 2, points: 2}}}}`, "`requestsPerSecond`, `sweep`, `steps` and `sine` exclude each other"},
	{"a sweep", `{spec: {load: {requestsPerSecond: null, sweep: {fromRequestsPerSecond: 1, toRequestsPerSecond: 2, points: 2}}}}`, ""},
	{"a falling sweep", `{spec: {load: {requestsPerSecond: null, sweep: {fromRequestsPerSecond: 2, toRequestsPerSecond: 2, points: 2}}}}`, "`toRequestsPerSecond` must be above"},
	{"13 points", `{spec: {load: {requestsPerSecond: null, sweep: {fromRequestsPerSecond: 1, toRequestsPerSecond: 2, points: 13}}}}`, "points"},
	{"no load", `{spec: {load: {requestsPerSecond: null}}}`, "give exactly one"},
	{"steps", `{spec: {widthMicroseconds: null, load: {requestsPerSecond: null, steps: [{requestsPerSecond: 5, seconds: 3}]}}}`, ""},
	{"steps and a load", `{spec: {widthMicroseconds: null, load: {steps: [{requestsPerSecond: 5, seconds: 3}]}}}`, "give exactly one"},
	{"steps with a width", `{spec: {load: {requestsPerSecond: null, steps: [{requestsPerSecond: 5, seconds: 3}]}}}`, "`widthMicroseconds` must be given with"},
	{"a load without a width", `{spec: {widthMicroseconds: null}}`, "`widthMicroseconds` must be given with"},
	{"steps with gaps compared", `{spec: {arrivalGaps: 500, widthMicroseconds: null, load: {requestsPerSecond: null, steps: [{requestsPerSecond: 5, seconds: 3}]}}}`, "`arrivalGaps` may not be specified"},
	{"no steps", `{spec: {widthMicroseconds: null, load: {requestsPerSecond: null, steps: []}}}`, "spec.load.steps"},
	{"a step of no time", `{spec: {widthMicroseconds: null, load: {requestsPerSecond: null, steps: [{requestsPerSecond: 5, seconds: 0}]}}}`, "spec.load.steps[0].seconds"},
	{"41 steps", `{spec: {widthMicroseconds: null, load: {requestsPerSecond: null, steps: [` + strings.Repeat("{requestsPerSecond: 5, seconds: 3},", 41) + `]}}}`, "spec.load.steps"},
	{"a sine", sine(`{}`), ""},
	{"a sine below 0", sine(`{amplitudeRequestsPerSecond: 1000}`), "`amplitudeRequestsPerSecond` must be below"},
	{"a sine of three steps", sine(`{periodSeconds: 7, stepSeconds: 2}`), "`periodSeconds` must be at least four times"},
	{"a sine of 41 steps", sine(`{seconds: 41}`), "`seconds` must be at most 40 times `stepSeconds`"},
	{"a trace", `{spec: {workload: {interarrival: Trace, gapsFrom: {configMapKeyRef: {name: recorded, key: gaps.txt}}}}}`, ""},
	{"a trace of nothing", `{spec: {workload: {interarrival: Trace}}}`, "`gapsFrom` must be given with `interarrival` Trace, and only with it"},
	{"gaps that nobody replays", `{spec: {workload: {gapsFrom: {configMapKeyRef: {name: recorded, key: gaps.txt}}}}}`, "`gapsFrom` must be given with `interarrival` Trace, and only with it"},
	{"a key of no ConfigMap", `{spec: {workload: {interarrival: Trace, gapsFrom: {configMapKeyRef: {name: recorded, key: "a/b"}}}}}`, "spec.workload.gapsFrom.configMapKeyRef.key"},
	{"traces", traces(`{samplePercent: "0.05", otlpEndpoint: "http://collector:4318"}`), ""},
	{"traces to the operator's receiver", traces(`{samplePercent: "100"}`), ""},
	{"traces of Redis", `{spec: {traces: {samplePercent: "1"}}}`, "`traces` needs `workload.protocol` R2P2"},
	{"traces of none", traces(`{samplePercent: "0"}`), "spec.traces.samplePercent"},
	{"traces of 0.000 %", traces(`{samplePercent: "0.000"}`), "spec.traces.samplePercent"},
	{"traces of 101 %", traces(`{samplePercent: "101"}`), "spec.traces.samplePercent"},
	{"traces by https", traces(`{samplePercent: "1", otlpEndpoint: "https://collector:4318"}`), "`otlpEndpoint` must be a URL such as http://collector:4318"},
	{"traces to a host", traces(`{samplePercent: "1", otlpEndpoint: "collector:4318"}`), "`otlpEndpoint` must be a URL such as http://collector:4318"},
	{"address without a port", `{spec: {target: {addresses: ["redis"]}}}`, "spec.target.addresses"},
	{"IPv6", `{spec: {target: {addresses: ["[::1]:80"]}}}`, ""},
	{"agents that measure", `{spec: {agents: 3, latencyAgents: 2}}`, ""},
	{"nobody to make the load", `{spec: {agents: 2, latencyAgents: 2}}`, "`latencyAgents` must be fewer than `agents`"},
	{"a rate of those that measure", `{spec: {agents: 3, latencyAgents: 2, latencyRequestsPerSecond: 500}}`, ""},
	{"a rate of nobody", `{spec: {agents: 3, latencyRequestsPerSecond: 500}}`, "only with `latencyAgents`"},
	{"many gaps", `{spec: {arrivalGaps: 2000}}`, ""},
	{"too few gaps", `{spec: {arrivalGaps: 49}}`, "spec.arrivalGaps"},
	{"a whole workload", `{spec: {workload: {protocol: Redis, keyOrder: "zipf:0.99", keyBytes: fb-key, mix: YCSBE, readPercent: 0, scanLength: "fixed:10"}}}`, ""},
	{"an order of no kind", `{spec: {workload: {protocol: Redis, keyOrder: "zipf:2"}}}`, "spec.workload.keyOrder"},
	{"an unknown mix", `{spec: {workload: {protocol: Redis, mix: YCSBA}}}`, "spec.workload.mix"},
	{"101 % reads", `{spec: {workload: {protocol: Redis, readPercent: 101}}}`, "spec.workload.readPercent"},
	{"17 agents", `{spec: {agents: 17}}`, "spec.agents"},
	{"unknown protocol", `{spec: {workload: {protocol: SMTP}}}`, "spec.workload.protocol"},
	{"a load of a switch", bySwitch(`{}`), ""},
	{"a switch that nobody asks", `{spec: {switch: {name: gen, templatesPerSecond: 10000}}}`, "`switch` must be given with `placement` Switch, and only with it"},
	{"no switch", `{spec: {placement: Switch}}`, "`switch` must be given with `placement` Switch, and only with it"},
	{"more than a fifth of the templates", bySwitch(`{load: {requestsPerSecond: 2001}}`), "at most a fifth of `switch.templatesPerSecond`"},
	{"more than an agent could", bySwitch(`{load: {requestsPerSecond: 30000000}, switch: {templatesPerSecond: 150000000}}`), ""},
	{"a switch that follows a trace", bySwitch(`{workload: {interarrival: Trace, gapsFrom: {configMapKeyRef: {name: recorded, key: gaps.txt}}}}`), "must be Poisson or Fixed"},
	{"a switch that speaks HTTP", bySwitch(`{workload: {protocol: HTTP}}`), "`workload.protocol` R2P2"},
	{"a switch that sweeps", bySwitch(`{load: {requestsPerSecond: null, sweep: {fromRequestsPerSecond: 1, toRequestsPerSecond: 2, points: 2}}}`), "`placement` Switch takes `load.requestsPerSecond`"},
	{"a switch that looks names up", bySwitch(`{target: {addresses: ["echo:8000"]}}`), "`target.addresses` must be IPv4 addresses"},
	{"a switch and IPv6", bySwitch(`{target: {addresses: ["[fd00::1]:8000"]}}`), "`target.addresses` must be IPv4 addresses"},
	{"a switch with agents", bySwitch(`{agents: 3, latencyAgents: 2}`), "there are no agents"},
	{"no width", `{spec: {widthMicroseconds: 0}}`, "spec.widthMicroseconds"},
}

// bySwitch is an experiment whose load a switch makes, changed.
func bySwitch(change string) string {
	o := map[string]any{"placement": "Switch", "switch": map[string]any{"name": "gen", "templatesPerSecond": 10000}, "workload": map[string]any{"protocol": "R2P2"},
		"target": map[string]any{"addresses": []any{"10.0.1.5:8000"}}, "load": map[string]any{"requestsPerSecond": 2000}}
	more := map[string]any{}
	if err := yaml.Unmarshal([]byte(change), &more); err != nil {
		panic(err)
	}
	merge(o, more)
	raw, err := json.Marshal(map[string]any{"spec": o})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// sine is an experiment with one, changed.
func sine(change string) string {
	o := map[string]any{"meanRequestsPerSecond": 1000, "amplitudeRequestsPerSecond": 999, "periodSeconds": 20, "seconds": 40}
	if err := yaml.Unmarshal([]byte(change), &o); err != nil {
		panic(err)
	}
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return `{spec: {widthMicroseconds: null, load: {requestsPerSecond: null, sine: ` + string(raw) + `}}}`
}

func traces(t string) string {
	return `{spec: {workload: {protocol: R2P2}, traces: ` + t + `}}`
}

func TestExperimentCannotBeChanged(t *testing.T) {
	o := parse(t, baseExperiment)
	o.SetNamespace(namespace(t))
	if err := direct.Create(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	merge(o.Object, parse(t, `{spec: {agents: 3}}`).Object)
	judge(t, direct.Update(context.Background(), o), "`spec` cannot be changed: an experiment is run once")
}

// experiment creates one with a change to the base and returns its namespace.
func experiment(t *testing.T, change string) string {
	t.Helper()
	operator(t)
	o := parse(t, baseExperiment)
	merge(o.Object, parse(t, change).Object)
	o.SetNamespace(namespace(t))
	if err := direct.Create(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	return o.GetNamespace()
}

func waitExperiment(t *testing.T, ns, condition string, status metav1.ConditionStatus, reason string) *v1alpha1.LatencyExperiment {
	t.Helper()
	e := &v1alpha1.LatencyExperiment{}
	eventually(t, fmt.Sprintf("%s=%s (%s)", condition, status, reason), func() (bool, string) {
		if err := direct.Get(context.Background(), types.NamespacedName{Namespace: ns, Name: "sweep"}, e); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(e.Status.Conditions, condition)
		if c == nil {
			return false, "absent"
		}
		return c.Status == status && c.Reason == reason, fmt.Sprintf("%s (%s: %s)", c.Status, c.Reason, c.Message)
	})
	return e
}

// ends does what kubelet and Job controller do when a coordinator ends.
func ends(t *testing.T, ns string, exit int32, message string) {
	t.Helper()
	ctx := context.Background()
	job := &batchv1.Job{}
	if err := direct.Get(ctx, types.NamespacedName{Namespace: ns, Name: "sweep-coordinator"}, job); err != nil {
		t.Fatal(err)
	}
	lastWords(t, ns, "a-stranger", nil, 0, `{"loads":[{"o":1,"a":1,"v":1,"l":1,"h":1,"c":true}]}`)
	lastWords(t, ns, "sweep-coordinator-x", []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}, exit, message)
	now := metav1.Now()
	says(t, job, func(job *batchv1.Job) {
		job.Status.StartTime, job.Status.Failed = &now, 1
		for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
				Type: kind, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", LastTransitionTime: now,
			})
		}
	})
}

// lastWords is a pod with the coordinator's labels that ended with a message.
func lastWords(t *testing.T, ns, name string, owners []metav1.OwnerReference, exit int32, message string) {
	t.Helper()
	ctx := context.Background()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name, OwnerReferences: owners, Labels: render.ExperimentSelector("sweep", v1alpha1.ComponentCoordinator),
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "coordinator", Image: "none"}}},
	}
	if err := direct.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	says(t, p, func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "coordinator", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, Message: message}},
		}}}
	})
}

// The whole way: objects, the coordinator's last words, the status; and nothing is
// done again afterwards.
func TestExperimentIsRunOnce(t *testing.T) {
	t.Parallel()
	ns := experiment(t, `{spec: {agents: 2}}`)
	waitExperiment(t, ns, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRunning)
	waitExperiment(t, ns, v1alpha1.ConditionConclusive, metav1.ConditionUnknown, v1alpha1.ReasonRunning)
	ctx, secret, document := context.Background(), &corev1.Secret{}, &corev1.ConfigMap{}
	if err := direct.Get(ctx, types.NamespacedName{Namespace: ns, Name: "sweep-token"}, secret); err != nil || len(secret.Data["token"]) != 64 {
		t.Errorf("token of %d bytes, %v", len(secret.Data["token"]), err)
	}
	if err := direct.Get(ctx, types.NamespacedName{Namespace: ns, Name: "sweep-definition"}, document); err != nil {
		t.Fatal(err)
	}
	d, err := definition.Parse([]byte(document.Data["definition.yaml"]))
	if err != nil || d.Validate() != nil || d.Protocol != "redis" || d.Load.RequestsPerSecond != 2000 || d.Measurement.WidthMicroseconds != 100 {
		t.Errorf("definition %+v, %v, %v", d, err, d.Validate())
	}
	ends(t, ns, 3, `{"loads":[{"o":1000,"a":999,"v":120,"l":110,"h":131,"c":true},{"o":2000,"a":1500,"v":900,"r":"Load, agent 0: off by 25 %"}]}`)
	e := waitExperiment(t, ns, v1alpha1.ConditionConclusive, metav1.ConditionFalse, v1alpha1.ReasonInconclusive)
	waitExperiment(t, ns, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonFinished)
	if e.Status.Observed != "120us (110-131us) at 1000/s" || e.Status.Loads != 2 || e.Status.Results[1].Reason != "Load, agent 0: off by 25 %" {
		t.Errorf("status %+v", e.Status)
	}
	header, row := shown(t, table(t, ns, "latencyexperiments", "sweep"))
	if header != "NAME TARGET P OBSERVED LOADS CONCLUSIVE REASON AGE" || !strings.HasPrefix(row, "sweep redis.default.svc:6379 99 120us (110-131us) at 1000/s 2 False Inconclusive ") {
		t.Errorf("columns %q, row %q", header, row)
	}
	if err := direct.Delete(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "sweep-coordinator"}}, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	waitExperiment(t, ns, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonFinished)
	if err := direct.Get(ctx, types.NamespacedName{Namespace: ns, Name: "sweep-coordinator"}, &batchv1.Job{}); err == nil {
		t.Error("a finished experiment is run again")
	}
}

// What cannot be run says why, before a pod is made.
func TestExperimentThatCannotBeRun(t *testing.T) {
	t.Parallel()
	ns := experiment(t, `{spec: {load: {requestsPerSecond: 1}}}`)
	e := waitExperiment(t, ns, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidExperiment)
	if c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionAccepted); !strings.Contains(c.Message, "at 1 requests/s: spec.limitSeconds: 15m0s: must be") {
		t.Errorf("message %q does not name the field", c.Message)
	}
	if err := direct.Get(context.Background(), types.NamespacedName{Namespace: ns, Name: "sweep-agents"}, &batchv1.Job{}); err == nil {
		t.Error("agents were made")
	}
	ns = experiment(t, `{spec: {workload: {protocol: R2P2}, target: {addresses: null, targetRef: {name: nobody}}}}`)
	waitExperiment(t, ns, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound)
}

// Recorded gaps are waited for, copied once, and not missed afterwards: an experiment
// under way is told nothing by what becomes of its ConfigMap.
func TestExperimentReplaysATrace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	ns := experiment(t, `{spec: {widthMicroseconds: null, load: {requestsPerSecond: null, steps: [{requestsPerSecond: 50, seconds: 5}, {requestsPerSecond: 90, seconds: 5}]},
		workload: {interarrival: Trace, gapsFrom: {configMapKeyRef: {name: recorded, key: gaps}}}}}`)
	e := waitExperiment(t, ns, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonGapsNotFound)
	if err := direct.Get(ctx, types.NamespacedName{Namespace: ns, Name: "sweep-agents"}, &batchv1.Job{}); err == nil {
		t.Error("agents were made")
	}
	recorded := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "recorded"}, Data: map[string]string{"gaps": "100\n300\n"}}
	if err := direct.Create(ctx, recorded); err != nil {
		t.Fatal(err)
	}
	again := e.DeepCopy() // sooner than the operator would look again
	again.ResourceVersion, again.UID, again.Status = "", "", v1alpha1.LatencyExperimentStatus{}
	if err := direct.Delete(ctx, e); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another one", func() (bool, string) { err := direct.Create(ctx, again.DeepCopy()); return err == nil, fmt.Sprint(err) })
	waitExperiment(t, ns, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRunning)
	document := &corev1.ConfigMap{}
	if err := direct.Get(ctx, types.NamespacedName{Namespace: ns, Name: "sweep-definition"}, document); err != nil {
		t.Fatal(err)
	}
	d, err := definition.Parse([]byte(document.Data["definition.yaml"]))
	if err != nil || d.Validate() != nil || len(d.Interarrival.GapsNanoseconds) != 2 || len(d.Phases()) != 2 {
		t.Errorf("definition %+v, %v, %v", d, err, d.Validate())
	}
	if err := direct.Delete(ctx, recorded); err != nil {
		t.Fatal(err)
	}
	ends(t, ns, 0, `{"changing":true,"loads":[{"o":50,"a":50,"v":120,"l":110,"h":131},{"o":90,"a":90,"v":900,"l":800,"h":990,"s":5}]}`)
	waitExperiment(t, ns, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonFinished)
	e = waitExperiment(t, ns, v1alpha1.ConditionConclusive, metav1.ConditionUnknown, v1alpha1.ReasonFollowed)
	if e.Status.Observed != "up to 900us at 90/s" || *e.Status.Results[1].StartSeconds != 5 || e.Status.Target != "redis.default.svc:6379" {
		t.Errorf("status %+v", e.Status)
	}
}

// A coordinator that could not measure, or said nothing, is a failure with its reason.
func TestExperimentFailed(t *testing.T) {
	t.Parallel()
	ns := experiment(t, `{}`)
	waitExperiment(t, ns, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRunning)
	ends(t, ns, 1, `{"error":"agent x: configure: targets: connection refused (TargetFailed)"}`)
	e := waitExperiment(t, ns, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonFailed)
	if c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, "TargetFailed") {
		t.Errorf("message %q", c.Message)
	}
	ns = experiment(t, `{}`)
	waitExperiment(t, ns, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRunning)
	ends(t, ns, 137, "")
	e = waitExperiment(t, ns, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonFailed)
	if c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, "status 137") {
		t.Errorf("message %q", c.Message)
	}
}

// An object of the same name that belongs to somebody else is left alone.
func TestExperimentNameConflict(t *testing.T) {
	t.Parallel()
	operator(t)
	ns := namespace(t)
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "sweep-definition"}, Data: map[string]string{"a": "b"}}
	if err := direct.Create(context.Background(), theirs); err != nil {
		t.Fatal(err)
	}
	o := parse(t, baseExperiment)
	o.SetNamespace(ns)
	if err := direct.Create(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	waitExperiment(t, ns, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
	if err := direct.Get(context.Background(), client.ObjectKeyFromObject(theirs), theirs); err != nil || theirs.Data["a"] != "b" {
		t.Errorf("their ConfigMap: %v, %v", theirs.Data, err)
	}
}
