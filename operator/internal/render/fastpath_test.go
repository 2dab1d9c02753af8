// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// A service's own word counts, whatever the cluster chose; the cluster's where
// there is none and the specification leaves the program something to do.
func TestWhoAsksForTheFastPath(t *testing.T) {
	const none, service, cluster = "", v1alpha1.FastPathByService, v1alpha1.FastPathByCluster
	for _, c := range []struct {
		name      string
		change    func(*v1alpha1.RpcServiceSpec)
		off, auto v1alpha1.FastPathChooser // by the cluster's choice
	}{
		{"left out", func(*v1alpha1.RpcServiceSpec) {}, none, cluster},
		{"Off", func(s *v1alpha1.RpcServiceSpec) { s.Router.FastPath = v1alpha1.FastPathOff }, none, none},
		{"Auto", func(s *v1alpha1.RpcServiceSpec) { s.Router.FastPath = v1alpha1.FastPathAuto }, service, service},
		{"no router", func(s *v1alpha1.RpcServiceSpec) { s.Router.Placement = v1alpha1.PlacementNone }, none, none},
		{"encapsulated", func(s *v1alpha1.RpcServiceSpec) { s.Router.Forwarding = v1alpha1.ForwardingEncapsulated }, none, cluster},
		{"transparent", func(s *v1alpha1.RpcServiceSpec) { s.Router.Forwarding = v1alpha1.ForwardingTransparent }, none, none},
		{"another policy", func(s *v1alpha1.RpcServiceSpec) { s.Router.Policy = v1alpha1.PolicyJSQ }, none, none},
		{"hold-back", func(s *v1alpha1.RpcServiceSpec) { s.Router.HoldBack = &v1alpha1.RouterHoldBack{} }, none, none},
		{"hedging", func(s *v1alpha1.RpcServiceSpec) {
			s.Hedging = &v1alpha1.RpcServiceHedging{Mode: v1alpha1.HedgingProbe}
		}, none, none},
		{"hedging off", func(s *v1alpha1.RpcServiceSpec) {
			s.Hedging = &v1alpha1.RpcServiceHedging{Mode: v1alpha1.HedgingOff}
		}, none, cluster},
	} {
		s := load(t, "testdata/fastpath.in.yaml").Service
		s.Spec.Router.FastPath = ""
		c.change(&s.Spec)
		for choice, want := range map[v1alpha1.FastPathMode]v1alpha1.FastPathChooser{v1alpha1.FastPathOff: c.off, "": c.off, v1alpha1.FastPathAuto: c.auto} {
			if got := FastPath(s, choice); got != want {
				t.Errorf("%s, the cluster chose %q: asked for by %q, want %q", c.name, choice, got, want)
			}
		}
	}
}

// The router of a service that says Off and that of one that leaves the field out
// in a cluster that chose Off are the same to the byte. testdata/minimal.out.yaml
// is older than the field, so an upgrade of the operator replaces none of them.
func TestOffIsWhatWasThereBefore(t *testing.T) {
	absent := load(t, "testdata/minimal.in.yaml")
	if absent.Service.Spec.Router.FastPath != "" {
		t.Fatal("testdata/minimal.in.yaml names the field")
	}
	off := absent
	off.Service = absent.Service.DeepCopy()
	off.Service.Spec.Router.FastPath = v1alpha1.FastPathOff
	off.FastPath = FastPath(off.Service, v1alpha1.FastPathAuto) != ""
	if a, b := text(t, absent), text(t, off); !bytes.Equal(a, b) {
		t.Error(firstDifference(a, b))
	}
	chosen := absent
	chosen.FastPath = FastPath(absent.Service, v1alpha1.FastPathAuto) != ""
	if bytes.Equal(text(t, absent), text(t, chosen)) {
		t.Error("the cluster's choice changes nothing")
	}
}

// What is read off a Deployment is what was written into it.
func TestHasFastPath(t *testing.T) {
	for file, want := range map[string]bool{"fastpath": true, "minimal": false, "transparent": false} {
		in := load(t, "testdata/"+file+".in.yaml")
		if got := HasFastPath(routerDeployment(in)); got != want {
			t.Errorf("%s: %v, want %v", file, got, want)
		}
		if HasFastPath(serverDeployment(in)) {
			t.Errorf("%s: the servers have it", file)
		}
	}
}
