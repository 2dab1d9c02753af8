// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// A service whose pods claim their devices from a DRA driver, on interfaces of AF_XDP. The
// devices are numbers, as those of the device plugin are.
const (
	claiming     = "claiming"
	driver       = "devices.example.com"
	claimedGoods = "example.com/claimed"
)

const claimed = `apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: ` + driver + `}
spec: {selectors: [{cel: {expression: device.driver == "` + driver + `"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: line, namespace: ` + Namespace + `}
spec: {spec: {devices: {requests: [{name: line, exactly: {deviceClassName: ` + driver + `}}]}}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: claimed, namespace: ` + Namespace + `, annotations: {k8s.v1.cni.cncf.io/resourceName: ` + claimedGoods + `}}
spec:
  config: |
    {"cniVersion": "1.0.0", "type": "bridge", "bridge": "claimed0", "isGateway": true,
     "ipam": {"type": "whereabouts", "range": "10.79.0.0/24", "range_start": "10.79.0.10", "range_end": "10.79.0.99"}}
---
apiVersion: bobtail.dev/v1alpha1
kind: RpcService
metadata: {name: ` + claiming + `, namespace: ` + Namespace + `}
spec:
  replicas: 2
  server: {image: "localhost/bobtail/serve:VERSION", args: [--service-time=fixed:200us]}
  device: {type: AFXDP, networkAttachment: claimed, resourceClaimTemplateName: line, gateway: 10.79.0.1}
`

// goods are the devices of the driver, one for each pod of the service.
var goods = []string{"0000:fe:00.0", "0000:fe:00.1", "0000:fe:00.2", "0000:fe:00.3"}

// startDriver runs the DRA plugin on the node as the node's own user, until the context ends.
func (s *Suite) startDriver(ctx context.Context, ids ...string) (stop func(), err error) {
	kubeconfig, err := s.Env.Cluster(ctx, "kubeconfig")
	if err != nil {
		return nil, err
	}
	nodes := filepath.Join(filepath.Dir(strings.TrimSpace(kubeconfig)), "pki", "kubelet-"+node+".kubeconfig")
	bin := filepath.Join(s.Env.Root, "build", "bin")
	args := append([]string{"exec-node", node, "--", filepath.Join(bin, "bobtail-dra"), "--kubeconfig=" + nodes, "--node=node-" + node,
		"--driver=" + driver, "--resource=" + claimedGoods}, ids...)
	running, end := context.WithCancel(ctx)
	cmd := exec.CommandContext(running, filepath.Join(bin, "bobtail-cluster"), args...)
	cmd.Stdout, cmd.Stderr = s.Steps.Log(), s.Steps.Log()
	if err := cmd.Start(); err != nil {
		end()
		return nil, err
	}
	stop = func() { end(); _ = cmd.Wait() } // it was killed
	err = harness.Until(ctx, time.Minute, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		out, err := s.Env.Kubectl(ctx, "get", "resourceslices", "-o", "jsonpath={.items[*].spec.devices[*].name}")
		return len(strings.Fields(out)) == len(ids), "the driver offers " + out, err
	})
	if err != nil {
		stop()
	}
	return stop, err
}

// claims: pods get devices by claims; the network takes the device that the claim got, and a
// claim's end gives it back.
func (s *Suite) claims(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a DRA driver with four devices, and a service whose pods claim them", Cost: "60 s",
		Cause: "a claim is not allocated or not prepared: kubectl -n " + Namespace + " describe resourceclaims,pods"}, func(ctx context.Context) error {
		stop, err := s.startDriver(ctx, goods...)
		if err != nil {
			return err
		}
		defer stop()
		if err := s.Env.Apply(ctx, strings.ReplaceAll(claimed, "VERSION", s.Env.Version)); err != nil {
			return err
		}
		if err := s.Env.WaitCondition(ctx, 3*time.Minute, Namespace, "rpcservices.bobtail.dev", claiming, "Ready=True"); err != nil {
			return err
		}
		if err := s.eachHasItsOwn(ctx, claiming); err != nil {
			return err
		}
		l := s.load("load-claimed", (leastRPCs/rate+2)*time.Second)
		l.Target = claiming + "." + Namespace + ".svc.cluster.local:8000"
		if err := s.Env.StartLoad(ctx, l); err != nil {
			return err
		}
		got, err := s.Env.FinishLoad(ctx, l)
		if err != nil {
			return err
		}
		return errors.Join(s.judge("claimed_pod_rpcs_failed", got), s.metadata(ctx), s.givenBack(ctx))
	})
}

// metadata: the file that the driver's claim has in a container tells the device that the network took.
func (s *Suite) metadata(ctx context.Context) error {
	pod, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "bobtail.dev/service="+claiming, "-o",
		`jsonpath={.items[0].metadata.uid} {.items[0].metadata.annotations.k8s\.v1\.cni\.cncf\.io/network-status}`)
	if err != nil {
		return err
	}
	uid, status, _ := strings.Cut(pod, " ")
	pids := append(harness.PodProcesses(uid, "bobtail-router"), harness.PodProcesses(uid, "bobtail-serve")...)
	if len(pids) == 0 {
		return errors.New("the first pod of the service runs neither program")
	}
	// Not by /var/run: in a container it is a link to /run, which would be followed to this machine's own.
	text, err := s.Env.Run(ctx, "", "sh", "-c", fmt.Sprintf("cat /proc/%d/root/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/device/line/*-metadata.json", pids[0]))
	if err != nil {
		return err
	}
	for _, id := range goods {
		if strings.Contains(status, id) && strings.Contains(text, `"`+id+`"`) {
			return nil
		}
	}
	return fmt.Errorf("network-status says %s and the metadata %s", status, text)
}

// givenBack: nothing of the claims is left when the service is gone.
func (s *Suite) givenBack(ctx context.Context) error {
	if err := s.clear(ctx); err != nil {
		return err
	}
	return harness.Until(ctx, time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		claims, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "resourceclaims", "-o", "name")
		files, failed := s.Env.Cluster(ctx, "exec-node", node, "--", "sh", "-c", "ls /var/run/cdi; ls /var/lib/kubelet/plugins/"+driver+"/dra-device-metadata 2>/dev/null; true")
		left := strings.TrimSpace(claims + files)
		return left == "", "left over: " + left, errors.Join(err, failed)
	})
}
