// SPDX-License-Identifier: Apache-2.0

package programmableswitch

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
)

func routerInfo(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../switches/testdata/router.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// world is a switch with all that it names.
func world(t *testing.T, change func(*snapshot)) *snapshot {
	t.Helper()
	info, device := routerInfo(t), []byte{1, 2, 3}
	s := &snapshot{
		namespace: "bobtail-system",
		psw: &v1alpha1.ProgrammableSwitch{
			ObjectMeta: metav1.ObjectMeta{Name: "leaf", UID: "u", Generation: 3, CreationTimestamp: metav1.Unix(100, 0)},
			Spec: v1alpha1.ProgrammableSwitchSpec{
				Endpoint: "10.0.0.1:9559", DeviceID: 1, Transport: v1alpha1.TransportPlaintext,
				Pipeline: v1alpha1.SwitchPipeline{Mode: v1alpha1.PipelinePush,
					P4Info:       v1alpha1.SwitchPipelinePart{ConfigMapName: "router", Key: "p4info", SHA256: digest(info)},
					DeviceConfig: []v1alpha1.SwitchPipelinePart{{ConfigMapName: "router", Key: "bin", SHA256: digest(device)}}},
				Ports: []int32{1, 2}, NextHops: []v1alpha1.SwitchNextHop{{MACAddress: "02:00:00:00:00:0a", Port: 1}}, AddressPool: []string{"192.0.2.0/31"}, MACAddress: "02:00:00:00:00:ff",
			},
		},
		parts: map[v1alpha1.SwitchPipelinePart][]byte{},
	}
	s.parts[s.psw.Spec.Pipeline.P4Info], s.parts[s.psw.Spec.Pipeline.DeviceConfig[0]] = info, device
	if change != nil {
		change(s)
	}
	return s
}

// named sets the P4Info to a text of its own.
func named(s *snapshot, text string) {
	part := &s.psw.Spec.Pipeline.P4Info
	part.SHA256 = digest([]byte(text))
	s.parts[*part] = []byte(text)
}

// ports has the switch use these.
func ports(all ...int32) func(*snapshot) {
	return func(s *snapshot) {
		s.psw.Spec.Ports = all
		s.psw.Spec.NextHops[0].Port = all[0]
	}
}

// onTofino is the same of a program that was compiled for one.
func onTofino(program string, all ...int32) func(*snapshot) {
	return func(s *snapshot) {
		ports(all...)(s)
		text, err := os.ReadFile("../../switches/testdata/" + program + ".p4info.txtpb")
		if err != nil {
			panic(err) // a file of the tree
		}
		named(s, strings.Replace(string(text), `"v1model"`, `"tna"`, 1))
	}
}

func certificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"leaf"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}

// Wrong P4Info, digest, certificate, pool: refused by name before anything is written
// (W-24); the field at fault stands in the message.
func TestAccepted(t *testing.T) {
	cert, key := certificate(t)
	_, otherKey := certificate(t)
	withTLS := func(secret map[string][]byte) func(*snapshot) {
		return func(s *snapshot) {
			s.psw.Spec.Transport, s.psw.Spec.TLS, s.secret = v1alpha1.TransportTLS, &v1alpha1.SwitchTLS{SecretName: "leaf"}, secret
		}
	}
	for _, row := range []struct {
		name    string
		change  func(*snapshot)
		reason  string
		message string
	}{
		{"as it should be", nil, v1alpha1.ReasonAccepted, ""},
		{"TLS, the switch alone", withTLS(map[string][]byte{keyAuthority: cert}), v1alpha1.ReasonAccepted, ""},
		{"TLS, both", withTLS(map[string][]byte{keyAuthority: cert, keyCertificate: cert, keyPrivate: key}), v1alpha1.ReasonAccepted, ""},
		{"no Secret", withTLS(nil), v1alpha1.ReasonPartNotFound, "`spec.tls.secretName`: there is no Secret \"leaf\" in namespace \"bobtail-system\""},
		{"no authority", withTLS(map[string][]byte{}), v1alpha1.ReasonInvalidCredentials, "ca.crt holds no certificate"},
		{"another's key", withTLS(map[string][]byte{keyAuthority: cert, keyCertificate: cert, keyPrivate: otherKey}), v1alpha1.ReasonInvalidCredentials, "tls.crt and tls.key: "},
		{"no key", withTLS(map[string][]byte{keyAuthority: cert, keyCertificate: cert}), v1alpha1.ReasonInvalidCredentials, "tls.crt and tls.key: "},
		{"no P4Info", func(s *snapshot) { delete(s.parts, s.psw.Spec.Pipeline.P4Info) }, v1alpha1.ReasonPartNotFound, "`spec.pipeline.p4Info`: there is no ConfigMap \"router\" with a key \"p4info\""},
		{"no device config", func(s *snapshot) { delete(s.parts, s.psw.Spec.Pipeline.DeviceConfig[0]) }, v1alpha1.ReasonPartNotFound, "`spec.pipeline.deviceConfig[0]`: there is no"},
		{"wrong digest", func(s *snapshot) { s.parts[s.psw.Spec.Pipeline.DeviceConfig[0]] = []byte{9} }, v1alpha1.ReasonDigestMismatch, "`spec.pipeline.deviceConfig[0].sha256`: key \"bin\" of ConfigMap \"router\" has the digest"},
		{"no P4Info at all", func(s *snapshot) { named(s, "hello") }, v1alpha1.ReasonInvalidPipeline, "`spec.pipeline.p4Info`: is no P4Info"},
		{"another program's", func(s *snapshot) { named(s, `tables { preamble { id: 1 name: "acl" } size: 5000 }`) }, v1alpha1.ReasonInvalidPipeline, "is not of Bobtail's router: table station is not there"},
		{"a table with other keys", func(s *snapshot) {
			named(s, strings.Replace(string(routerInfo(t)), `"hdr.ethernet.dst"`, `"hdr.ethernet.src"`, 1))
		}, v1alpha1.ReasonInvalidPipeline, "table station has no field hdr.ethernet.dst"},
		{"a pool that is none", func(s *snapshot) { s.psw.Spec.AddressPool = []string{"300.0.0.0/24"} }, v1alpha1.ReasonInvalidConfiguration, "`spec.addressPool[0]` \"300.0.0.0/24\" is no IPv4 network"},
		{"a pool with host bits", func(s *snapshot) { s.psw.Spec.AddressPool = []string{"192.0.2.1/24"} }, v1alpha1.ReasonInvalidConfiguration, "is no IPv4 network such as 192.0.2.0/28"},
		{"a pool named twice", func(s *snapshot) { s.psw.Spec.AddressPool = []string{"192.0.2.0/24", "192.0.2.8/29"} }, v1alpha1.ReasonInvalidConfiguration, "overlaps with 192.0.2.0/24"},
		{"a pool too large", func(s *snapshot) { s.psw.Spec.AddressPool = []string{"192.0.0.0/20"} }, v1alpha1.ReasonCapacityExceeded, "`spec.addressPool`: 4096, and table own of the pipeline has room for 1024"},
		{"the same switch twice", func(s *snapshot) {
			twin := s.psw.DeepCopy()
			twin.Name, twin.CreationTimestamp = "older", metav1.Unix(99, 0)
			s.others = append(s.others, *twin)
		}, v1alpha1.ReasonDuplicateSwitch, "ProgrammableSwitch older is device 1 at 10.0.0.1:9559 already"},
		{"the same switch later", func(s *snapshot) {
			twin := s.psw.DeepCopy()
			twin.Name, twin.CreationTimestamp = "younger", metav1.Unix(101, 0)
			s.others = append(s.others, *twin)
		}, v1alpha1.ReasonAccepted, ""},
		{"two things wrong", func(s *snapshot) {
			s.psw.Spec.AddressPool = []string{"300.0.0.0/24"}
			delete(s.parts, s.psw.Spec.Pipeline.P4Info)
		}, v1alpha1.ReasonInvalidConfiguration, "is no IPv4 network such as 192.0.2.0/28; `spec.pipeline.p4Info`"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := planFor(world(t, row.change))
			if p.accepted.Reason != row.reason || !strings.Contains(p.accepted.Message, row.message) {
				t.Errorf("%+v, want %s: %s", p.accepted, row.reason, row.message)
			}
			if (p.desired != nil) != (row.reason == v1alpha1.ReasonAccepted) {
				t.Errorf("desired %+v", p.desired)
			}
		})
	}
}

// Ports are those that stations can be behind: not the program's loop, nor where bmv2 drops, nor of two pipes of a Tofino
// where registers are a pipe's own.
func TestPorts(t *testing.T) {
	for _, row := range []struct {
		name    string
		change  func(*snapshot)
		reason  string
		message string
	}{
		{"where bmv2 drops", ports(1, 511), v1alpha1.ReasonInvalidConfiguration, "`spec.ports[1]`: 511 is where bmv2 drops"},
		{"the loop of bmv2", ports(510), v1alpha1.ReasonInvalidConfiguration, "`spec.ports[0]`: 510 is the program's loop"},
		{"bmv2 has no pipes", ports(1, 68, 130), v1alpha1.ReasonAccepted, ""},
		{"ports of a pipe", onTofino("router", 129, 191, 195), v1alpha1.ReasonAccepted, ""},
		{"the loop of a Tofino", onTofino("router", 1, 68), v1alpha1.ReasonInvalidConfiguration, "`spec.ports[1]`: 68 is no port of a Tofino's front"},
		{"the loop of its second pipe", onTofino("router", 129, 195, 196), v1alpha1.ReasonInvalidConfiguration, "`spec.ports[2]`: 196 is no port of a Tofino's front"},
		{"two pipes", onTofino("router", 1, 130), v1alpha1.ReasonInvalidConfiguration, "`spec.ports[1]`: 130 is of pipe 1 and 1 of pipe 0"},
		{"members of two pipes", onTofino("aggregator", 1, 130), v1alpha1.ReasonInvalidConfiguration, "`spec.ports[1]`: 130 is of pipe 1 and 1 of pipe 0"},
		{"requests of a group by two pipes", onTofino("box", 1, 130), v1alpha1.ReasonInvalidConfiguration, "`spec.ports[1]`: 130 is of pipe 1 and 1 of pipe 0"},
		{"connections by two pipes", onTofino("crab", 1, 130), v1alpha1.ReasonAccepted, ""},
		{"the generator's own port", onTofino("crab", 1, 68), v1alpha1.ReasonInvalidConfiguration, "`spec.ports[1]`: 68 is no port of a Tofino's front"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := planFor(world(t, row.change))
			if p.accepted.Reason != row.reason || !strings.Contains(p.accepted.Message, row.message) {
				t.Errorf("%+v, want %s: %s", p.accepted, row.reason, row.message)
			}
			if (p.desired != nil) != (row.reason == v1alpha1.ReasonAccepted) {
				t.Errorf("desired: %v", p.desired != nil)
			}
		})
	}
}

// What is wanted is of this generation, and another Secret or endpoint is another
// identity, so that the session is made anew.
func TestDesired(t *testing.T) {
	base := planFor(world(t, nil)).desired
	// a group for each of two ports, two stations (one of them everybody), and three rows for each of two addresses;
	// besides the buckets of latencies
	buckets := 0
	for _, e := range base.Wanted {
		if e.Table() == "bucket" {
			buckets++
		}
	}
	if base.Generation != 3 || len(base.Wanted)-buckets != 10 || buckets != 496 || !base.Pipeline.Push || !bytes.Equal(base.Pipeline.Device, []byte{1, 2, 3}) || base.Clear || string(base.Tag) != "bobtail/u" {
		t.Errorf("%+v with %d entries", base, len(base.Wanted))
	}
	cert, _ := certificate(t)
	seen := map[string]bool{base.Identity: true}
	for _, change := range []func(*snapshot){
		func(s *snapshot) { s.psw.Spec.Endpoint = "10.0.0.2:9559" },
		func(s *snapshot) {
			s.psw.Spec.Transport, s.psw.Spec.TLS, s.secret = v1alpha1.TransportTLS, &v1alpha1.SwitchTLS{SecretName: "leaf"}, map[string][]byte{keyAuthority: cert}
		},
		func(s *snapshot) {
			s.psw.Spec.Transport, s.psw.Spec.TLS, s.secret = v1alpha1.TransportTLS, &v1alpha1.SwitchTLS{SecretName: "leaf"}, map[string][]byte{keyAuthority: append([]byte("\n"), cert...)}
		},
	} {
		if d := planFor(world(t, change)).desired; seen[d.Identity] {
			t.Error("the identity did not change")
		} else {
			seen[d.Identity] = true
		}
	}
	other := planFor(world(t, func(s *snapshot) {
		part := &s.psw.Spec.Pipeline.DeviceConfig[0]
		part.SHA256 = digest([]byte{4})
		s.parts[*part] = []byte{4}
	})).desired
	if other.Pipeline.Cookie == base.Pipeline.Cookie || base.Pipeline.Cookie == 0 {
		t.Errorf("cookies %#x and %#x", base.Pipeline.Cookie, other.Pipeline.Cookie)
	}
	going := planFor(world(t, func(s *snapshot) { s.psw.DeletionTimestamp = &metav1.Time{Time: time.Unix(200, 0)} })).desired
	if !going.Clear {
		t.Error("a switch that is deleted keeps its entries")
	}
}

// Each fault has its reason, and the message names the field at fault.
func TestProgrammed(t *testing.T) {
	cookie := uint64(0x2a)
	good := keeper.State{Generation: 3, Connected: true, Role: link.Role{Primary: true, Election: link.Election{High: 5, Low: 1}}, Cookie: &cookie, Settled: true,
		Used: map[string]int64{"station": 2, "multicast groups": 1}}
	fault := func(kind link.Kind) func(*keeper.State) {
		return func(s *keeper.State) { s.Settled, s.Fault = false, &link.Fault{Kind: kind, Text: "told so"} }
	}
	for _, row := range []struct {
		name    string
		change  func(*keeper.State)
		reason  string
		message string
	}{
		{"holds", nil, v1alpha1.ReasonProgrammed, "as read back"},
		{"an earlier generation", func(s *keeper.State) { s.Generation = 2 }, v1alpha1.ReasonReconciling, "yet to be asked"},
		{"not yet", func(s *keeper.State) { s.Settled = false }, v1alpha1.ReasonReconciling, "being written"},
		{"contested", func(s *keeper.State) { s.Settled, s.Contested = false, []string{"station x"} }, v1alpha1.ReasonEntriesOfOthers, "station x"},
		{"unreachable", fault(link.Unreachable), v1alpha1.ReasonUnreachable, "`spec.endpoint`: told so"},
		{"certificate", fault(link.Certificate), v1alpha1.ReasonCertificateRefused, "`spec.tls`: told so"},
		{"device", fault(link.Device), v1alpha1.ReasonUnknownDevice, "`spec.deviceID`: told so"},
		{"backup", fault(link.Backup), v1alpha1.ReasonAnotherPrimary, "told so"},
		{"refused", fault(link.Refused), v1alpha1.ReasonPipelineRefused, "`spec.pipeline`: told so"},
		{"fixed", fault(link.Fixed), v1alpha1.ReasonFixedPipeline, "`spec.pipeline`: told so"},
		{"empty", fault(link.Empty), v1alpha1.ReasonPipelineRefused, "`spec.pipeline.mode`: told so"},
		{"broken", fault(link.Broken), v1alpha1.ReasonSwitchFailed, "told so"},
		{"full", fault(link.Full), v1alpha1.ReasonTableFull, "told so"},
		{"fenced", fault(link.Fenced), v1alpha1.ReasonNotLeading, "told so"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := world(t, nil)
			s.state, s.known = good, true
			if row.change != nil {
				row.change(&s.state)
			}
			psw := s.psw.DeepCopy()
			writeStatus(psw, s, planFor(s), time.Unix(300, 0))
			c := meta.FindStatusCondition(psw.Status.Conditions, v1alpha1.ConditionProgrammed)
			if c.Reason != row.reason || !strings.Contains(c.Message, row.message) || c.ObservedGeneration != 3 || (c.Status == metav1.ConditionTrue) != (row.change == nil) {
				t.Errorf("%+v, want %s: %s", c, row.reason, row.message)
			}
			ready := meta.FindStatusCondition(psw.Status.Conditions, v1alpha1.ConditionReady)
			if (ready.Status == metav1.ConditionTrue) != (row.change == nil) {
				t.Errorf("Ready %+v", ready)
			}
		})
	}
	for kind := range faults {
		if faults[kind].reason == "" {
			t.Errorf("%s has no reason", kind)
		}
	}
}

// The columns: what is used, what is free, and how the operator stands with the switch.
func TestStatus(t *testing.T) {
	s := world(t, nil)
	cookie := uint64(0x2a)
	s.known = true
	s.state = keeper.State{Generation: 3, Connected: true, Role: link.Role{Primary: true, Election: link.Election{High: 5, Low: 1}}, Cookie: &cookie, Settled: true,
		Used: map[string]int64{"station": 2, "multicast groups": 1}, Strange: 9, Strangers: []string{strings.Repeat("x", 200)}, Repaired: 4, Pushes: 1}
	psw := s.psw.DeepCopy()
	writeStatus(psw, s, planFor(s), time.Unix(300, 0))
	st := psw.Status
	if st.Connection != v1alpha1.SwitchConnected || st.Role != v1alpha1.SwitchPrimary || st.ElectionID != "5.1" || st.Cookie != "0x000000000000002a" ||
		st.Entries != 3 || st.EntriesRepaired != 4 || st.EntriesOfOthers != 9 || st.PipelinePushes != 1 || len([]rune(st.Strangers[0])) != 128 {
		t.Errorf("%+v", st)
	}
	if want := (v1alpha1.SwitchTable{Name: "station", Used: 2, Free: 4094}); len(st.Tables) != 1 || st.Tables[0] != want {
		t.Errorf("%+v", st.Tables)
	}
	s.state = keeper.State{}
	writeStatus(psw, s, plan{accepted: verdict.No(v1alpha1.ReasonPartNotFound, "no such thing")}, time.Unix(300, 0))
	if st = psw.Status; st.Connection != v1alpha1.SwitchDisconnected || st.Role != "" || st.Cookie != "" || st.Tables != nil {
		t.Errorf("%+v", st)
	}
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionProgrammed); c.Reason != v1alpha1.ReasonNotAccepted || c.Message != "no such thing" {
		t.Errorf("%+v", c)
	}
}

// A part is known by its digest: what was read with the right one is not read again.
func TestPartsAreKept(t *testing.T) {
	var p parts
	part := v1alpha1.SwitchPipelinePart{ConfigMapName: "m", Key: "k", SHA256: digest([]byte("v"))}
	wrong := v1alpha1.SwitchPipelinePart{ConfigMapName: "m", Key: "l", SHA256: digest([]byte("v"))}
	p.keep("leaf", verified(map[v1alpha1.SwitchPipelinePart][]byte{part: []byte("v"), wrong: []byte("w")}))
	if got := p.of("leaf"); len(got) != 1 || string(got[part]) != "v" {
		t.Errorf("kept %v", got)
	}
	p.keep("leaf", nil)
	if fmt.Sprint(p.of("leaf")) != "map[]" {
		t.Errorf("kept %v", p.of("leaf"))
	}
}
