// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"sync/atomic"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// Counter is one figure of a client or server, by reason where there is one.
type Counter struct {
	Name  string // such as "server_rejected_total"
	Label string // "reason", "case", or empty
	Value string // of the label
	Count uint64
}

// cases counts rejected packets by M-case.
type cases [wire.Cases]atomic.Uint64

func (c *cases) add(m wire.Case) { c[m].Add(1) }

func (c *cases) append(out []Counter, name string) []Counter {
	for m := wire.M1; m < wire.Cases; m++ {
		out = append(out, Counter{name, "case", m.String(), c[m].Load()})
	}
	return out
}
