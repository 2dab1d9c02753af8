// SPDX-License-Identifier: Apache-2.0

package netstatus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

var wanted = Wanted{Network: "demo/data", Interface: "net1"}

// good is an annotation as Multus documents it, with ips in place of its addresses.
func good(ips ...string) string {
	quoted, _ := json.Marshal(ips)
	return `[{"name":"kindnet","interface":"eth0","ips":["10.244.0.7"],"mac":"0a:58:0a:f4:00:07","default":true,"dns":{}},` +
		`{"name":"demo/data","interface":"net1","ips":` + string(quoted) + `,"mac":"02:00:00:00:00:01","mtu":1500,"dns":{},` +
		`"device-info":{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:01:10.2"}}}]`
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name, text string
		address    string
		reason     string
		message    string
	}{
		{name: "one address", text: good("10.77.0.10"), address: "10.77.0.10"},
		{name: "one of each family", text: good("fd00::10", "10.77.0.10"), address: "10.77.0.10"},
		{name: "IPv6 alone", text: good("fd00::10"), address: "fd00::10"},
		{name: "absent", text: " \n", reason: v1alpha1.ReasonNetworkStatusMissing},
		{name: "no address", text: good(), reason: v1alpha1.ReasonAddressMissing, message: "needs `ipam`"},
		{name: "two of a family", text: good("10.77.0.10", "10.77.0.11"), reason: v1alpha1.ReasonAddressAmbiguous, message: "10.77.0.10 and 10.77.0.11"},
		{name: "the same twice", text: good("10.77.0.10", "10.77.0.10"), reason: v1alpha1.ReasonAddressAmbiguous},
		{name: "a crowd", text: good(strings.Split(strings.Repeat("10.0.0.1,", 20), ",")...), reason: v1alpha1.ReasonAddressAmbiguous, message: "got 21"},
		{name: "no JSON", text: "{", reason: v1alpha1.ReasonNetworkStatusMalformed, message: "JSON list"},
		{name: "an object", text: `{"name":"demo/data"}`, reason: v1alpha1.ReasonNetworkStatusMalformed},
		{name: "two documents", text: good("10.77.0.10") + "[]", reason: v1alpha1.ReasonNetworkStatusMalformed, message: "something follows"},
		{name: "too long", text: "[" + strings.Repeat(" ", maxBytes) + "]", reason: v1alpha1.ReasonNetworkStatusMalformed, message: "no longer than 65536"},
		{name: "too many networks", text: "[" + strings.Repeat("{},", maxEntries) + "{}]", reason: v1alpha1.ReasonNetworkStatusMalformed, message: "no more than 32"},
		{name: "null", text: "null", reason: v1alpha1.ReasonNetworkNotAttached, message: "tells of none"},
		{name: "another network", text: strings.Replace(good("10.77.0.10"), "demo/data", "demo/other", 1), reason: v1alpha1.ReasonNetworkNotAttached, message: "demo/other on net1"},
		{name: "a network without its namespace", text: strings.Replace(good("10.77.0.10"), "demo/data", "data", 1), reason: v1alpha1.ReasonNetworkNotAttached},
		{name: "another interface", text: strings.Replace(good("10.77.0.10"), "net1", "net2", 1), reason: v1alpha1.ReasonNetworkNotAttached, message: "demo/data on net2"},
		{name: "the network twice", text: `[{"name":"demo/data","interface":"net1","ips":["10.0.0.1"]},{"name":"demo/data","interface":"net1","ips":["10.0.0.1"]}]`,
			reason: v1alpha1.ReasonNetworkNotAttached, message: "entries 0 and 1"},
		{name: "an address with a prefix", text: good("10.77.0.10/24"), reason: v1alpha1.ReasonNetworkStatusMalformed, message: "[1].ips[0]"},
		{name: "loopback", text: good("127.0.0.1"), reason: v1alpha1.ReasonNetworkStatusMalformed},
		{name: "link-local", text: good("fe80::1"), reason: v1alpha1.ReasonNetworkStatusMalformed},
		{name: "a zone", text: good("fd00::1%eth0"), reason: v1alpha1.ReasonNetworkStatusMalformed},
		{name: "IPv4 in IPv6", text: good("::ffff:10.0.0.1"), reason: v1alpha1.ReasonNetworkStatusMalformed},
		{name: "nobody", text: good("0.0.0.0"), reason: v1alpha1.ReasonNetworkStatusMalformed},
		{name: "a group", text: good("224.0.0.1"), reason: v1alpha1.ReasonNetworkStatusMalformed},
		{name: "a device that is none", text: strings.Replace(good("10.77.0.10"), "0000:01:10.2", "0000:01:10.9", 1), reason: v1alpha1.ReasonNetworkStatusMalformed, message: "pci-address"},
		{name: "no MAC", text: strings.Replace(good("10.77.0.10"), `"mac":"02:00:00:00:00:01",`, "", 1), address: "10.77.0.10"},
		{name: "a MAC that is none", text: strings.Replace(good("10.77.0.10"), "02:00:00:00:00:01", "02:00", 1), reason: v1alpha1.ReasonNetworkStatusMalformed, message: `[1].mac: must be like 02:00:00:00:00:01; got "02:00"`},
		{name: "an MTU below nothing", text: strings.Replace(good("10.77.0.10"), `"mtu":1500`, `"mtu":-1`, 1), reason: v1alpha1.ReasonNetworkStatusMalformed, message: "[1].mtu: must be a number of bytes; got -1"},
		{name: "as long as allowed", text: good("10.77.0.10") + strings.Repeat(" ", maxBytes-len(good("10.77.0.10"))), address: "10.77.0.10"},
		{name: "one byte more", text: good("10.77.0.10") + strings.Repeat(" ", maxBytes+1-len(good("10.77.0.10"))), reason: v1alpha1.ReasonNetworkStatusMalformed, message: "got 65537"},
		{name: "as many networks as allowed", text: strings.TrimSuffix(good("10.77.0.10"), "]") + strings.Repeat(",{}", maxEntries-2) + "]", address: "10.77.0.10"},
		{name: "as many addresses as are read", text: good(slices.Repeat([]string{"10.0.0.1"}, maxAddresses)...), reason: v1alpha1.ReasonAddressAmbiguous, message: "10.0.0.1 and 10.0.0.1 are of one family"},
		{name: "the first network of the list", text: "[" + good("10.77.0.10")[strings.Index(good("10.77.0.10"), `{"name":"demo/data"`):], address: "10.77.0.10"},
		{name: "four others", text: others(4), reason: v1alpha1.ReasonNetworkNotAttached, message: "tells of n on i, n on i, n on i, n on i"},
		{name: "seven others", text: others(7), reason: v1alpha1.ReasonNetworkNotAttached, message: "n on i, n on i, n on i, n on i and 3 more"},
	} {
		given, refusal := Judge(c.text, wanted)
		if refusal.Reason != c.reason || !strings.Contains(refusal.Message, c.message) {
			t.Errorf("%s: %q: %s; want %q: …%s…", c.name, refusal.Reason, refusal.Message, c.reason, c.message)
		}
		if c.reason == "" && (given.Address().String() != c.address || given.PCI != "0000:01:10.2" || given.MTU != 1500) {
			t.Errorf("%s: %+v", c.name, given)
		}
	}
}

// others is a list of so many networks that nobody asked for.
func others(n int) string {
	return "[" + strings.Join(slices.Repeat([]string{`{"name":"n","interface":"i"}`}, n), ",") + "]"
}

// The first and the last function of a device are its own, and a network may leave its MTU out.
func TestJudgeAtTheEdges(t *testing.T) {
	for function, valid := range map[string]bool{"/": false, "0": true, "7": true, "8": false} {
		text := strings.Replace(good("10.77.0.10"), "01:10.2", "01:10."+function, 1)
		if given, refusal := Judge(text, wanted); refusal.None() != valid || valid && given.PCI != "0000:01:10."+function {
			t.Errorf("function %s: %+v, %+v", function, given, refusal)
		}
	}
	given, refusal := Judge(strings.Replace(good("10.77.0.10"), `"mtu":1500`, `"mtu":0`, 1), wanted)
	if !refusal.None() || given.MTU != 0 {
		t.Errorf("no MTU: %+v, %+v", given, refusal)
	}
}

// Four are named, and how many more there are.
func TestFew(t *testing.T) {
	for n, want := range map[int]string{0: "none", 1: "a", 4: "a, a, a, a", 5: "a, a, a, a and 1 more", 7: "a, a, a, a and 3 more"} {
		if got := few(slices.Repeat([]string{"a"}, n)); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("a", 80): strings.Repeat("a", 80),
		strings.Repeat("a", 81): strings.Repeat("a", 80) + "…",
	} {
		if got := clip(text); got != want {
			t.Errorf("%d bytes: %q", len(text), got)
		}
	}
}

// FuzzJudge: whatever the annotation says, the answer is an address that can be used
// or a refusal with a reason and a message that fits a condition.
func FuzzJudge(f *testing.F) {
	f.Add(good("10.77.0.10", "fd00::1"))
	f.Add(good())
	f.Add(`[{"name":"demo/data","interface":"net1","ips":["10.0.0.1"],"device-info":null}]`)
	f.Add("[[]]")
	f.Fuzz(func(t *testing.T, text string) {
		given, refusal := Judge(text, wanted)
		if a := given.Address(); refusal.None() != a.IsValid() || (a.IsValid() && !a.IsGlobalUnicast()) {
			t.Errorf("%+v with %+v", given, refusal)
		}
		if !refusal.None() && (refusal.Message == "" || len(refusal.Message) > 1024 || utf8.ValidString(text) && !utf8.ValidString(refusal.Message)) {
			t.Errorf("message of %d bytes: %q", len(refusal.Message), refusal.Message)
		}
	})
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func pod(name, status string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{AnnotationNetwork: "demo/data"}},
		Status:     corev1.PodStatus{PodIP: "10.244.0.7", StartTime: &metav1.Time{Time: now}},
	}
	if status != "" {
		p.Annotations[AnnotationStatus] = status
	}
	return p
}

func TestPeers(t *testing.T) {
	kernel := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "k"}, Status: corev1.PodStatus{PodIP: "10.244.0.9"}}
	for _, c := range []struct {
		name  string
		pods  []*corev1.Pod
		known map[string]string
		after time.Duration
		want  map[string]string // address, and after a blank the reason
	}{
		{name: "each its own", pods: []*corev1.Pod{pod("a", good("10.77.0.1")), pod("b", good("10.77.0.2")), kernel},
			want: map[string]string{"a": "10.77.0.1 ", "b": "10.77.0.2 ", "k": "10.244.0.9 "}},
		{name: "on its way", pods: []*corev1.Pod{pod("a", "")}, after: late - 1, want: map[string]string{"a": " NetworkStatusMissing"}},
		{name: "late", pods: []*corev1.Pod{pod("a", "")}, after: late, want: map[string]string{"a": " NetworkStatusLate"}},
		{name: "malformed", pods: []*corev1.Pod{pod("a", "x")}, after: time.Hour, want: map[string]string{"a": " NetworkStatusMalformed"}},
		{name: "the older pod keeps an address that was given twice", pods: []*corev1.Pod{pod("a", good("10.77.0.1")), pod("b", good("10.77.0.1"))},
			want: map[string]string{"a": "10.77.0.1 ", "b": " AddressDuplicated"}},
		{name: "so does the pod that was believed first", pods: []*corev1.Pod{pod("a", good("10.77.0.1")), pod("b", good("10.77.0.1"))},
			known: map[string]string{"b": "10.77.0.1"}, want: map[string]string{"a": " AddressDuplicated", "b": "10.77.0.1 "}},
		{name: "and one on the pod network", pods: []*corev1.Pod{pod("a", good("10.244.0.9")), kernel},
			want: map[string]string{"a": " AddressDuplicated", "k": "10.244.0.9 "}},
		{name: "edited", pods: []*corev1.Pod{pod("a", good("10.77.0.2"))}, known: map[string]string{"a": "10.77.0.1"},
			want: map[string]string{"a": "10.77.0.1 NetworkStatusEdited"}},
		{name: "taken away", pods: []*corev1.Pod{pod("a", "")}, known: map[string]string{"a": "10.77.0.1"}, after: time.Hour,
			want: map[string]string{"a": "10.77.0.1 NetworkStatusEdited"}},
		{name: "unchanged", pods: []*corev1.Pod{pod("a", good("10.77.0.1"))}, known: map[string]string{"a": "10.77.0.1"},
			want: map[string]string{"a": "10.77.0.1 "}},
		{name: "an address that another pod was edited to", pods: []*corev1.Pod{pod("a", good("10.77.0.2")), pod("b", good("10.77.0.2"))},
			known: map[string]string{"a": "10.77.0.1"}, want: map[string]string{"a": "10.77.0.1 NetworkStatusEdited", "b": "10.77.0.2 "}},
	} {
		got := Peers(c.pods, c.known, now.Add(c.after))
		if len(got) != len(c.want) {
			t.Errorf("%s: %d peers", c.name, len(got))
		}
		for name, want := range c.want {
			if g := fmt.Sprintf("%s %s", got[name].Address, got[name].Refusal.Reason); g != want {
				t.Errorf("%s: pod %s: %q, want %q (%s)", c.name, name, g, want, got[name].Refusal.Message)
			}
		}
	}
}
