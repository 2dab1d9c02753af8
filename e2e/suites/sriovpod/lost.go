// SPDX-License-Identifier: Apache-2.0

package sriovpod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// toKernel and toPrograms are lines of shell that move a function between its kernel driver and vfio-pci.
const (
	toKernel   = "f=%s; echo $f >/sys/bus/pci/drivers/vfio-pci/unbind; echo igbvf >/sys/bus/pci/devices/$f/driver_override; echo $f >/sys/bus/pci/drivers_probe; basename $(readlink /sys/bus/pci/devices/$f/driver)"
	toPrograms = "f=%s; echo $f >/sys/bus/pci/drivers/igbvf/unbind; echo vfio-pci >/sys/bus/pci/devices/$f/driver_override; echo $f >/sys/bus/pci/drivers_probe; basename $(readlink /sys/bus/pci/devices/$f/driver)"
)

// lost: the one function that is free goes to its kernel driver, and a server that gets it has no network. The
// service says so, and serves as soon as the function is back.
func (s *Suite) lost(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a function on its kernel driver: the pod that gets it is named, and serves when it is back", Cost: "120 s",
		Cause: "kubectl -n " + Namespace + " describe rpcsvc,pods"}, func(ctx context.Context) error {
		free, err := s.freeFunction(ctx)
		if err != nil {
			return err
		}
		if err := s.move(ctx, toKernel, free, "igbvf"); err != nil {
			return err
		}
		if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "scale", "rpcsvc", Service, "--replicas=2"); err != nil {
			return err
		}
		if err := s.addressed(ctx, "False", "NetworkNotMade"); err != nil {
			return err
		}
		if err := s.move(ctx, toPrograms, free, "vfio-pci"); err != nil {
			return err
		}
		return errors.Join(s.addressed(ctx, "True", "Addressed"),
			s.Env.WaitCondition(ctx, 4*time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "Ready=True"))
	})
}

// freeFunction is the one that no pod of the service drives.
func (s *Suite) freeFunction(ctx context.Context) (string, error) {
	var got struct {
		Status struct{ PodDevices []podDevice }
	}
	all := functions(s.pods())
	err := harness.Until(ctx, time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		err := s.Env.Get(ctx, &got, "-n", Namespace, "rpcsvc", Service)
		return len(got.Status.PodDevices) == len(all)-1, fmt.Sprintf("%d of %d functions are driven", len(got.Status.PodDevices), len(all)), err
	})
	if err != nil {
		return "", err
	}
	free := slices.DeleteFunc(all, func(f string) bool {
		return slices.ContainsFunc(got.Status.PodDevices, func(d podDevice) bool { return d.PCIAddress == f })
	})
	if len(free) != 1 {
		return "", fmt.Errorf("the functions that no pod drives are %v, want one", free)
	}
	return free[0], nil
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
