// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A target is meant by its kind and its name; no kind means a service.
func TestTargetsByName(t *testing.T) {
	for _, c := range []struct {
		of         TargetReference
		kind, name string
		want       bool
	}{
		{TargetReference{Name: "a"}, TargetService, "a", true}, {TargetReference{Name: "a"}, TargetService, "b", false}, {TargetReference{Name: "a"}, TargetGroup, "a", false},
		{TargetReference{Kind: TargetGroup, Name: "a"}, TargetGroup, "a", true}, {TargetReference{Kind: TargetGroup, Name: "a"}, TargetService, "a", false},
		{TargetReference{Kind: TargetService, Name: "a"}, TargetService, "a", true}, {TargetReference{Kind: TargetGroup, Name: "a"}, TargetGroup, "b", false},
	} {
		if got := c.of.Names(c.kind, c.name); got != c.want {
			t.Errorf("%+v is %s %s: %v", c.of, c.kind, c.name, got)
		}
	}
}

// Lanes are as many as the service asks for, or as many more as its cores need: sixteen share one.
func TestLanes(t *testing.T) {
	for _, c := range []struct {
		workers, cores int32
		mode           SchedulingMode
		want           int32
	}{
		{4, 0, "", 4}, {4, 7, ModeRunToCompletion, 7}, {1, 1, ModeWorkStealing, 1}, {1, 16, ModeWorkStealing, 1}, {1, 17, ModeWorkStealing, 2}, {1, 33, ModeWorkStealing, 3}, {4, 33, ModeWorkStealing, 4},
	} {
		s := RpcServiceSpec{WorkersPerReplica: c.workers}
		if c.cores > 0 {
			s.Scheduling = &RpcServiceScheduling{Mode: c.mode, MaxCores: c.cores}
		}
		if got := s.Lanes(); got != c.want {
			t.Errorf("%+v: %d lanes", c, got)
		}
	}
	two := int32(2)
	if got, all := (&RpcServiceScheduling{MaxCores: 5, MinCores: &two}).Least(), (&RpcServiceScheduling{MaxCores: 5}).Least(); got != 2 || all != 5 {
		t.Errorf("at least %d, and %d where nothing is said", got, all)
	}
}

// Whatever stands in a table is found in it, and nothing else; people are told of all of it.
func TestTablesOfWords(t *testing.T) {
	for _, row := range ExperimentProtocols {
		if got := row.Protocol.Word(); got == "" || got != row.Word {
			t.Errorf("%s: %q", row.Protocol, got)
		}
	}
	if got := ExperimentProtocol("none").Word(); got != "" {
		t.Errorf("%q", got)
	}
	for _, row := range RouterPolicies {
		if got, there := row.Policy.Traits(); !there || got != row {
			t.Errorf("%s: %+v, %v", row.Policy, got, there)
		}
	}
	if got, there := RouterPolicy("none").Traits(); there || got != (RouterPolicyTraits{}) {
		t.Errorf("%+v", got)
	}
	if got := RouterPolicyNames(); got != "JBSQ, JSQ, PowerOfTwo, RoundRobin or Random" {
		t.Error(got)
	}
}

// A container of a template is found by its name, also behind others; of no template there is none.
func TestContainersOfATemplate(t *testing.T) {
	var none *PodTemplate
	some := &PodTemplate{}
	some.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b"}}
	if none.Container("a") != nil || some.Container("c") != nil || some.Container("b") != &some.Spec.Containers[1] {
		t.Error("another container is found, or none")
	}
	type word string
	if Plain[word](nil) != nil || !maps.Equal(Plain(map[string]word{"a": "b"}), map[string]string{"a": "b"}) {
		t.Error("a map of words has lost some")
	}
}

// A report is of an agent of CRAB unless only the host's agent ever wrote it.
func TestWhoWritesOfANode(t *testing.T) {
	for _, c := range []struct {
		host    *NodeHost
		version string
		want    bool
	}{{nil, "", true}, {nil, "1.0.0", true}, {&NodeHost{}, "", false}, {&NodeHost{}, "1.0.0", true}} {
		n := &NodeDataplane{}
		n.Status.Host, n.Status.AgentVersion = c.host, c.version
		if got := n.RunsCRAB(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A service falls back in the order given, behind its own device, whose list stays as it is.
func TestDevicesInOrder(t *testing.T) {
	d := &RpcServiceDevice{Device: Device{Type: DeviceSRIOV}, Fallback: []Device{{Type: DeviceAFXDP}, {Type: DeviceKernel}}}
	all := d.Entries()
	if len(all) != 3 || all[0].Type != DeviceSRIOV || all[1].Type != DeviceAFXDP || all[2].Type != DeviceKernel || len(d.Fallback) != 2 {
		t.Errorf("%+v", all)
	}
}
