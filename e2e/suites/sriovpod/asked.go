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

// podDevice is what the status says of the device that a pod got.
type podDevice struct {
	Pod, Driver, PCIAddress, MAC, CPUs string
	MTU, HugepagesMebibytes            int
}

// asAsked: every pod has a function of its own, whole CPUs and one capability, and the status says so.
func (s *Suite) asAsked(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the status says what each pod got, and that it is what was asked", Cost: "10 s",
		Cause: "kubectl -n " + Namespace + " get rpcsvc " + Service + " -o jsonpath={.status.podDevices}"}, func(ctx context.Context) error {
		if err := s.Env.WaitCondition(ctx, 4*time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "DeviceAsAsked=True"); err != nil {
			return err
		}
		var got struct {
			Status struct {
				Device     string
				PodDevices []podDevice
			}
		}
		if err := s.Env.Get(ctx, &got, "-n", Namespace, "rpcsvc", Service); err != nil {
			return err
		}
		for _, d := range got.Status.PodDevices {
			s.Steps.Say("     %+v", d)
		}
		err := s.judgeDevices(got.Status.PodDevices)
		if got.Status.Device != "SRIOV" {
			err = errors.Join(err, fmt.Errorf("status.device is %s", got.Status.Device))
		}
		return errors.Join(err, s.judgePods(ctx))
	})
}

// judgeDevices: no two pods have the same function, MAC or CPU.
func (s *Suite) judgeDevices(got []podDevice) (err error) {
	if len(got) != s.pods() {
		err = fmt.Errorf("the status tells of %d devices, want %d", len(got), s.pods())
	}
	offered := functions(s.pods())
	held := map[string]string{}
	for _, d := range got {
		if !slices.Contains(offered, d.PCIAddress) || !strings.Contains(d.Driver, "igb_vf") || d.HugepagesMebibytes == 0 {
			err = errors.Join(err, fmt.Errorf("%s: not a function of the card with hugepages: %+v", d.Pod, d))
		}
		for _, thing := range []string{d.PCIAddress, d.MAC, "CPUs " + d.CPUs} {
			if other, taken := held[thing]; taken {
				err = errors.Join(err, fmt.Errorf("%s and %s both have %s", d.Pod, other, thing))
			}
			held[thing] = d.Pod
		}
	}
	return err
}

// judgePods: they are Guaranteed, on the machine, and their programs have no capability but one.
func (s *Suite) judgePods(ctx context.Context) error {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct {
				NodeName   string
				Containers []struct {
					SecurityContext struct{ Capabilities struct{ Add, Drop []string } }
				}
			}
			Status struct{ QOSClass string }
		}
	}
	if err := s.Env.Get(ctx, &list, "-n", Namespace, "pods", "-l", "bobtail.dev/service="+Service); err != nil {
		return err
	}
	var err error
	for _, p := range list.Items {
		c := p.Spec.Containers[0].SecurityContext.Capabilities
		if p.Spec.NodeName != node || p.Status.QOSClass != "Guaranteed" || !slices.Equal(c.Add, []string{"IPC_LOCK"}) || !slices.Equal(c.Drop, []string{"ALL"}) {
			err = errors.Join(err, fmt.Errorf("pod %s: on %s, %s, capabilities %v", p.Metadata.Name, p.Spec.NodeName, p.Status.QOSClass, c))
		}
	}
	return err
}
