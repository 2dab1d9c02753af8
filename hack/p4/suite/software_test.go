// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// the switch and the router in software agree on what becomes of a packet.
func TestBeside(t *testing.T) {
	if _, err := os.Stat(simulator); err != nil {
		privileged.Lacking(t, "no "+simulator)
	}
	lines, err := exec.Command(simulator, "switch", "--program=software", "--events=6000").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, shell := range shellNames {
		r, err := PlayBeside(bytes.NewReader(lines), load(t, shell), 20)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range r.First {
			t.Errorf("%s: %s", shell, d)
		}
		if r.Odd != 0 || r.AboveN != 0 || r.Events < 5000 {
			t.Errorf("%s: %d odd accesses, %d above n, %d events", shell, r.Odd, r.AboveN, r.Events)
		}
	}
}

// A line that is none is refused with its number.
func TestBesideLines(t *testing.T) {
	p := load(t, "v1model")
	for _, text := range []string{"O 1 1", "E 1 1 1 1", "E 1 1 1 1 x", "E 1 1 1 1 9\nW 1", "E 1 1 1 1 9\nN 1 7 1 1 1", "E 1 1 1 1 9\nX 1 0 zz M-1",
		"E 1 1 1 1 9\nQ 1 1 whole 0 1 1 cc F", "E 1 1 1 1 9\nQ 1 1 whole 0 1 1 cc G 1 2 3", "E 0 1 1 1 9", ""} {
		if _, err := PlayBeside(bytes.NewReader([]byte(text+"\n")), p, 1); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
