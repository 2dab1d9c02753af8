// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// template is the pod template of an object that has one.
func template(o Object) *corev1.PodTemplateSpec {
	switch w := o.(type) {
	case *appsv1.Deployment:
		return &w.Spec.Template
	case *batchv1.Job:
		return &w.Spec.Template
	}
	return nil
}

func hasAll(t *testing.T, where string, got, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: label %s is %q, want %q", where, key, got[key], value)
		}
	}
}

// K-21: what is documented to find pods of ours finds each of them.
func TestPodsHaveTheRecommendedLabels(t *testing.T) {
	for _, file := range []string{"minimal", "full", "no-router", "transparent", "fastpath", "tcp", "tcp-full"} {
		in := load(t, "testdata/"+file+".in.yaml")
		pods := 0
		for _, o := range Objects(in) {
			want := map[string]string{"app.kubernetes.io/name": "rpcservice", "app.kubernetes.io/instance": in.Service.Name,
				"app.kubernetes.io/part-of": "bobtail", "app.kubernetes.io/managed-by": "bobtail-operator"}
			hasAll(t, file+" "+o.GetName(), o.GetLabels(), want)
			pod := template(o)
			if pod == nil {
				continue
			}
			pods++
			want["app.kubernetes.io/component"] = pod.Labels["bobtail.dev/component"]
			if !TCP(in.Service) {
				want["app.kubernetes.io/version"] = "1.2.3"
			}
			hasAll(t, file+" pods of "+o.GetName(), pod.Labels, want)
		}
		if pods == 0 {
			t.Errorf("%s: no pods", file)
		}
	}
	for _, file := range []string{"service", "addresses"} {
		in := experimentInput(t, "testdata/experiment/"+file+".in.yaml")
		pods := 0
		for _, o := range ExperimentObjects(in) {
			if pod := template(o); pod != nil {
				pods++
				hasAll(t, file+" pods of "+o.GetName(), pod.Labels, map[string]string{"app.kubernetes.io/name": "latencyexperiment",
					"app.kubernetes.io/instance": in.Experiment.Name, "app.kubernetes.io/component": pod.Labels["bobtail.dev/component"],
					"app.kubernetes.io/part-of": "bobtail", "app.kubernetes.io/managed-by": "bobtail-operator", "app.kubernetes.io/version": "1.2.3"})
			}
		}
		if pods != 2 {
			t.Errorf("experiment %s: %d kinds of pods", file, pods)
		}
	}
}

// K-21: a Deployment's selector cannot change; the labels come beside it.
func TestSelectorsStayAsReleased(t *testing.T) {
	for _, file := range []string{"full", "tcp-full"} {
		in := load(t, "testdata/"+file+".in.yaml")
		for _, o := range Objects(in) {
			d, ok := o.(*appsv1.Deployment)
			if !ok {
				continue
			}
			want := map[string]string{"bobtail.dev/service": in.Service.Name, "bobtail.dev/component": d.Labels["bobtail.dev/component"]}
			if !maps.Equal(d.Spec.Selector.MatchLabels, want) || len(d.Spec.Selector.MatchExpressions) > 0 {
				t.Errorf("%s: selector %v, want %v", d.Name, d.Spec.Selector, want)
			}
		}
	}
}

// K-21: pods of a service that has the name of the chart's release are neither the
// operator nor CRAB's agents to a selector of theirs.
func TestLabelsOfPodsAreNotThoseOfTheOperator(t *testing.T) {
	in := load(t, "testdata/full.in.yaml")
	in.Service.Name = "bobtail"
	e := experimentInput(t, "testdata/experiment/service.in.yaml")
	e.Experiment.Name = "bobtail"
	for _, o := range append(Objects(in), ExperimentObjects(e)...) {
		pod := template(o)
		if pod == nil {
			continue
		}
		for _, component := range []string{"operator", "agent"} {
			theirs := labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": "bobtail", "app.kubernetes.io/component": component})
			if theirs.Matches(labels.Set(pod.Labels)) {
				t.Errorf("pods of %s are taken for the %s", o.GetName(), component)
			}
		}
	}
}

// K-21: a pod of the user's own, with nothing of ours in it, does not roll because
// Bobtail has another version; a tag that is no label's value is left out.
func TestVersionRollsNoPodOfTheUser(t *testing.T) {
	for _, c := range []struct{ file, version, want string }{
		{"tcp", "1.2.3", ""}, {"minimal", "1.2.3", "1.2.3"}, {"minimal", "_1", ""}, {"minimal", "1-", ""},
	} {
		in := load(t, "testdata/"+c.file+".in.yaml")
		in.Version = c.version
		for _, o := range Objects(in) {
			if pod := template(o); pod != nil && pod.Labels["app.kubernetes.io/version"] != c.want {
				t.Errorf("%s at %s: version %q, want %q", c.file, c.version, pod.Labels["app.kubernetes.io/version"], c.want)
			}
		}
	}
	one, other := load(t, "testdata/tcp-full.in.yaml"), load(t, "testdata/tcp-full.in.yaml")
	other.Version = "9.9.9"
	for i, o := range Objects(one) {
		if a, b := template(o), template(Objects(other)[i]); a != nil && a.String() != b.String() {
			t.Errorf("the pods of %s roll with Bobtail's version", o.GetName())
		}
	}
}

// K-4, K-26: a drain takes servers one at a time, finds them on different nodes where
// there are any, and is never blocked for good: not by one replica, not by a pod that
// does not serve.
func TestK4ADrainTakesServersOneAtATime(t *testing.T) {
	for _, file := range []string{"testdata/minimal.in.yaml", "testdata/no-router.in.yaml", "testdata/tcp.in.yaml"} {
		in := load(t, file)
		var budget *policyv1.PodDisruptionBudget
		for _, o := range Objects(in) {
			switch o := o.(type) {
			case *policyv1.PodDisruptionBudget:
				if o.Name == ServerName(in.Service) {
					budget = o
				}
			case *appsv1.Deployment:
				spread := o.Spec.Template.Spec.TopologySpreadConstraints
				if len(spread) != 1 || spread[0].TopologyKey != corev1.LabelHostname || spread[0].WhenUnsatisfiable != corev1.ScheduleAnyway {
					t.Errorf("%s: %s is spread by %+v", file, o.Name, spread)
				}
			}
		}
		if budget == nil || budget.Spec.MinAvailable != nil || budget.Spec.MaxUnavailable.IntValue() != 1 || *budget.Spec.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
			t.Errorf("%s: %+v", file, budget)
			continue
		}
		if got := budget.Spec.Selector.MatchLabels[v1alpha1.LabelComponent]; got != v1alpha1.ComponentServer {
			t.Errorf("%s: it selects %q", file, got)
		}
	}
}

// K-30: a router's probes ask its own loop, not the sidecar's, and one that hangs leaves
// the service before it is started again.
func TestK30RoutersAreAskedThemselves(t *testing.T) {
	for _, file := range []string{"testdata/minimal.in.yaml", "testdata/fastpath.in.yaml", "testdata/sriov.in.yaml"} {
		for _, o := range Objects(load(t, file)) {
			d, ok := o.(*appsv1.Deployment)
			if !ok || d.Labels[v1alpha1.LabelComponent] != v1alpha1.ComponentRouter {
				continue
			}
			c := d.Spec.Template.Spec.Containers[0]
			for name, p := range map[string]*corev1.Probe{"readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
				if p == nil || p.Exec == nil || p.HTTPGet != nil || p.Exec.Command[len(p.Exec.Command)-1] != "--alive=/run/bobtail/ctl.sock" {
					t.Errorf("%s: %s: %+v", file, name, p)
				}
			}
			if out, again := c.ReadinessProbe, c.LivenessProbe; out.PeriodSeconds*out.FailureThreshold >= again.PeriodSeconds*again.FailureThreshold {
				t.Errorf("%s: started again before it is out", file)
			}
		}
	}
}
