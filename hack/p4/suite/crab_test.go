// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

func loadProgram(t *testing.T, name, shell string) *model.Program {
	t.Helper()
	p, err := model.Load("../../../dataplane/p4/"+name+"/"+shell+".p4", nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// C-20 to C-28, C-41, W-1: what the switch does with a SYN is what the software does with it, bytes and verdicts.
func TestCrab(t *testing.T) {
	if _, err := os.Stat(simulator); err != nil {
		privileged.Lacking(t, "no "+simulator)
	}
	lines, err := exec.Command(simulator, "switch", "--program=crab", "--events=6000").Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := PlayCrab(bytes.NewReader(lines), loadProgram(t, "crab", "v1model"), loadProgram(t, "crab", "tna"), 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.First {
		t.Error(d)
	}
	if r.Odd != 0 {
		t.Errorf("%d odd accesses", r.Odd)
	}
	t.Logf("%d segments, %d with options that are not read", r.Segments, r.Unread)
}
