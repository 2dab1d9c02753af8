// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// I-6, W-1: what the switch says to a request is what the software's box as a switch says to it.
func TestBox(t *testing.T) {
	if _, err := os.Stat(simulator); err != nil {
		privileged.Lacking(t, "no "+simulator)
	}
	lines, err := exec.Command(simulator, "switch", "--program=box", "--events=6000").Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := PlayBox(bytes.NewReader(lines), loadProgram(t, "box", "v1model"), loadProgram(t, "box", "tna"), 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.First {
		t.Error(d)
	}
	if r.Odd != 0 || r.AboveLimit != 0 || r.Events < 5000 {
		t.Errorf("%d odd accesses, %d times above the limit, %d events", r.Odd, r.AboveLimit, r.Events)
	}
}

// R-54, W-13: what the vectors say of malformed packets is counted, and state stays as it was.
func TestBoxVectors(t *testing.T) {
	for _, shell := range shellNames {
		run, failed, err := BoxVectors(vectorsJSON, loadProgram(t, "box", shell))
		if err != nil || run < 100 {
			t.Fatal(run, err)
		}
		for _, f := range failed {
			t.Errorf("%s: %s", shell, f)
		}
	}
}

// Pairs have two places, and are known in either.
func TestBoxPlaces(t *testing.T) {
	for _, shell := range shellNames {
		failed, err := BoxPlaces(loadProgram(t, "box", shell))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range failed {
			t.Errorf("%s: %s", shell, f)
		}
	}
}

// The numbers of reasons are those of the program.
func TestBoxReasons(t *testing.T) {
	text, err := os.ReadFile("../../../dataplane/p4/box/headers.p4")
	if err != nil {
		t.Fatal(err)
	}
	for word, n := range bed.BoxReason {
		if !regexp.MustCompile(fmt.Sprintf(`const reason_t R_%s = %d;`, bytes.ToUpper([]byte(word)), n)).Match(text) {
			t.Errorf("R_%s is not %d", word, n)
		}
	}
}

// A line that is none is refused with its number.
func TestBoxLines(t *testing.T) {
	v1, tna := loadProgram(t, "box", "v1model"), loadProgram(t, "box", "tna")
	for _, text := range []string{"Q 1 2 3 4 passed", "E 0 2", "E 1", "E 1 2\nQ 1 2 3 4 passing", "E 1 2\nF 1 x 3 4 answered", "E 1 2\nT 4", "X"} {
		if _, err := PlayBox(bytes.NewReader([]byte(text)), v1, tna, 1); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
