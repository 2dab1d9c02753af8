// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// W-1: both shells of the router are in the subset.
func TestShellsLoad(t *testing.T) {
	for _, shell := range []string{"v1model", "tna"} {
		p, err := model.Load("../../../dataplane/p4/router/"+shell+".p4", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(p.Describe())
	}
}
