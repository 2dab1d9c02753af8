// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet/agentlink/agenttest"
)

// L-2: an agent whose kernel refused to poll is not silent about it, in JSON nor on the table.
func TestRefusedBusyPollingIsTold(t *testing.T) {
	const said = "refused: Operation not permitted"
	for _, output := range []string{"json", "table"} {
		a := &agenttest.Agent{Mean: 100_000, BusyPoll: said}
		where := a.Start(t)
		_, out, problems := program("--target=h:1234", "--protocol=redis", "--rate=50000", "--width=200", "--output="+output, "--agent="+where)
		if output == "table" {
			contains(t, out, "kernel stamps, busy polling refused, 1 agent(s)", where+": warning: the kernel does not poll for its sockets: Operation not permitted")
		} else if d := decoded(t, out); len(d.BusyPoll) != 1 || d.BusyPoll[0] != said {
			t.Errorf("%q is told of the agents\n%s", strings.Join(d.BusyPoll, ", "), problems)
		}
	}
}
