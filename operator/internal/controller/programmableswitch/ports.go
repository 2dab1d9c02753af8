// SPDX-License-Identifier: Apache-2.0

// Which numbers of ports an architecture has for stations. Pure.
package programmableswitch

import (
	"fmt"
	"slices"

	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// The architectures of P4Info.
const (
	archTofino = "tna"
	archBMv2   = "v1model"
)

// Ports of bmv2 that are none: what is sent to one is dropped, and the other is the loop
// that dataplane/p4 is compiled with.
const (
	bmv2Loop = 510
	bmv2Drop = 511
)

// A Tofino numbers its ports by pipe. From the 68th on they recirculate and generate.
const (
	pipePorts  = 128
	pipeInside = 68
)

// countsByPipe are the programs whose registers have to see all that is theirs.
var countsByPipe = []switches.Program{switches.ProgramRouter, switches.ProgramAggregator, switches.ProgramBox}

// wrongPort says what is wrong with a port, by its place in the specification; "" of all
// that can be used. A frame for everybody that went to the loop would come again as a
// request that waits.
func wrongPort(ports []int32, info *switches.Info) string {
	arch := info.P4.GetPkgInfo().GetArch()
	keepsState := slices.Contains(countsByPipe, info.Program())
	for n, p := range ports {
		switch {
		case arch == archBMv2 && p == bmv2Drop:
			return fmt.Sprintf("`spec.ports[%d]`: %d is where bmv2 drops: name ports that stations are behind", n, p)
		case arch == archBMv2 && p == bmv2Loop:
			return fmt.Sprintf("`spec.ports[%d]`: %d is the program's loop: name ports that stations are behind", n, p)
		case arch == archTofino && p%pipePorts >= pipeInside:
			return fmt.Sprintf("`spec.ports[%d]`: %d is no port of a Tofino's front: from the %dth of each %d on they recirculate", n, p, pipeInside, pipePorts)
		case arch == archTofino && keepsState && p/pipePorts != ports[0]/pipePorts:
			return fmt.Sprintf("`spec.ports[%d]`: %d is of pipe %d and %d of pipe %d: what the program counts is a pipe's own, so name ports of one", n, p, p/pipePorts, ports[0], ports[0]/pipePorts)
		}
	}
	return ""
}
