// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// A service whose device cannot be had, for one reason after the other, and the namespace that admits none of them.
const (
	refused = "refused"
	strict  = Namespace + "-strict"
)

// definitions of networks: one that is as it should be, one without a plugin, and two of resources.
const definitionsManifest = `apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: good}
spec: {config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "data0"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: no-plugin}
spec: {config: '{"cniVersion": "1.0.0"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: no-json}
spec: {config: 'type: bridge'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: of-nobody, annotations: {k8s.v1.cni.cncf.io/resourceName: example.com/nobodys}}
spec: {config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "data0"}'}
`

const refusedService = `apiVersion: bobtail.dev/v1alpha1
kind: RpcService
metadata: {name: ` + refused + `}
spec:
  replicas: 1
  server: {image: "localhost/bobtail/serve:%s"}
  device: {type: AFXDP, %s, fallback: [{type: Kernel}]}
`

// refusals are devices that nobody can have, and why.
var refusals = []struct{ name, device, reason string }{
	{"a definition that is not there", "networkAttachment: nowhere", "DefinitionMissing"},
	{"a definition without a plugin", "networkAttachment: no-plugin", "DefinitionInvalid"},
	{"a definition that is no JSON", "networkAttachment: no-json", "DefinitionInvalid"},
	{"a definition of another resource", "networkAttachment: of-nobody, resourceName: example.com/lines", "DefinitionInvalid"},
	{"a definition in somebody's namespace", "networkAttachment: kube-system/good", "DefinitionForbidden"},
	{"a resource that no node offers", "networkAttachment: of-nobody, resourceName: example.com/nobodys", "ResourceMissing"},
	{"hugepages that no node has", "networkAttachment: good, hugepages: {pageMebibytes: 1024, pages: 64}", "ResourceMissing"},
}

// refusedDevices: each leads to Kernel, and the status says why.
func (s *Suite) refusedDevices(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("%d devices that cannot be had, and a namespace that enforces Pod Security", len(refusals)), Cost: "40 s",
		Cause: "kubectl get rpcsvc " + refused + " -A -o yaml"}, func(ctx context.Context) error {
		if _, err := s.Env.Run(ctx, definitionsManifest, "kubectl", "-n", Namespace, "apply", "-f", "-"); err != nil {
			return err
		}
		wrong := 0
		var failed error
		for _, r := range refusals {
			err := s.refuse(ctx, Namespace, r.device, r.reason)
			if err != nil {
				wrong++
				failed = errors.Join(failed, fmt.Errorf("%s: %w", r.name, err))
			}
		}
		err := s.strictNamespace(ctx)
		if err != nil {
			wrong++
		}
		s.Got.Set("devices_refused_wrongly", wrong)
		return errors.Join(failed, err)
	})
}

// refuse asks for a device and waits for the reason it cannot be had for, and for Kernel instead.
func (s *Suite) refuse(ctx context.Context, namespace, device, reason string) error {
	if _, err := s.Env.Run(ctx, fmt.Sprintf(refusedService, s.Env.Version, device), "kubectl", "-n", namespace, "apply", "-f", "-"); err != nil {
		return err
	}
	if err := s.Env.WaitCondition(ctx, time.Minute, namespace, "rpcservices.bobtail.dev", refused, "DeviceUsable=False"); err != nil {
		return err
	}
	return harness.Until(ctx, time.Minute, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		var got service
		if err := s.Env.Get(ctx, &got, "-n", namespace, "rpcsvc", refused); err != nil || len(got.Status.Devices) == 0 {
			return false, "status.devices is empty", err
		}
		first := got.Status.Devices[0]
		return got.Status.Device == "Kernel" && first.Reason == reason && first.Message != "",
			fmt.Sprintf("on %s, %s: %s; want %s", got.Status.Device, first.Reason, first.Message, reason), nil
	})
}

// strictNamespace admits no capabilities: the service serves there, on Kernel.
func (s *Suite) strictNamespace(ctx context.Context) error {
	if err := s.Env.Apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+strict+", labels: {pod-security.kubernetes.io/enforce: restricted}}\n"); err != nil {
		return err
	}
	err := s.refuse(ctx, strict, "networkAttachment: "+Namespace+"/good", "PodSecurity")
	if err == nil {
		err = s.Env.WaitCondition(ctx, 2*time.Minute, strict, "rpcservices.bobtail.dev", refused, "Ready=True")
	}
	if err != nil {
		out, _ := s.Env.Kubectl(ctx, "-n", strict, "get", "events") // beside the fault that counts
		s.Steps.Say("%s", strings.TrimSpace(out))
	}
	_, gone := s.Env.Kubectl(ctx, "delete", "namespace", strict, "--timeout=120s")
	return errors.Join(err, gone)
}
