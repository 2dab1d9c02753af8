// SPDX-License-Identifier: Apache-2.0

// Services of CRAB's class that select servers with a device. CRAB's relays lead to the
// pod network, and such servers do not listen there.
package redirection

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// againstDevices is what stands against the Services that want an address, by their names.
func againstDevices(services []corev1.Service, rpc []v1alpha1.RpcService) map[types.NamespacedName][]crabplan.Refusal {
	out := map[types.NamespacedName][]crabplan.Refusal{}
	for i := range services {
		s := &services[i]
		if !crabplan.WantsVIP(s) || len(s.Spec.Selector) == 0 {
			continue
		}
		for j := range rpc {
			if device := rpc[j].Status.Device; onDevice(device) && selects(s, &rpc[j]) {
				name := crabplan.Name(s)
				out[name] = append(out[name], crabplan.Refusal{Service: name, Rule: v1alpha1.ReasonServersOnDevice, Message: fmt.Sprintf(
					"it selects servers of RpcService %s, which are on %s and do not listen on the pod network, where CRAB leads: have clients choose among the addresses of Service %s, or set `device.type: Kernel`",
					rpc[j].Name, device, rpc[j].Name)})
			}
		}
	}
	return out
}

// onDevice: a status that says nothing yet is of a service without pods.
func onDevice(device string) bool { return device != "" && device != string(v1alpha1.DeviceKernel) }

func selects(s *corev1.Service, rpc *v1alpha1.RpcService) bool {
	return s.Namespace == rpc.Namespace && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(render.ServerLabels(rpc)))
}
