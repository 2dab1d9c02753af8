// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"hash/maphash"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// A client of the published implementation counts its requests from 1 in each
// of its lives (R-11 is ours), so after a restart on the same port it meets
// names that are known to be done. It repeats no request: what comes under
// such a name is the network's copy when it is the same, and a request of its
// next life when it differs.

var contentSeed = maphash.MakeSeed()

// contentOf tells first packets of one name apart. Never 0.
func contentOf(h *wire.Header) uint64 {
	var sum maphash.Hash
	sum.SetSeed(contentSeed)
	sum.Write([]byte{byte(h.Count >> 8), byte(h.Count), byte(h.Policy)})
	sum.Write(h.Payload)
	return sum.Sum64() | 1
}

// ofNextLife says whether a request under a name that is done is one of its
// client's next life, which is to run.
func (w *worker) ofNextLife(key pairKey, h *wire.Header) bool {
	d, ok := w.done[key]
	next := ok && !h.Ext && d.content != 0 && d.content != contentOf(h)
	if next {
		delete(w.done, key)
	}
	return next
}
