// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Addresses that no Service has keep none of the others from being counted, before the first look at them and after.
func TestAddressesOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{}
		w := begin(t, k)
		for i := range 50 {
			k.connected(vip(fmt.Sprintf("198.51.100.%d", i+1)), 7, time.Millisecond)
		}
		k.connected(four, 3, time.Millisecond)
		k.connected(other, 2, time.Millisecond)
		want(t, read(t, w, web, 30), 3, 3)
		want(t, read(t, w, shop, 30), 2, 2)
		k.connected(four, 1, time.Millisecond)
		want(t, read(t, w, web, 30), 4, 4)
	})
}
