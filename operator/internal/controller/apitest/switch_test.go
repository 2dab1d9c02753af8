// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/e2e/switchpeer"
	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

const baseSwitch = `
apiVersion: bobtail.dev/v1alpha1
kind: ProgrammableSwitch
metadata: {name: leaf}
spec:
  endpoint: "leaf.example:9559"
  tls: {secretName: leaf-tls}
  pipeline:
    p4Info: {configMapName: router, key: p4info.txtpb, sha256: "` + zeros + `"}
    deviceConfig: [{configMapName: router, key: tofino.bin, sha256: "` + zeros + `"}]
  ports: [1, 2]
`

// Every CEL rule of ProgrammableSwitch on both sides, and bounds.
var switchAdmission = []admission{
	{"the least", `{}`, ""},
	{"name of 63", `{metadata: {name: ` + strings.Repeat("a", 63) + `}}`, ""},
	{"name of 64", `{metadata: {name: ` + strings.Repeat("a", 64) + `}}`, "`metadata.name` must be no longer than 63"},
	{"IPv6", `{spec: {endpoint: "[fd00::1]:9559"}}`, ""},
	{"no port", `{spec: {endpoint: "leaf.example"}}`, "spec.endpoint"},
	{"a URL", `{spec: {endpoint: "grpc://leaf.example:9559"}}`, "spec.endpoint"},
	{"device 0", `{spec: {deviceID: 0}}`, ""},
	{"device -1", `{spec: {deviceID: -1}}`, "spec.deviceID"},
	{"in the clear", `{spec: {transport: Plaintext, tls: null}}`, ""},
	{"in the clear with a Secret", `{spec: {transport: Plaintext}}`, "`tls` must be given with `transport` TLS, and only with it"},
	{"TLS without a Secret", `{spec: {tls: null}}`, "`tls` must be given with `transport` TLS, and only with it"},
	{"verified", `{spec: {pipeline: {mode: Verify, deviceConfig: null}}}`, ""},
	{"verified and pushed", `{spec: {pipeline: {mode: Verify}}}`, "`deviceConfig` must be given with `mode` Push, and only with it"},
	{"nothing to push", `{spec: {pipeline: {deviceConfig: null}}}`, "`deviceConfig` must be given with `mode` Push, and only with it"},
	{"no parts", `{spec: {pipeline: {deviceConfig: []}}}`, "spec.pipeline.deviceConfig"},
	{"a digest in capitals", `{spec: {pipeline: {p4Info: {sha256: "` + strings.Repeat("A", 64) + `"}}}}`, "spec.pipeline.p4Info.sha256"},
	{"a short digest", `{spec: {pipeline: {p4Info: {sha256: "00"}}}}`, "spec.pipeline.p4Info.sha256"},
	{"no port at all", `{spec: {ports: []}}`, "spec.ports"},
	{"port 511", `{spec: {ports: [511]}}`, ""},
	{"port 512", `{spec: {ports: [512]}}`, "spec.ports"},
	{"a port twice", `{spec: {ports: [1, 1]}}`, "spec.ports"},
	{"next hops", `{spec: {nextHops: [{macAddress: "02:00:00:00:00:0a", port: 1}, {macAddress: "02:00:00:00:00:0b", port: 1}]}}`, ""},
	{"a next hop elsewhere", `{spec: {nextHops: [{macAddress: "02:00:00:00:00:0a", port: 3}]}}`, "`nextHops` must be behind one of `ports`"},
	{"a station twice", `{spec: {nextHops: [{macAddress: "02:00:00:00:00:0a", port: 1}, {macAddress: "02:00:00:00:00:0a", port: 2}]}}`, "spec.nextHops"},
	{"a group for a station", `{spec: {nextHops: [{macAddress: "01:00:5e:00:00:0a", port: 1}]}}`, "spec.nextHops[0].macAddress"},
	{"a MAC address in capitals", `{spec: {nextHops: [{macAddress: "02:00:00:00:00:0A", port: 1}]}}`, "spec.nextHops[0].macAddress"},
	{"networks behind a next hop", `{spec: {nextHops: [{macAddress: "02:00:00:00:00:0a", port: 1, networks: ["10.0.0.0/16", "198.18.0.7/32", "0.0.0.0/0"]}]}}`, ""},
	{"a network of IPv6 behind a next hop", `{spec: {nextHops: [{macAddress: "02:00:00:00:00:0a", port: 1, networks: ["fd00::/64"]}]}}`, "spec.nextHops[0].networks"},
	{"a network twice", `{spec: {nextHops: [{macAddress: "02:00:00:00:00:0a", port: 1, networks: ["10.0.0.0/16", "10.0.0.0/16"]}]}}`, "spec.nextHops[0].networks"},
	{"a pool", `{spec: {macAddress: "02:00:00:00:00:ff", addressPool: ["192.0.2.0/28", "198.51.100.7/32"]}}`, ""},
	{"a pool that nobody answers for", `{spec: {addressPool: ["192.0.2.0/28"]}}`, "`macAddress` must be given with `addressPool`, and only with it"},
	{"an answer to nothing", `{spec: {macAddress: "02:00:00:00:00:ff"}}`, "`macAddress` must be given with `addressPool`, and only with it"},
	{"an answer for an empty pool", `{spec: {macAddress: "02:00:00:00:00:ff", addressPool: []}}`, "`macAddress` must be given with `addressPool`, and only with it"},
	{"a pool of IPv6", `{spec: {addressPool: ["fd00::/120"]}}`, "spec.addressPool"},
	{"a large pool", `{spec: {addressPool: ["10.0.0.0/15"]}}`, "spec.addressPool"},
	{"a pool of stamps", `{spec: {macAddress: "02:00:00:00:00:ff", addressPool: ["172.30.0.0/16"]}}`, ""},
	{"services, which no field is for yet", `{spec: {services: []}}`, "spec.services"},
}

// A switch cannot become another one; the way to it, and what it does, can change.
func TestAdmissionOfSwitchChanges(t *testing.T) {
	needs.APIServer(t)
	o := parse(t, baseSwitch)
	o.SetName("changing")
	if err := direct.Create(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteSwitch(t, "changing") })
	wantField(t, o, "deviceID", int64(1))
	wantField(t, o, "transport", "TLS")
	wantField(t, o, "pipeline.mode", "Push")
	for _, row := range []admission{
		{"endpoint", `{spec: {endpoint: "other.example:9559"}}`, ""},
		{"ports", `{spec: {ports: [1, 2, 3]}}`, ""},
		{"device", `{spec: {deviceID: 2}}`, "`deviceID` cannot be changed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			eventually(t, "an update without a conflict", func() (bool, string) {
				if err := direct.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
					t.Fatal(err)
				}
				changed := o.DeepCopy()
				merge(changed.Object, parse(t, row.change).Object)
				err := direct.Update(context.Background(), changed, client.DryRunAll)
				if apierrors.IsConflict(err) {
					return false, err.Error()
				}
				judge(t, err, row.message)
				return true, ""
			})
		})
	}
}

// deleteSwitch takes one away, by force if the switch is not there to be cleared.
func deleteSwitch(t *testing.T, name string) {
	t.Helper()
	psw := &v1alpha1.ProgrammableSwitch{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_ = direct.Delete(context.Background(), psw)
	if err := direct.Patch(context.Background(), psw, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

// pipelineParts makes a ConfigMap with the router's P4Info, and returns the parts.
func pipelineParts(t *testing.T, name string) (info, device v1alpha1.SwitchPipelinePart) {
	t.Helper()
	return partsOf(t, name, "router")
}

// partsOf is the same of another program.
func partsOf(t *testing.T, name, program string) (info, device v1alpha1.SwitchPipelinePart) {
	t.Helper()
	text, err := os.ReadFile("../../switches/testdata/" + program + ".p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: name},
		Data:       map[string]string{"p4info.txtpb": string(text)}, BinaryData: map[string][]byte{"tofino.bin": {0, 1, 2, 0xff}},
	}
	if err := direct.Create(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	part := func(key string, value []byte) v1alpha1.SwitchPipelinePart {
		sum := sha256.Sum256(value)
		return v1alpha1.SwitchPipelinePart{ConfigMapName: name, Key: key, SHA256: hex.EncodeToString(sum[:])}
	}
	return part("p4info.txtpb", text), part("tofino.bin", m.BinaryData["tofino.bin"])
}

// selfSigned is a certificate for 127.0.0.1.
func selfSigned(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func newSwitch(name, endpoint string, info, device v1alpha1.SwitchPipelinePart) *v1alpha1.ProgrammableSwitch {
	return &v1alpha1.ProgrammableSwitch{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ProgrammableSwitchSpec{
			Endpoint: endpoint, DeviceID: 1, Transport: v1alpha1.TransportPlaintext,
			Pipeline: v1alpha1.SwitchPipeline{Mode: v1alpha1.PipelinePush, P4Info: info, DeviceConfig: []v1alpha1.SwitchPipelinePart{device}},
			Ports:    []int32{1, 2}, NextHops: []v1alpha1.SwitchNextHop{{MACAddress: "02:00:00:00:00:0a", Port: 1}}, AddressPool: []string{"192.0.2.0/30"}, MACAddress: "02:00:00:00:00:ff",
		},
	}
}

func waitSwitch(t *testing.T, name, kind string, status metav1.ConditionStatus, reason, message string) *v1alpha1.ProgrammableSwitch {
	t.Helper()
	psw := &v1alpha1.ProgrammableSwitch{}
	eventually(t, name+" "+kind+" "+reason, func() (bool, string) {
		if err := direct.Get(context.Background(), types.NamespacedName{Name: name}, psw); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(psw.Status.Conditions, kind)
		if c == nil {
			return false, "absent"
		}
		return c.Status == status && c.Reason == reason && c.ObservedGeneration == psw.Generation && strings.Contains(c.Message, message), fmt.Sprintf("%s (%s: %s)", c.Status, c.Reason, c.Message)
	})
	return psw
}

func changeSwitch(t *testing.T, name string, change func(*v1alpha1.ProgrammableSwitch)) {
	t.Helper()
	eventually(t, "a change of "+name, func() (bool, string) {
		psw := &v1alpha1.ProgrammableSwitch{}
		if err := direct.Get(context.Background(), types.NamespacedName{Name: name}, psw); err != nil {
			return false, err.Error()
		}
		change(psw)
		err := direct.Update(context.Background(), psw)
		return err == nil, fmt.Sprint(err)
	})
}

// latencyBuckets are the rows by which a switch tells a latency's bucket; every one has them.
const latencyBuckets = 496

// The whole way, over TLS: pushed, written, read back, shown; a change; what is lost is
// repaired; a wrong digest leaves all as it is; and after deletion nothing is left
// (W-21 to W-23).
func TestSwitchFromApplyToGone(t *testing.T) {
	t.Parallel()
	operator(t)
	ctx := context.Background()
	cert, authority := selfSigned(t)
	p, err := switchpeer.Start(switchpeer.Options{Device: 1, TLS: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "spine-tls"}, Data: map[string][]byte{"ca.crt": authority}}
	if err := direct.Create(ctx, secret); err != nil {
		t.Fatal(err)
	}
	info, device := pipelineParts(t, "spine-router")
	psw := newSwitch("spine", p.Address(), info, device)
	psw.Spec.Transport, psw.Spec.TLS = v1alpha1.TransportTLS, &v1alpha1.SwitchTLS{SecretName: "spine-tls"}
	if err := direct.Create(ctx, psw); err != nil {
		t.Fatal(err)
	}
	psw = waitSwitch(t, "spine", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	// a group for each of two ports, two stations, and three rows for each of four addresses
	if st := psw.Status; len(p.Held()) != latencyBuckets+16 || st.Entries != latencyBuckets+16 || st.Connection != v1alpha1.SwitchConnected || st.Role != v1alpha1.SwitchPrimary || st.PipelinePushes != 1 || len(st.Cookie) != 18 {
		t.Errorf("the switch holds %d entries; status %+v", len(p.Held()), st)
	}
	header, row := shown(t, table(t, "", "programmableswitches", "spine"))
	if header != "NAME ENDPOINT CONNECTION ROLE ENTRIES PROGRAMMED REASON AGE" || !strings.HasPrefix(row, "spine "+p.Address()+fmt.Sprintf(" Connected Primary %d True Ready ", latencyBuckets+16)) {
		t.Errorf("columns %q, row %q", header, row)
	}

	changeSwitch(t, "spine", func(psw *v1alpha1.ProgrammableSwitch) { psw.Spec.AddressPool = []string{"192.0.2.0/31"} })
	waitSwitch(t, "spine", v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "")
	if n := len(p.Held()); n != latencyBuckets+10 {
		t.Errorf("after the change the switch holds %d entries", n)
	}
	p.Lose(2)
	eventually(t, "repair", func() (bool, string) {
		_ = direct.Get(ctx, client.ObjectKeyFromObject(psw), psw)
		return psw.Status.EntriesRepaired == 2 && len(p.Held()) == latencyBuckets+10, fmt.Sprintf("%d repaired, %d held", psw.Status.EntriesRepaired, len(p.Held()))
	})
	changeSwitch(t, "spine", func(psw *v1alpha1.ProgrammableSwitch) { psw.Spec.Pipeline.DeviceConfig[0].SHA256 = zeros })
	waitSwitch(t, "spine", v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonDigestMismatch, "`spec.pipeline.deviceConfig[0].sha256`")
	if c := p.Counts(); len(p.Held()) != latencyBuckets+10 || c.Pushes != 1 || c.PushesWithoutNeed != 0 {
		t.Errorf("a wrong digest changed something: %d entries, %+v", len(p.Held()), c)
	}

	if err := direct.Delete(ctx, psw); err != nil {
		t.Fatal(err)
	}
	eventually(t, "gone", func() (bool, string) {
		err := direct.Get(ctx, client.ObjectKeyFromObject(psw), psw)
		return apierrors.IsNotFound(err), fmt.Sprintf("%v, %+v", err, psw.Status.Conditions)
	})
	if n := len(p.Held()); n != 0 {
		t.Errorf("switch_entries_after_delete %d", n)
	}
}

// settledSwitch is one that holds what it should.
func settledSwitch(t *testing.T, name string) {
	t.Helper()
	p, err := switchpeer.Start(switchpeer.Options{Device: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	info, device := pipelineParts(t, name+"-router")
	if err := direct.Create(context.Background(), newSwitch(name, p.Address(), info, device)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteSwitch(t, name) })
	waitSwitch(t, name, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
}

// What stands in the way has its reason, and the field at fault in the message.
func TestSwitchFaults(t *testing.T) {
	t.Parallel()
	operator(t)
	info, device := pipelineParts(t, "faulty-router")
	start := func(name string, faults switchpeer.Faults, change func(*v1alpha1.ProgrammableSwitch)) *switchpeer.Peer {
		p, err := switchpeer.Start(switchpeer.Options{Device: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		p.Misbehave(func(f *switchpeer.Faults) { *f = faults })
		psw := newSwitch(name, p.Address(), info, device)
		if change != nil {
			change(psw)
		}
		if err := direct.Create(context.Background(), psw); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { deleteSwitch(t, name) })
		return p
	}
	_, authority := selfSigned(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "faulty-tls"}, Data: map[string][]byte{"ca.crt": authority}}
	if err := direct.Create(context.Background(), secret); err != nil {
		t.Fatal(err)
	}
	no := metav1.ConditionFalse
	start("fixed", switchpeer.Faults{FixedPipeline: true}, nil)
	start("refusing", switchpeer.Faults{RefusePipeline: true}, nil)
	start("mute", switchpeer.Faults{Mute: true}, nil)
	start("other-device", switchpeer.Faults{}, func(psw *v1alpha1.ProgrammableSwitch) { psw.Spec.DeviceID = 7 })
	start("no-tls", switchpeer.Faults{}, func(psw *v1alpha1.ProgrammableSwitch) {
		psw.Spec.Transport, psw.Spec.TLS = v1alpha1.TransportTLS, &v1alpha1.SwitchTLS{SecretName: "faulty-tls"}
	})
	crowded := start("crowded", switchpeer.Faults{}, func(psw *v1alpha1.ProgrammableSwitch) { psw.Spec.AddressPool, psw.Spec.MACAddress = nil, "" })
	crowded.Crowd(1 << 40)
	verified := start("verified", switchpeer.Faults{}, func(psw *v1alpha1.ProgrammableSwitch) {
		psw.Spec.Pipeline.Mode, psw.Spec.Pipeline.DeviceConfig = v1alpha1.PipelineVerify, nil
	})
	foreign := &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{TableId: 0x02000007, Metadata: []byte("theirs"),
		Match: []*p4.FieldMatch{{FieldId: 1, FieldMatchType: &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: []byte{2, 0, 0, 0, 0, 0x0a}}}}}}}}
	contested := start("contested", switchpeer.Faults{}, nil)

	waitSwitch(t, "fixed", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonFixedPipeline, "`spec.pipeline`: the switch takes no pipeline")
	waitSwitch(t, "refusing", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonPipelineRefused, "12 stages are not enough")
	waitSwitch(t, "mute", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonUnreachable, "`spec.endpoint`: ")
	waitSwitch(t, "other-device", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonUnknownDevice, "`spec.deviceID`: ")
	waitSwitch(t, "no-tls", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonCertificateRefused, "`spec.tls`: ")
	waitSwitch(t, "crowded", v1alpha1.ConditionReady, no, v1alpha1.ReasonNotProgrammed, "another controller is primary")
	waitSwitch(t, "verified", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonPipelineRefused, "runs no pipeline")
	if c := verified.Counts(); c.Pushes != 0 {
		t.Errorf("a pipeline was pushed that should only be verified")
	}
	waitSwitch(t, "contested", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	contested.Put(foreign)
	waitSwitch(t, "contested", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonEntriesOfOthers, "station hdr.ethernet.dst=0x02000000000a")
	if c := crowded.Counts(); c.Updates+c.Pushes+c.Refused != 0 {
		t.Errorf("a backup wrote: %+v", c)
	}
}
