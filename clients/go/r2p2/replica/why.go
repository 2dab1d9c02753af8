// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
)

// Reason is why a member refused a request.
type Reason uint8

// Reasons.
const (
	NotLeader Reason = 1
	TooLong   Reason = 2
	Busy      Reason = 3
	Forming   Reason = 4
	DiskFault Reason = 5
	Moving    Reason = 6
	Refused   Reason = 7
	Unordered Reason = 8
)

var reasons = [...]string{
	"no reason given", "not the leader", "request too long", "busy", "the group is not formed yet", "disk failed",
	"the leadership is being handed over", "not a member",
	"what is not ordered goes to a member, not to a box",
}

func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "unknown reason"
}

const whyBytes, whyVersion = 24, 1

// why reads what a member said behind DROP: its reason, and where the leader takes requests.
func why(err error) (r Reason, leader netip.AddrPort) {
	var d *r2p2.DroppedError
	if !errors.As(err, &d) || len(d.Why) < whyBytes || d.Why[0] != whyVersion {
		return 0, leader
	}
	if binary.BigEndian.Uint16(d.Why[2:]) != 0 {
		leader = netip.AddrPortFrom(netip.AddrFrom16([16]byte(d.Why[4:20])).Unmap(), binary.BigEndian.Uint16(d.Why[20:]))
	}
	return Reason(d.Why[1]), leader
}
