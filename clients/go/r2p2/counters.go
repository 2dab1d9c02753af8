// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"errors"
	"sync/atomic"
	"syscall"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// Counter is one figure of a client or server, by reason where there is one.
type Counter struct {
	Name  string // such as "server_rejected_total"
	Label string // "reason", "case", or empty
	Value string // of the label
	Count uint64
}

// unsent counts packets the kernel refused to send, by reason.
type unsent struct {
	tooLong, other atomic.Uint64
}

func (u *unsent) add(err error) {
	if errors.Is(err, syscall.EMSGSIZE) {
		u.tooLong.Add(1) // larger than the path takes: MTU is set too high
	} else {
		u.other.Add(1)
	}
}

func (u *unsent) append(out []Counter) []Counter {
	return append(out,
		Counter{"io_tx_dropped_total", "reason", "too_long", u.tooLong.Load()},
		Counter{"io_tx_dropped_total", "reason", "error", u.other.Load()})
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
