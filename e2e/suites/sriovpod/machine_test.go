// SPDX-License-Identifier: Apache-2.0

package sriovpod

import "testing"

// A machine that ended is not waited for, and its reason is told.
func TestAMachineThatGaveUp(t *testing.T) {
	const goesOn = "node: 4 virtual CPUs\nSTAGE 10.51 init\r\nnot FAILED yet\n"
	if err := gaveUp(goesOn); err != nil {
		t.Errorf("a machine that goes on: %v", err)
	}
	err := gaveUp(goesOn + "FAILED mac of vf 0\r\n[   19.0] igb\n")
	if err == nil || err.Error() != "the machine ended: mac of vf 0" {
		t.Errorf("got %v", err)
	}
}
