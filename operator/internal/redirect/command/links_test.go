// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/desired"
)

type countingPlane struct {
	redirect.Plane
	counted map[string]uint64
}

func (p countingPlane) Count(reason string, by uint64) error {
	p.counted[reason] += by
	return nil
}

// K-6: what becomes of the file's devices is said and counted once, whatever it is.
func TestDevicesThatComeAndGo(t *testing.T) {
	var out strings.Builder
	p := countingPlane{counted: map[string]uint64{}}
	h := &host{config: Config{Devices: []Device{{Name: "eth0"}}}, plane: p, links: map[string]int{}, out: &out}
	const gone, again = "device eth0 is gone\n", "device eth0 is there again: attached\n"
	for _, step := range []struct {
		what  string
		index int // 0: it is not there
		lost  bool
		fails bool
		says  string
	}{
		{"at first", 3, false, false, ""},
		{"as before", 3, false, false, ""},
		{"deleted", 0, false, false, gone},
		{"still", 0, false, false, ""},
		{"made anew, and refused", 4, false, true, ""},
		{"made anew", 4, false, false, again},
		{"replaced", 5, false, false, gone + again},
		{"made anew with the same index", 5, true, false, gone + again},
		{"as before", 5, false, false, ""},
		{"replaced, and refused", 6, false, true, gone},
		{"taken at last", 6, false, false, again},
	} {
		r := desired.Result{Devices: map[string]error{}, Lost: map[int]bool{step.index: step.lost}}
		if step.fails {
			r.Devices["eth0"] = errors.New("refused")
		}
		var found []desired.Device
		if step.index != 0 {
			found = []desired.Device{{Name: "eth0", Index: step.index}}
		}
		out.Reset()
		if err := h.follows(found, r); err != nil || out.String() != step.says {
			t.Errorf("%s: said %q, want %q, %v", step.what, out.String(), step.says, err)
		}
	}
	if p.counted["device_gone"] != 4 || p.counted["device_attached_again"] != 4 {
		t.Errorf("counted %v, want 4 of each", p.counted)
	}
	former := Config{Devices: []Device{{Name: "eth0"}, {Name: "gone0"}}}
	for name, refused := range map[string]bool{"lo": false, "gone0": false, "none0": true} {
		c := Config{Devices: []Device{{Name: "eth0"}, {Name: name}}}
		if err := c.newDevices(former); (err != nil) != refused || refused && !strings.Contains(err.Error(), "device none0") {
			t.Errorf("a file that names %s as well: %v", name, err)
		}
	}
	h.config.Devices = nil
	if err := h.follows(nil, desired.Result{}); err != nil || len(h.links) != 0 {
		t.Errorf("a device that left the file is followed: %v, %v", h.links, err)
	}
}
