// SPDX-License-Identifier: Apache-2.0

package sriovpod

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// machine is the emulated machine's name as a node, the second one.
const (
	machine = "b"
	node    = "node-" + machine
)

// hugepages of the machine, for 40 in each pod.
const hugepages = 192

// functions are the PCI addresses of the first n virtual functions of QEMU's igb card in its
// first slot. Their network takes as many as there are pods, so none is spare.
func functions(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("0000:01:1%d.%d", 2*i/8, 2*i%8))
	}
	return out
}

// join starts the machine. It has as many CPUs as the service's pods pin, and one more.
func (s *Suite) join(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("an emulated machine with %d CPUs and a card of %d virtual functions joins the cluster", s.pods()+1, s.pods()), Cost: "2 s; it goes on beside what follows",
		Cause: "QEMU and its kernel could not be loaded: run e2e/sriov/fetch"}, func(ctx context.Context) error {
		args := slices.Concat([]string{"join"}, s.images(), []string{"--", filepath.Join(s.Env.Root, "e2e", "sriov", "node.py"),
			fmt.Sprintf("--cpus=%d", s.pods()+1), fmt.Sprintf("--functions=%d", s.pods()), fmt.Sprintf("--hugepages=%d", hugepages)})
		_, err := s.Env.Cluster(ctx, args...)
		return err
	})
}

// ready waits for the machine's kubelet, but not for a machine that has given up.
func (s *Suite) ready(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the emulated machine is a Ready node", Cost: "60 s",
		Cause: "it says what it does: bobtail-cluster logs machine-" + machine}, func(ctx context.Context) error {
		var over error
		err := harness.Until(ctx, 10*time.Minute, 2*time.Second, func(ctx context.Context) (bool, string, error) {
			console, err := s.Env.Cluster(ctx, "logs", "machine-"+machine)
			if over = gaveUp(console); err != nil || over != nil {
				return over != nil, "", err
			}
			got, err := s.Env.Kubectl(ctx, "get", "node", node, "--ignore-not-found", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
			return got == "True", "node " + node + " is Ready: " + got, err
		})
		return errors.Join(err, over)
	})
}

// gaveUp is what a machine said when it ended itself.
func gaveUp(console string) error {
	for line := range strings.Lines(console) {
		if why, ok := strings.CutPrefix(line, "FAILED "); ok {
			return errors.New("the machine ended: " + strings.TrimSpace(why))
		}
	}
	return nil
}

// onMachine runs a line of shell there.
func (s *Suite) onMachine(ctx context.Context, line string) (string, error) {
	return s.Env.Cluster(ctx, "exec-node", machine, "--", "sh", "-c", line)
}

// plugin runs the embedded cluster's own program, which is the sandbox image, as a device
// plugin: to the kubelet a real one.
const plugin = `apiVersion: v1
kind: Pod
metadata: {name: device-plugin, namespace: kube-system, labels: {app: device-plugin}}
spec:
  nodeName: ` + node + `
  tolerations: [{operator: Exists}]
  terminationGracePeriodSeconds: 1
  containers:
  - name: plugin
    image: %s
    command: [/bobtail-cluster, internal-device-plugin, ` + resource + `, %s]
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: kubelet, mountPath: /var/lib/kubelet/device-plugins}]
  volumes: [{name: kubelet, hostPath: {path: /var/lib/kubelet/device-plugins, type: Directory}}]
`

func (s *Suite) startPlugin(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("a device plugin offers %d virtual functions on it", s.pods()), Cost: "10 s",
		Cause: "kubectl -n kube-system logs device-plugin"}, func(ctx context.Context) error {
		image, err := s.Env.Cluster(ctx, "sandbox-image")
		if err != nil {
			return err
		}
		quoted := `"` + strings.Join(functions(s.pods()), `", "`) + `"`
		if err := s.Env.Apply(ctx, fmt.Sprintf(plugin, strings.TrimSpace(image), quoted)); err != nil {
			return err
		}
		want := fmt.Sprint(s.pods())
		return harness.Until(ctx, 2*time.Minute, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
			out, err := s.Env.Kubectl(ctx, "get", "node", node, "-o", `jsonpath={.status.allocatable.example\.com/functions}`)
			return out == want, "the node offers " + out + " of " + resource, err
		})
	})
}

// leftovers on the machine: notes of the plugin, functions that a program still drives or that
// left vfio-pci, hugepages that are not free.
var leftovers = fmt.Sprintf(`ls /var/lib/cni/bobtail-networks/*.json 2>/dev/null
for p in /proc/[0-9]*; do ls -l $p/fd 2>/dev/null | grep -o '/dev/vfio/[0-9]*'; done
for f in /sys/class/net/pf0/device/virtfn*; do [ "$(basename "$(readlink $f/driver)")" = vfio-pci ] || echo "$f"; done
[ "$(cat /sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages)" = %d ] || grep HugePages_Free /proc/meminfo
true`, hugepages)

// remove: the service and the chart go, and nothing of the functions stays.
func (s *Suite) remove(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the service and the chart are removed", Cost: "40 s",
		Cause: "something is held by a pod that does not end: kubectl get pods -A"}, func(ctx context.Context) error {
		if err := s.Env.RemoveService(ctx, Namespace, Service); err != nil {
			return err
		}
		if _, err := s.Env.Kubectl(ctx, "delete", "namespace", Namespace, "--timeout=120s"); err != nil {
			return err
		}
		if err := s.disturb(ctx); err != nil {
			return err
		}
		if err := s.Env.Uninstall(ctx); err != nil {
			return err
		}
		left := ""
		err := harness.Until(ctx, time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
			var err error
			left, err = s.onMachine(ctx, leftovers)
			held, failed := s.Env.HeldAddresses(ctx)
			left += held
			return strings.TrimSpace(left) == "", "left over: " + left, errors.Join(err, failed)
		})
		s.Got.Set("devices_leftover", len(strings.Fields(left)))
		_, gone := s.Env.Kubectl(ctx, "-n", "kube-system", "delete", "pod", "device-plugin", "--wait=true", "--timeout=60s")
		return errors.Join(err, gone)
	})
}
