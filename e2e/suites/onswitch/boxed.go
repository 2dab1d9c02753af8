// SPDX-License-Identifier: Apache-2.0

//go:build linux

package onswitch

import "context"

// counter is the group whose flow-control box is a switch.
func counter() written {
	const address = "192.0.2.65"
	return written{name: "counter", protocol: "HovercRaft", component: "box", at: doorkeeper, address: address, control: "admit",
		figure: "switch_box_writes", target: address + ":8000", who: "clients"}
}

// boxed: a HovercRaft group whose clients ask a switch. It counts what is in the group, and sends each request to every
// member.
func (s *Suite) boxed(ctx context.Context) error { return s.playWritten(ctx, counter()) }
