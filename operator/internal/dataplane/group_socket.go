// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"encoding/json"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
)

// Group asks a member what it knows of its group.
func (s *Socket) Group(ctx context.Context) (*GroupState, error) {
	return call[GroupState](ctx, s, ctl.Request{V: ctl.Version, Op: OpGroup})
}

// Change hands a command to a member.
func (s *Socket) Change(ctx context.Context, c GroupChange) (*GroupChanged, error) {
	c.V = ctl.Version
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return exchange[GroupChanged](ctx, s, text, nil)
}
