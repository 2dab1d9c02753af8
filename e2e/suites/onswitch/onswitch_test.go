// SPDX-License-Identifier: Apache-2.0

//go:build linux

package onswitch

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/switchpeer/pipe"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

const root = "../../.."

// What is put into ConfigMaps is a pipeline that the switch of the suite runs, and the
// manifest names its digests.
func TestProgram(t *testing.T) {
	for _, at := range []site{router, generator, balancer, gatherer, doorkeeper} {
		t.Run(at.name, func(t *testing.T) { testProgram(t, at) })
	}
}

func testProgram(t *testing.T, at site) {
	folder := t.TempDir()
	if err := at.compile(root, folder); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(at.p4InfoOf(folder))
	if err != nil {
		t.Fatal(err)
	}
	info := &p4config.P4Info{}
	if err := prototext.Unmarshal(text, info); err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(at.binaryOf(folder))
	if err != nil {
		t.Fatal(err)
	}
	p := pipe.New()
	defer p.Close()
	if err := p.Load(&p4.ForwardingPipelineConfig{P4Info: info, P4DeviceConfig: binary}); err != nil {
		t.Errorf("the switch does not run it: %v", err)
	}
	written, err := at.manifest(folder)
	if err != nil {
		t.Fatal(err)
	}
	var psw v1alpha1.ProgrammableSwitch
	if err := yaml.UnmarshalStrict([]byte(written), &psw); err != nil {
		t.Fatalf("%v\n%s", err, written)
	}
	spec := psw.Spec
	if digest, err := digestOf(at.binaryOf(folder)); err != nil || spec.Pipeline.DeviceConfig[0].SHA256 != digest || len(spec.Ports) != len(nodes) || len(spec.NextHops) != len(nodes) {
		t.Errorf("%v: %+v", err, spec)
	}
}

// judgeGroups: each group names its switch, and clients of the box ask that switch.
func judgeGroups(t *testing.T, s *Suite) {
	t.Helper()
	var aggregated, boxed v1alpha1.ReplicationGroup
	if err := yaml.UnmarshalStrict([]byte(s.manifestOf(ledger())), &aggregated); err != nil || aggregated.Spec.Aggregator == nil || aggregated.Spec.Aggregator.Switch.Name != gatherer.name {
		t.Errorf("%+v: %v", aggregated, err)
	}
	if err := yaml.UnmarshalStrict([]byte(s.manifestOf(counter())), &boxed); err != nil || boxed.Spec.Box == nil || boxed.Spec.Box.Switch.Name != doorkeeper.name {
		t.Fatalf("%+v: %v", boxed, err)
	}
	if at := s.clientsOf(counter()).Target; at != boxed.Spec.Box.Switch.Address+":8000" {
		t.Errorf("clients ask %s, and the box is at %s", at, boxed.Spec.Box.Switch.Address)
	}
}

// The manifests are of the API as it stands, and every part that has a goal is played.
func TestManifestsAndParts(t *testing.T) {
	s := &Suite{Env: &harness.Env{Version: "0.2.0"}}
	var service v1alpha1.RpcService
	if err := yaml.UnmarshalStrict([]byte(s.manifest(slow, 1, 8, slowSleeps)), &service); err != nil || service.Name != slow {
		t.Errorf("%+v: %v", service.ObjectMeta, err)
	}
	for _, patch := range []string{onSwitch(front(1)), inSoftware} {
		if err := yaml.UnmarshalStrict([]byte(patch), &service); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
	}
	judgeGroups(t, s)
	var slo v1alpha1.ServiceLevelObjective
	if err := yaml.UnmarshalStrict(fmt.Appendf(nil, objectiveManifest, slow, Namespace), &slo); err != nil || slo.Spec.TargetRef.Name != slow {
		t.Errorf("%+v: %v", slo, err)
	}
	text, err := os.ReadFile(filepath.Join(root, "measure", "goals", "e2e-switch.json"))
	if err != nil {
		t.Fatal(err)
	}
	var goals []struct{ Name, Part string }
	if err := json.Unmarshal(text, &goals); err != nil {
		t.Fatal(err)
	}
	for _, g := range goals {
		if g.Part != "" && !slices.ContainsFunc(parts, func(p part) bool { return p.name == g.Part }) {
			t.Errorf("%s is of part %q, which is not played", g.Name, g.Part)
		}
	}
	if err := (&Suite{Only: []string{"kill", "nothing"}}).Judge(); err == nil {
		t.Error("a part that there is not is played")
	}
	if (&Suite{Only: []string{"aggregator", "kill"}}).apart() || !(&Suite{Only: []string{"aggregator"}}).apart() {
		t.Error("it is not told apart which parts need the service on the switch")
	}
	if !bySwitch([]string{front(3)}) || bySwitch([]string{front(3), "10.244.0.3"}) || !byRouters([]string{"10.244.0.3", "10.244.1.4"}) || byRouters([]string{"10.244.0.3", front(1)}) {
		t.Error("it is not told apart who clients are given")
	}
}
