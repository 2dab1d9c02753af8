// SPDX-License-Identifier: Apache-2.0

package redirect

import "testing"

// A role is written as what it adds up, in the order of the bits, and read back.
func TestRolesAsText(t *testing.T) {
	for want, r := range map[string]Role{
		"": 0, "Client": RoleClient, "Balance": RoleBalance, "StackFallback": RoleStackFallback, "TrustedTier": RoleTrustedTier,
		"Tunnel": RoleTunnel, "KeepClient": RoleKeepClient, "Client+Tunnel": RoleTunnel | RoleClient,
		"Client+Balance+StackFallback+TrustedTier+Tunnel+KeepClient": 1<<6 - 1,
	} {
		text, err := r.MarshalText()
		if err != nil || string(text) != want || r.String() != want {
			t.Errorf("%d is written %q and %q, %v; want %q", r, text, r, err, want)
		}
		var back Role
		if err := back.UnmarshalText([]byte(want)); want != "" && (err != nil || back != r) {
			t.Errorf("%q is read as %d, %v; want %d", want, back, err, r)
		}
	}
	var r Role
	if r.UnmarshalText([]byte("Client+Cook")) == nil {
		t.Error("a role that nobody knows is read")
	}
}
