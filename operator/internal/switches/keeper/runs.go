// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"fmt"

	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// plannedRuns keeps the entries of a run: they are some 65,000, and the same every time that the switch is read back.
type plannedRuns struct {
	asked string
	plan  switches.RunPlan
}

func (p *plannedRuns) of(d Desired) switches.RunPlan {
	asked := fmt.Sprintf("%p %+v", d.Pipeline.Info, d.Runs)
	if asked != p.asked {
		p.asked, p.plan = asked, d.Pipeline.Info.PlanRuns(d.Runs)
	}
	return p.plan
}
