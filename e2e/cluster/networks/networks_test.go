// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"

	"github.com/bobtail-dev/bobtail/e2e/cluster/pki"
)

func TestTheAnnotationsTwoForms(t *testing.T) {
	for _, c := range []struct {
		text string
		want []Request
	}{
		{"", nil},
		{"data", []Request{{"pods", "data", "net1"}}},
		{" data , far/other@fast ", []Request{{"pods", "data", "net1"}, {"far", "other", "fast"}}},
		{`[{"name":"data"},{"name":"other","namespace":"far","interface":"fast"}]`, []Request{{"pods", "data", "net1"}, {"far", "other", "fast"}}},
	} {
		got, err := Parse(c.text, "pods")
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, %v; want %v", c.text, got, err, c.want)
		}
	}
}

func TestWhatTheAnnotationCannotMean(t *testing.T) {
	for text, want := range map[string]string{
		`[{"name":`:                "JSON list",
		`data,`:                    "network 2 has no name",
		`[{"interface":"net1"}]`:   "network 1 has no name",
		`data@net2,other`:          `"net2"`, // which is the second one's by default
		`data@eth0`:                `"eth0"`,
		`data@a-name-of-16-bytes1`: "15 characters",
	} {
		if got, err := Parse(text, "pods"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want an error with %s", text, got, err, want)
		}
	}
}

func TestDefinitionsThatAreNone(t *testing.T) {
	r := Request{"pods", "data", "net1"}
	for text, want := range map[string]string{"{": "no JSON object", "{}": "type", `{"type":"../../bin/sh"}`: "type", `{"type":3}`: "type"} {
		if _, err := attach(r, text, ""); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "pods/data") {
			t.Errorf("%q: %v; want one that names pods/data and says %s", text, err, want)
		}
	}
	a, err := attach(r, `{"type":"bridge","name":"mine","bridge":"b0"}`, "")
	if err != nil || a.Type != "bridge" || string(a.Config) != `{"bridge":"b0","cniVersion":"1.0.0","name":"mine","type":"bridge"}` {
		t.Errorf("%v %s", err, a.Config)
	}
}

// bed is an API server with one pod and its definitions, and a plugin that writes down how it was called.
type bed struct {
	t          *testing.T
	dir        string
	annotation string
	served     map[string]string // definitions by name
	resources  map[string]string // of definitions, by name
	claimed    bool              // the pod has a claim
	told       string            // the annotation network-status
	conf       Config
}

func newBed(t *testing.T) *bed {
	b := &bed{t: t, dir: t.TempDir(), served: map[string]string{}}
	old, notes := memory, checkpoint
	memory, checkpoint = filepath.Join(b.dir, "memory"), filepath.Join(b.dir, "checkpoint")
	t.Cleanup(func() { memory, checkpoint = old, notes })
	server := httptest.NewTLSServer(http.HandlerFunc(b.answer))
	t.Cleanup(server.Close)
	ca, err := pki.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(pki.Subject{User: "plugin"})
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Write(func(f string) string { return filepath.Join(b.dir, f) }, "client"); err != nil {
		t.Fatal(err)
	}
	b.write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), 0o600)
	b.write("taps", "#!/bin/bash\necho \"$CNI_COMMAND $CNI_IFNAME $CNI_CONTAINERID $CNI_NETNS $(cat)\" >>"+b.dir+"/calls\n"+
		"[ \"$CNI_IFNAME\" != broken ] || { echo '{\"cniVersion\":\"1.0.0\",\"code\":11,\"msg\":\"no such bridge\"}'; exit 1; }\n"+
		"[ $CNI_COMMAND = DEL ] || echo '{\"cniVersion\":\"1.0.0\",\"interfaces\":[{\"name\":\"veth0\"},{\"name\":\"'$CNI_IFNAME'\",\"mac\":\"02:00:00:00:00:07\",\"sandbox\":\"/ns\"}],"+
		"\"ips\":[{\"address\":\"10.77.0.10/24\",\"interface\":1},{\"address\":\"10.99.0.1/24\",\"interface\":0}]}'\n", 0o700)
	b.conf = Config{Server: server.URL, CA: filepath.Join(b.dir, "ca.crt"), Cert: filepath.Join(b.dir, "client.crt"), Key: filepath.Join(b.dir, "client.key")}
	return b
}

func (b *bed) write(name, text string, mode os.FileMode) {
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), mode); err != nil {
		b.t.Fatal(err)
	}
}

// claim is what the API server has of a claimed device, among others.
var claim = map[string]string{
	"/apis/resource.k8s.io/v1/namespaces/pods/resourceclaims/one-device": `{"status":{"allocation":{"devices":{"results":[{"request":"vf","driver":"d","pool":"n","device":"f2"}]}}}}`,
	"/apis/resource.k8s.io/v1/resourceslices": `{"items":[{"spec":{"driver":"d","pool":{"name":"other"},"devices":[{"name":"f2","attributes":{"k8s.cni.cncf.io/deviceID":{"string":"0000:ff:10.6"}}}]}},
		{"spec":{"driver":"d","pool":{"name":"n"},"devices":[{"name":"f1"},{"name":"f2","attributes":{"k8s.cni.cncf.io/deviceID":{"string":"0000:01:10.6"},"k8s.cni.cncf.io/resourceName":{"string":"test/vf"}}}]}}]}`,
}

func (b *bed) answer(w http.ResponseWriter, r *http.Request) {
	if text, ok := claim[r.URL.Path]; ok {
		_, _ = w.Write([]byte(text))
		return
	}
	if r.Method == http.MethodPatch && r.URL.Path == "/api/v1/namespaces/pods/pods/one" {
		var patch struct {
			Metadata struct {
				UID         string
				Annotations map[string]string
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil || patch.Metadata.UID != "u" || len(patch.Metadata.Annotations) != 1 {
			http.Error(w, "no such pod", http.StatusConflict)
			return
		}
		b.told = patch.Metadata.Annotations[AnnotationStatus]
		return
	}
	if r.URL.Path == "/api/v1/namespaces/pods/pods/one" {
		claims := ""
		if b.claimed {
			claims = `{"name":"device","resourceClaimName":"one-device"}`
		}
		_, _ = fmt.Fprintf(w, `{"metadata":{"annotations":{%q:%q}},"status":{"resourceClaimStatuses":[%s]}}`, Annotation, b.annotation, claims)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/apis/k8s.cni.cncf.io/v1/namespaces/pods/network-attachment-definitions/")
	text, ok := b.served[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = fmt.Fprintf(w, `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/resourceName":%q}},"spec":{"config":%q}}`, b.resources[name], text)
}

func (b *bed) args() *skel.CmdArgs {
	conf, err := json.Marshal(map[string]any{
		"cniVersion": "1.0.0", "name": "bobtail", "type": Type, "server": b.conf.Server, "ca": b.conf.CA, "cert": b.conf.Cert, "key": b.conf.Key,
		"prevResult": map[string]any{"cniVersion": "1.0.0", "interfaces": []any{map[string]any{"name": "eth0"}}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return &skel.CmdArgs{ContainerID: "c1", Netns: "/ns", IfName: "eth0", Path: b.dir, StdinData: conf,
		Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=pods;K8S_POD_NAME=one;K8S_POD_UID=u"}
}

func (b *bed) calls() []string {
	text, err := os.ReadFile(filepath.Join(b.dir, "calls"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func (b *bed) wantCalls(want ...string) {
	b.t.Helper()
	if got := b.calls(); !reflect.DeepEqual(got, want) {
		b.t.Errorf("plugin calls:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const (
	fastConfig  = `{"cniVersion":"1.0.0","name":"fast","type":"taps"}`
	otherConfig = `{"cniVersion":"1.0.0","mtu":9000,"name":"other","type":"taps"}`
)

func TestInterfacesComeAndGo(t *testing.T) {
	b := newBed(t)
	b.annotation = "fast,other@big"
	b.served["fast"], b.served["other"] = `{"type":"taps"}`, `{"type":"taps","mtu":9000}`
	if err := add(b.args()); err != nil {
		t.Fatal(err)
	}
	b.wantCalls("ADD net1 c1 /ns "+fastConfig, "ADD big c1 /ns "+otherConfig)
	b.served = nil // definitions may be gone, and the pod too, when the sandbox goes
	for range 2 {  // a runtime may ask twice
		if err := del(b.args()); err != nil {
			t.Fatal(err)
		}
	}
	b.wantCalls("ADD net1 c1 /ns "+fastConfig, "ADD big c1 /ns "+otherConfig, "DEL big c1 /ns "+otherConfig, "DEL net1 c1 /ns "+fastConfig)
}

func TestPodsWithoutTheAnnotationAreLeftAlone(t *testing.T) {
	b := newBed(t)
	if err := add(b.args()); err != nil {
		t.Fatal(err)
	}
	if err := del(b.args()); err != nil {
		t.Fatal(err)
	}
	b.wantCalls()
}

func TestAFailureIsToldAndWhatWasMadeIsKnown(t *testing.T) {
	b := newBed(t)
	b.annotation = "fast,other@broken"
	b.served["fast"] = `{"type":"taps"}`
	if err := add(b.args()); err == nil || !strings.Contains(err.Error(), "network-attachment-definitions/other") {
		t.Errorf("a definition that is not there: %v", err)
	}
	b.wantCalls() // nothing was begun
	b.served["other"] = `{"type":"taps"}`
	if err := add(b.args()); err == nil || !strings.Contains(err.Error(), "pods/other") || !strings.Contains(err.Error(), "no such bridge") {
		t.Errorf("a plugin that fails: %v", err)
	}
	made, err := remembered("c1")
	if err != nil || len(made) != 2 {
		t.Errorf("%d interfaces known to be removed, %v; want 2", len(made), err)
	}
	b.served["other"] = `{"type":"nobody"}`
	if err := add(b.args()); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a plugin that is not installed: %v", err)
	}
}

// What the networks gave stands in the pod's annotation, as Multus writes it: the first
// network marked, the others by their definitions, each with its own addresses alone.
func TestTheAnnotationTellsWhatNetworksGave(t *testing.T) {
	b := newBed(t)
	b.annotation = "fast"
	b.served["fast"] = `{"type":"taps"}`
	if err := add(b.args()); err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"bobtail","interface":"eth0","default":true,"dns":{}},` +
		`{"name":"pods/fast","interface":"net1","ips":["10.77.0.10"],"mac":"02:00:00:00:00:07","dns":{}}]`
	if b.told != want {
		t.Errorf("told %s, want %s", b.told, want)
	}
}

// A definition with a resource takes a device that the kubelet gave the pod, each once,
// and tells its PCI address.
func TestDevicesOfTheDefinitionsResource(t *testing.T) {
	b := newBed(t)
	b.annotation = "fast,other@big"
	b.served["fast"], b.served["other"] = `{"type":"taps"}`, `{"type":"taps","mtu":9000}`
	b.resources = map[string]string{"fast": "test/vf", "other": "test/vf"}
	if err := add(b.args()); err == nil || !strings.Contains(err.Error(), "pods/fast") || !strings.Contains(err.Error(), "got 0 devices of resource test/vf") {
		t.Errorf("a pod that requests none: %v", err)
	}
	b.write("checkpoint", `{"Data":{"PodDeviceEntries":[`+
		`{"PodUID":"u","ContainerName":"c","ResourceName":"test/vf","DeviceIDs":{"0":["0000:01:10.2"],"1":["0000:01:10.0"]}},`+
		`{"PodUID":"v","ContainerName":"c","ResourceName":"test/vf","DeviceIDs":{"0":["0000:01:10.4"]}}]}}`, 0o600)
	if err := add(b.args()); err != nil {
		t.Fatal(err)
	}
	b.wantCalls(`ADD net1 c1 /ns {"cniVersion":"1.0.0","deviceID":"0000:01:10.0","name":"fast","type":"taps"}`,
		`ADD big c1 /ns {"cniVersion":"1.0.0","deviceID":"0000:01:10.2","mtu":9000,"name":"other","type":"taps"}`)
	if !strings.Contains(b.told, `"device-info":{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:01:10.2"}}`) {
		t.Errorf("told %s", b.told)
	}
	// A device of a claim is the one whose own attribute names the definition's resource.
	b.write("checkpoint", `{"Data":{}}`, 0o600)
	b.claimed = true
	b.resources["other"] = ""
	if err := add(b.args()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.told, `"pci-address":"0000:01:10.6"`) {
		t.Errorf("told %s of a claim's device", b.told)
	}
	b.write("checkpoint", "{", 0o600)
	if err := add(b.args()); err == nil || !strings.Contains(err.Error(), "kubelet's notes") {
		t.Errorf("notes that cannot be read: %v", err)
	}
}
