// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package r2p2

import (
	"net"
	"testing"
)

// The zone of an address is the name of its interface, and its number once that is gone.
func TestZonesAreNamed(t *testing.T) {
	interfaces, err := net.Interfaces()
	if err != nil || len(interfaces) == 0 {
		t.Fatal(interfaces, err)
	}
	r, i := newReceiver(), interfaces[0]
	if got := r.zone(uint32(i.Index)); got != i.Name {
		t.Errorf("interface %d is %q, want %q", i.Index, got, i.Name)
	}
	if got := r.zone(1 << 30); got != "1073741824" {
		t.Errorf("an interface that is gone is %q", got)
	}
}
