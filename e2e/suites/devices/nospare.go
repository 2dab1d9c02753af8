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

// A second service, each of whose pods holds one of four devices of a device plugin: two
// servers and two routers, and none to spare.
const (
	counted  = "no-spare"
	resource = "example.com/lines"
)

// plugin runs the embedded cluster's own program, which is the sandbox image, as a device
// plugin: to the kubelet a real one. Its devices are numbers; bridges need no more.
const plugin = `apiVersion: v1
kind: Pod
metadata: {name: device-plugin, labels: {app: device-plugin}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: plugin
    image: %s
    command: [/bobtail-cluster, internal-device-plugin, ` + resource + `, "0000:ff:00.0", "0000:ff:00.1", "0000:ff:00.2", "0000:ff:00.3"]
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: kubelet, mountPath: /var/lib/kubelet/device-plugins}]
  volumes: [{name: kubelet, hostPath: {path: /var/lib/kubelet/device-plugins, type: Directory}}]
`

const countedService = `apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: lines, annotations: {k8s.v1.cni.cncf.io/resourceName: ` + resource + `}}
spec:
  config: |
    {"cniVersion": "1.0.0", "type": "bridge", "bridge": "lines0", "isGateway": true,
     "ipam": {"type": "whereabouts", "range": "10.78.0.0/24", "range_start": "10.78.0.10", "range_end": "10.78.0.99"}}
---
apiVersion: bobtail.dev/v1alpha1
kind: RpcService
metadata: {name: ` + counted + `}
spec:
  replicas: 2
  server: {image: "localhost/bobtail/serve:%s", args: [--service-time=fixed:200us]}
  device: {type: AFXDP, networkAttachment: lines, resourceName: ` + resource + `, gateway: 10.78.0.1}
`

// count: a device plugin with as many devices as the service has pods, each of which gets its own.
func (s *Suite) count(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a device plugin with four devices, and a service with four pods", Cost: "40 s",
		Cause: "the plugin did not register, or a pod waits for a device: kubectl -n " + Namespace + " describe pods"}, func(ctx context.Context) error {
		if err := s.startPlugin(ctx); err != nil {
			return err
		}
		if _, err := s.Env.Run(ctx, fmt.Sprintf(countedService, s.Env.Version), "kubectl", "-n", Namespace, "apply", "-f", "-"); err != nil {
			return err
		}
		if err := s.Env.WaitCondition(ctx, 3*time.Minute, Namespace, "rpcservices.bobtail.dev", counted, "Ready=True"); err != nil {
			return err
		}
		return s.eachHasItsOwn(ctx, counted)
	})
}

// noSpare: a rollout has to give a device back before it can take one, and clients must not notice.
func (s *Suite) noSpare(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a rollout of it under load, with no device to spare", Cost: "60 s",
		Cause: "a new pod waits for a device that the rollout does not give back: kubectl -n " + Namespace + " describe pods"}, func(ctx context.Context) error {
		l := s.load("load-no-spare", 4*time.Minute)
		l.Target = counted + "." + Namespace + ".svc.cluster.local:8000"
		return s.underLoad(ctx, l, "rpcs_failed_rolling_no_spare_vf", func(ctx context.Context) error {
			_, err := s.Env.Kubectl(ctx, "-n", Namespace, "patch", "rpcsvc", counted, "--type=merge", "-p", `{"spec":{"server":{"args":["--service-time=fixed:300us"]}}}`)
			if err == nil {
				err = s.Env.WaitCondition(ctx, 3*time.Minute, Namespace, "rpcservices.bobtail.dev", counted, "Ready=True")
			}
			return err
		})
	})
}

func (s *Suite) startPlugin(ctx context.Context) error {
	image, err := s.Env.Cluster(ctx, "sandbox-image")
	if err != nil {
		return err
	}
	if _, err := s.Env.Run(ctx, fmt.Sprintf(plugin, strings.TrimSpace(image)), "kubectl", "-n", Namespace, "apply", "-f", "-"); err != nil {
		return err
	}
	return s.offers(ctx, "4")
}

// offers waits until the node offers so many devices.
func (s *Suite) offers(ctx context.Context, devices string) error {
	return harness.Until(ctx, time.Minute, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		out, err := s.Env.Kubectl(ctx, "get", "node", "node-"+node, "-o", `jsonpath={.status.allocatable.example\.com/lines}`)
		return out == devices, "the node offers " + out + " devices of " + resource, err
	})
}

// eachHasItsOwn: the network of each pod took the device that its container got, and no two the same.
func (s *Suite) eachHasItsOwn(ctx context.Context, service string) error {
	var list struct {
		Items []struct {
			Metadata struct {
				Name        string
				Annotations map[string]string
			}
		}
	}
	if err := s.Env.Get(ctx, &list, "-n", Namespace, "pods", "-l", "bobtail.dev/service="+service); err != nil {
		return err
	}
	var err error
	held := map[string]string{}
	for _, p := range list.Items {
		status := p.Metadata.Annotations["k8s.v1.cni.cncf.io/network-status"]
		_, rest, found := strings.Cut(status, `"pci-address":"`)
		device, _, _ := strings.Cut(rest, `"`)
		if other, taken := held[device]; !found || taken {
			err = errors.Join(err, fmt.Errorf("pod %s has device %q, as pod %q: %s", p.Metadata.Name, device, other, status))
		}
		held[device] = p.Metadata.Name
	}
	if len(held) != 4 {
		err = errors.Join(err, fmt.Errorf("%d devices are held, want 4: %v", len(held), held))
	}
	return err
}

// underLoad judges what failed while something was done, and until there were enough RPCs.
func (s *Suite) underLoad(ctx context.Context, l harness.Load, figure string, do func(context.Context) error) error {
	if err := s.Env.StartLoad(ctx, l); err != nil {
		return err
	}
	started := time.Now()
	err := do(ctx)
	if rest := leastRPCs/rate*time.Second + 2*time.Second - time.Since(started); err == nil && rest > 0 {
		err = sleep(ctx, rest)
	}
	if ended := s.Env.EndLoad(ctx, l); err != nil || ended != nil {
		return errors.Join(err, ended)
	}
	got, err := s.Env.FinishLoad(ctx, l)
	if err != nil {
		return err
	}
	return s.judge(figure, got)
}
