// SPDX-License-Identifier: Apache-2.0

package sriovpod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// toKernel and toPrograms are lines of shell that move a function between its kernel driver and vfio-pci.
const (
	toKernel   = "f=%s; echo $f >/sys/bus/pci/drivers/vfio-pci/unbind; echo igbvf >/sys/bus/pci/devices/$f/driver_override; echo $f >/sys/bus/pci/drivers_probe; basename $(readlink /sys/bus/pci/devices/$f/driver)"
	toPrograms = "f=%s; echo $f >/sys/bus/pci/drivers/igbvf/unbind; echo vfio-pci >/sys/bus/pci/devices/$f/driver_override; echo $f >/sys/bus/pci/drivers_probe; basename $(readlink /sys/bus/pci/devices/$f/driver)"
)

// lost: the function of a running server goes to its kernel driver. The kernel waits until the server's program has given it
// back; its pod is evicted, and the one that comes has no network until the function is back. The service says all of it.
func (s *Suite) lost(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a function is taken from a running server: its pod is named and replaced, and the new one serves when the function is back", Cost: "180 s",
		Cause: "kubectl -n " + Namespace + " describe rpcsvc,pods"}, func(ctx context.Context) error {
		pod, function, err := s.driven(ctx)
		if err != nil {
			return err
		}
		if err := s.move(ctx, toKernel, function, "igbvf"); err != nil {
			return err
		}
		if err := errors.Join(s.evicted(ctx, pod, function), s.addressed(ctx, "False", "NetworkNotMade")); err != nil {
			return err
		}
		if err := s.move(ctx, toPrograms, function, "vfio-pci"); err != nil {
			return err
		}
		return errors.Join(s.addressed(ctx, "True", "Addressed"),
			s.Env.WaitCondition(ctx, 4*time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "Ready=True"))
	})
}

// driven is a server and its function, when no function is free.
func (s *Suite) driven(ctx context.Context) (pod, function string, err error) {
	var got struct {
		Status struct{ PodDevices []podDevice }
	}
	err = harness.Until(ctx, 4*time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		err := s.Env.Get(ctx, &got, "-n", Namespace, "rpcsvc", Service)
		return len(got.Status.PodDevices) == s.pods(), fmt.Sprintf("%d of %d functions are driven", len(got.Status.PodDevices), s.pods()), err
	})
	for _, d := range got.Status.PodDevices {
		if strings.HasPrefix(d.Pod, Service+"-server-") {
			pod, function = d.Pod, d.PCIAddress
		}
	}
	if err == nil && pod == "" {
		err = fmt.Errorf("none of %+v is a server", got.Status.PodDevices)
	}
	return pod, function, err
}

// evicted: the pod is gone, and an event says why.
func (s *Suite) evicted(ctx context.Context, pod, function string) error {
	return harness.Until(ctx, 3*time.Minute, 2*time.Second, func(ctx context.Context) (bool, string, error) {
		left, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pod", pod, "--ignore-not-found", "-o", "name")
		said, failed := s.Env.Kubectl(ctx, "-n", Namespace, "get", "events", "--field-selector=reason=DeviceLost", "-o", "jsonpath={.items[*].message}")
		told := strings.Contains(said, pod) && strings.Contains(said, "device "+function+" was taken away")
		return left == "" && told, fmt.Sprintf("pod %q is left, and the events are %q", left, said), errors.Join(err, failed)
	})
}

func (s *Suite) move(ctx context.Context, line, function, driver string) error {
	out, err := s.onMachine(ctx, fmt.Sprintf(line, function))
	if got := strings.TrimSpace(out); err == nil && got != driver {
		err = fmt.Errorf("function %s is on driver %q, want %s", function, got, driver)
	}
	return err
}

// addressed waits for the condition that tells of pods' networks.
func (s *Suite) addressed(ctx context.Context, status, reason string) error {
	return harness.Until(ctx, 4*time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		o, err := s.Env.Object(ctx, Namespace, "rpcservices.bobtail.dev", Service)
		c := o.Condition("Addressed")
		return c.Status == status && c.Reason == reason, fmt.Sprintf("Addressed=%s (%s: %s), want %s", c.Status, c.Reason, c.Message, reason), err
	})
}
