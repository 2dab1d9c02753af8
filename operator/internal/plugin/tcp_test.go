// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// webService speaks TCP; its one pod has no sidecar that could answer.
func webService(t *testing.T) *cluster {
	t.Helper()
	service := aService()
	service.Name, service.Spec.Protocol, service.Spec.TCP = "web", v1alpha1.ProtocolTCP, &v1alpha1.RpcServiceTCP{Port: 8080}
	service.Spec.Router = v1alpha1.RpcServiceRouter{Placement: v1alpha1.PlacementNone}
	service.Status = v1alpha1.RpcServiceStatus{Workers: "1/2", ReadyWorkers: 1, DesiredWorkers: 2, Address: "192.0.2.1:8080", Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoAgents, Message: "no node has an agent"}}}
	slo := anSLO()
	slo.Name, slo.Spec.TargetRef.Name = "web-p99", "web"
	slo.Status = v1alpha1.ServiceLevelObjectiveStatus{}
	pod := aPod("web-server-a", v1alpha1.ComponentServer)
	pod.Labels[v1alpha1.LabelService] = "web"
	c, _ := aCluster(t, false, service, slo, pod)
	return c
}

func TestTopShowsTCPServices(t *testing.T) {
	out, errs, err := execute(t, webService(t), "top", "-A")
	if err != nil || errs != "" {
		t.Fatalf("%v, %s", err, errs)
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); f[1] == "web" {
			if strings.Join(f, " ") != "shop web 1/2 - - - - - - -" {
				t.Errorf("%s", line)
			}
			return
		}
	}
	t.Errorf("no line of web:\n%s", out)
}

func TestExplainOnTCP(t *testing.T) {
	out, errs, err := execute(t, webService(t), "explain", "slo/web-p99")
	if err != nil || errs != "" {
		t.Fatalf("%v, %s", err, errs)
	}
	golden(t, "explain-tcp", out)
}

// What agents measured is shown for what it is; what they did not, with the reason.
func TestExplainConnects(t *testing.T) {
	slo, service := anSLO(), aService()
	slo.Status = v1alpha1.ServiceLevelObjectiveStatus{Source: v1alpha1.SourceClientNode, Observed: "180us", Objective: "1ms", WindowSeconds: 30, Samples: new(int64(1500))}
	var out, errs bytes.Buffer
	tell := func() {
		printHeadTCP(streams{out: &out, errs: &errs}, slo)
		printFindings(streams{out: &out, errs: &errs}, findingsTCP(slo, service))
	}
	tell()
	for _, want := range []string{"p99      180us until a connection is established, objective 1ms, last 30 s, 1500 connections", "\nRequestsUnseen\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	slo.Status = v1alpha1.ServiceLevelObjectiveStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionMet, Status: metav1.ConditionUnknown,
		Reason: v1alpha1.ReasonMeasurementIncomplete, Message: "no histogram from node-b (agent 0.1.0: Unreachable)"}}}
	out.Reset()
	tell()
	if s := out.String(); strings.Contains(s, "established") || !strings.Contains(s, "\nMeasurementIncomplete\n  evidence: no histogram from node-b (agent 0.1.0") {
		t.Errorf("%s", s)
	}
}

// What needs a router's or a sidecar's word says what to do instead.
func TestCommandsRefuseTCP(t *testing.T) {
	c := webService(t)
	for want, args := range map[string][]string{
		"nobody measures its service times: leave out slo/web-p99": {"plan", "slo/web-p99", "--rate=10"},
		"make a LatencyExperiment":                                 {"bench", "rpcsvc/web", "--rate=10"},
	} {
		if _, _, err := execute(t, c, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

// A support bundle does not ask pods in which nobody answers.
func TestBundleLeavesTCPPodsAlone(t *testing.T) {
	out, errs, _ := execute(t, webService(t), "support-bundle", "--file="+filepath.Join(t.TempDir(), "b.tar.gz"))
	if strings.Contains(errs, "web-server-a v1/") || strings.Contains(errs, "web-server-a metrics") {
		t.Errorf("%s\n%s", out, errs)
	}
}
