// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// A Service of CRAB's class whose selector meets servers on a device is refused, by
// whichever of their labels it finds them.
func TestServersOnDevice(t *testing.T) {
	own := onA("far", "SRIOV")
	own.Spec.Server.PodTemplate = &v1alpha1.PodTemplate{}
	own.Spec.Server.PodTemplate.Metadata.Labels = map[string]v1alpha1.LabelValue{"team": "blue"}
	for name, c := range map[string]struct {
		rpc     v1alpha1.RpcService
		change  func(*corev1.Service)
		refused bool
	}{
		"by our label":        {own, func(s *corev1.Service) { s.Spec.Selector = map[string]string{v1alpha1.LabelService: "far"} }, true},
		"by the user's label": {own, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"team": "blue"} }, true},
		"other pods":          {own, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"team": "red"} }, false},
		"routers": {own, func(s *corev1.Service) {
			s.Spec.Selector = map[string]string{v1alpha1.LabelService: "far", v1alpha1.LabelComponent: "router"}
		}, false},
		"no selector":       {own, func(s *corev1.Service) { s.Spec.Selector = nil }, false},
		"another namespace": {own, func(s *corev1.Service) { s.Namespace = "x"; s.Spec.Selector = map[string]string{"team": "blue"} }, false},
		"of another class": {own, func(s *corev1.Service) {
			s.Spec.LoadBalancerClass = nil
			s.Spec.Selector = map[string]string{"team": "blue"}
		}, false},
		"a service without pods":    {onA("far", ""), selecting("far"), false},
		"fallen back to the kernel": {onA("far", "Kernel"), selecting("far"), false},
	} {
		s := service("a", 1, "", c.change)
		got := againstDevices([]corev1.Service{s}, []v1alpha1.RpcService{c.rpc})[crabplan.Name(&s)]
		if (len(got) == 1) != c.refused {
			t.Errorf("%s: %v", name, got)
		}
		if c.refused && (got[0].Rule != v1alpha1.ReasonServersOnDevice || !strings.Contains(got[0].Message, "RpcService far, which are on SRIOV")) {
			t.Errorf("%s: %+v", name, got[0])
		}
	}
}
