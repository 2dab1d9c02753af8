// SPDX-License-Identifier: Apache-2.0

package agentlink

import (
	"context"
	"time"
)

// beat gives signs of life while nothing else is asked: between two loads, or while
// another agent stores its keys. An agent ends its load when it hears nothing for
// the lease, for a coordinator that hangs or whose node is gone closes nothing.
func (l *Link) beat(life context.Context) {
	tick := time.NewTicker(l.lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		if !l.mutex.TryLock() {
			continue // a call is under way, and that is a sign of life
		}
		err := l.call(life, patience, map[string]any{"op": "alive"}, nil)
		l.mutex.Unlock()
		if err != nil {
			return // whoever calls next is told why
		}
	}
}
