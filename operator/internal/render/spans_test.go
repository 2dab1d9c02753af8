// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// every sidecar is told where spans go, and none where nothing was said.
func TestSidecarsSendSpansWhereTheyAreTold(t *testing.T) {
	in := load(t, "testdata/full.in.yaml")
	for _, endpoint := range []string{"", "http://collector:4318"} {
		in.OTLPEndpoint = endpoint
		sidecars := 0
		for _, o := range Objects(in) {
			d, ok := o.(*appsv1.Deployment)
			if !ok {
				continue
			}
			for _, c := range d.Spec.Template.Spec.InitContainers {
				sidecars++
				if told := slices.Contains(c.Args, "--otlp-endpoint="+endpoint); told != (endpoint != "") {
					t.Errorf("%s of %s, endpoint %q: %v", c.Name, d.Name, endpoint, c.Args)
				}
			}
		}
		if sidecars < 2 {
			t.Errorf("%d sidecars", sidecars)
		}
	}
}
