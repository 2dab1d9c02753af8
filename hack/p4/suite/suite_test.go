// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

const (
	routerFolder = "../../../dataplane/p4/router/"
	vectorsJSON  = "../../../dataplane/tests/vectors/r2p2.json"
)

func load(t *testing.T, shell string) *model.Program {
	t.Helper()
	p, err := model.Load(routerFolder+shell+".p4", nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// R-54, W-13: what the vectors say of malformed packets, and that state stays as it was.
func TestVectors(t *testing.T) {
	for _, shell := range []string{"v1model", "tna"} {
		run, failed, err := Vectors(vectorsJSON, load(t, shell))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range failed {
			t.Errorf("%s: %s", shell, f)
		}
		t.Logf("%s: %d vectors", shell, run)
	}
}
