// SPDX-License-Identifier: Apache-2.0

package latencyexperiment

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// An RpcService is loaded with what it speaks, and one of protocol TCP by the
// address at which connections are balanced.
func TestTargetsSpeakTheProtocol(t *testing.T) {
	rpc := &v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: "apps"}, Spec: v1alpha1.RpcServiceSpec{Protocol: v1alpha1.ProtocolR2P2}}
	web := &v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "apps"},
		Spec:   v1alpha1.RpcServiceSpec{Protocol: v1alpha1.ProtocolTCP, TCP: &v1alpha1.RpcServiceTCP{Port: 8080}},
		Status: v1alpha1.RpcServiceStatus{Addresses: []string{"192.0.2.1:8080"}}}
	waiting := web.DeepCopy()
	waiting.Status = v1alpha1.RpcServiceStatus{}
	for _, c := range []struct {
		target            *v1alpha1.RpcService
		protocol, refusal string
		address           string
	}{
		{rpc, "R2P2", "", "echo.apps.svc:8000"},
		{rpc, "HTTP", "`spec.workload.protocol` must be R2P2: that is what RpcService echo speaks", ""},
		{web, "R2P2", "`spec.workload.protocol` must not be R2P2", ""},
		{web, "HTTP", "", "192.0.2.1:8080"},
		{web, "Redis", "", "192.0.2.1:8080"},
		{waiting, "HTTP", "", "web.apps.svc:8080"},
	} {
		e := experiment(func(s *v1alpha1.LatencyExperimentSpec) {
			s.Target = v1alpha1.ExperimentTarget{TargetRef: &v1alpha1.TargetReference{Name: c.target.Name}}
			s.Workload.Protocol = v1alpha1.ExperimentProtocol(c.protocol)
			if c.protocol == "Redis" {
				s.Workload.Mix, s.Workload.Keys, s.Workload.KeyBytes, s.Workload.ValueBytes, s.Workload.Path = "GetSet", 10, "fixed:8", "fixed:8", ""
			}
			if c.protocol == "R2P2" {
				s.Workload.Path, s.Workload.RequestBytes = "", "fixed:8"
			}
		})
		d, accepted := decideAccepted(e, surroundings{target: c.target})
		if c.refusal != "" {
			if accepted.Reason != v1alpha1.ReasonInvalidExperiment || !strings.Contains(accepted.Message, c.refusal) {
				t.Errorf("%s by %s: %+v", c.target.Name, c.protocol, accepted)
			}
			continue
		}
		if accepted.Status != metav1.ConditionTrue || d.Configuration(0).Targets[0] != c.address {
			t.Errorf("%s by %s: %+v, targets %v", c.target.Name, c.protocol, accepted, d.Targets)
		}
	}
}
