// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// withNodes turns on what tells of nodes, without CRAB.
const withNodes = "--set=nodes.enabled=true"

// loadAgent brings the image of what reads nodes there.
func (s *Suite) loadAgent(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "import the agent's image into the node", Cost: "3 s", Cause: "`make images` did not finish"},
		func(ctx context.Context) error {
			_, err := s.Env.Cluster(ctx, "load-image", filepath.Join(s.Env.Root, "build", "images", "agent.tar"))
			return err
		})
}

// host: the node's NodeDataplane says what the node has, though no agent of CRAB runs. The
// embedded node's uplink is a veth, whose driver has native XDP.
func (s *Suite) host(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the NodeDataplane tells what the node has, without CRAB", Cost: "5 s",
		Cause: "kubectl -n " + harness.SystemNamespace + " logs ds/bobtail-host"}, func(ctx context.Context) error {
		var got struct {
			Status struct {
				Host struct {
					NUMANodes int
					AFXDP     string
					Missing   []struct{ Subject, Message, Add string }
				}
			}
		}
		err := harness.Until(ctx, time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
			err := s.Env.Get(ctx, &got, "nodedataplanes", "node-"+node)
			return got.Status.Host.AFXDP != "", "status.host is empty", err
		})
		s.Steps.Say("     %+v", got.Status.Host)
		if h := got.Status.Host; err == nil && (h.AFXDP != "Native" || h.NUMANodes < 1) {
			err = fmt.Errorf("AF_XDP is %s and there are %d NUMA nodes; want Native, and one at least", h.AFXDP, h.NUMANodes)
		}
		for _, m := range got.Status.Host.Missing {
			if m.Subject == "Kubelet" {
				err = errors.Join(err, errors.New(m.Message))
			}
		}
		return err
	})
}
