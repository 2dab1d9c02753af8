// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objects are the items of any list.
func objects(t *testing.T, list client.ObjectList) []client.Object {
	t.Helper()
	items, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	var out []client.Object
	for _, item := range items {
		o, ok := item.(client.Object)
		if !ok {
			t.Fatalf("%T is no object", item)
		}
		out = append(out, o)
	}
	return out
}
