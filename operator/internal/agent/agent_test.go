// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/heartbeat"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/share"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/desired"
)

func fakeClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	s, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(&v1alpha1.NodeDataplane{}).Build()
}

func TestOptions(t *testing.T) {
	good := []string{"--node=node-a", "--node-ip=192.0.2.1", "--namespace=bobtail-system", "--vip-pool=192.0.2.8/29"}
	o, err := ParseOptions(good, "1")
	if err != nil || o.Heartbeat != 9440 || o.Connects != 9442 || o.XDP != redirect.XDPAuto || o.Tunnel != share.TunnelOff || o.Pool.Size(corev1.IPv4Protocol) != 6 || o.Wire.Kind != 42 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := ParseOptions(append(slices.Clone(good), "--option-kind=253", "--option-exid=4660"), "1"); err != nil || o.Wire != (redirect.Wire{Kind: 253, ExID: 0x1234}) {
		t.Errorf("C-7: %+v, %v", o.Wire, err)
	}
	if o, err := ParseOptions(append(slices.Clone(good), "--balancers=10.0.0.20:8470,[fd00::20]:8470"), "1"); err != nil || len(o.Balancers) != 2 || o.BalancerKeyDir == "" {
		t.Errorf("%v, %v", o.Balancers, err)
	}
	if long, err := ParseOptions(append(slices.Clone(good), "--idle-timeout=6h"), "1"); err != nil || long.Idle != 6*time.Hour || o.Idle != redirect.DefaultIdle {
		t.Errorf("C-72: %v and %v by default, %v", long.Idle, o.Idle, err)
	}
	for _, bad := range []string{"--node=", "--node-ip=::ffff:192.0.2.1", "--node-ip=fe80::1%eth0", "--node-ip=x", "--namespace=", "--vip-pool=x", "--xdp=Fast", "--tunnel=Maybe", "--heartbeat-port=0", "--heartbeat-port=70000", "--connects-port=65536", "--nonsense", "word",
		"--option-kind=8", "--option-kind=255", "--option-kind=298", "--option-kind=253", "--option-exid=1", "--option-exid=65536", "--balancers=lb:8470", "--idle-timeout=2", "--idle-timeout=1m", "--idle-timeout=-3h", "--idle-timeout=1000h"} {
		if _, err := ParseOptions(append(slices.Clone(good), bad), "1"); !errors.Is(err, ErrUsage) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// The first agent writes the key, all others take it; two keys while it is exchanged.
func TestHeartbeatKeys(t *testing.T) {
	ctx, name := context.Background(), types.NamespacedName{Namespace: "n", Name: secretName}
	c := fakeClient(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: secretName}})
	first, err := heartbeatKeys(ctx, c, "n")
	if err != nil || len(first) != 1 || len(first[0]) != 32 {
		t.Fatalf("%v, %v", first, err)
	}
	second, err := heartbeatKeys(ctx, c, "n")
	if err != nil || !bytes.Equal(first[0], second[0]) {
		t.Errorf("the second agent has another key: %v", err)
	}
	s := &corev1.Secret{}
	if err := c.Get(ctx, name, s); err != nil {
		t.Fatal(err)
	}
	s.Data[keyPrevious], s.Data[keyCurrent] = s.Data[keyCurrent], bytes.Repeat([]byte("k"), 32)
	if err := c.Update(ctx, s); err != nil {
		t.Fatal(err)
	}
	if both, err := heartbeatKeys(ctx, c, "n"); err != nil || len(both) != 2 || !bytes.Equal(both[1], first[0]) {
		t.Errorf("during the exchange: %v, %v", both, err)
	}
	s.Data[keyCurrent] = []byte("short")
	if err := c.Update(ctx, s); err != nil {
		t.Fatal(err)
	}
	if _, err := heartbeatKeys(ctx, c, "n"); err == nil || !strings.Contains(err.Error(), "16") {
		t.Errorf("a short key: %v", err)
	}
	if _, err := heartbeatKeys(ctx, fakeClient(t), "n"); err == nil {
		t.Error("no Secret, and no error")
	}
}

// A key that is exchanged in the mounted Secret is taken over; one that cannot be
// used changes nothing, and neither does what was mounted all the time.
func TestKeysAreReadAnew(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := strings.Repeat("1", 32), strings.Repeat("2", 32)
	write(keyCurrent, first)
	var got []string
	k := newKeyring(dir, func(keys [][]byte) error {
		got = nil
		for _, key := range keys {
			got = append(got, string(key))
		}
		return nil
	})
	check := func(when string, loaded, refused uint64, want ...string) {
		t.Helper()
		k.look()
		if !slices.Equal(got, want) || k.loaded.Load() != loaded || k.refused.Load() != refused {
			t.Errorf("%s: keys %q, %d loaded, %d refused; want %q", when, got, k.loaded.Load(), k.refused.Load(), want)
		}
	}
	check("at first", 0, 0)
	write(keyPrevious, first)
	write(keyCurrent, second)
	check("exchanged", 1, 0, second, first)
	check("again", 1, 0, second, first)
	write(keyCurrent, "short")
	check("a short one", 1, 1, second, first)
	check("still short", 1, 1, second, first)
	write(keyCurrent, "")
	check("none", 1, 2, second, first)
	write(keyCurrent, second)
	write(keyPrevious, "")
	check("without the old one", 2, 2, second)
	missing := newKeyring(filepath.Join(dir, "absent"), func([][]byte) error { t.Error("keys out of nothing"); return nil })
	missing.look()
}

// C-26: of a server that terminates the last probe holds, though nobody asks it any more.
func TestProberKeepsWhatItKnewOfServersThatTerminate(t *testing.T) {
	p := newProber(netip.MustParseAddr("192.0.2.1"), redirect.Wire{})
	server := func(i byte) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, i}), 80) }
	p.inherit([]redirect.VIP{{VIPKey: redirect.VIPKey{Port: 80}, Backends: []redirect.Backend{{Addr: server(3).Addr(), State: redirect.Draining}}}})
	asked := map[netip.AddrPort]int{}
	p.ask = func(_ context.Context, s netip.AddrPort) (redirect.State, error) {
		asked[s]++
		return redirect.UpPlain, nil
	}
	p.set([]netip.AddrPort{server(2)}, nil)
	p.round(context.Background())
	p.round(context.Background())
	for range 3 {
		p.set(nil, []netip.AddrPort{server(2), server(3), server(4)})
		p.round(context.Background())
	}
	if s, known := p.health(server(2)); !known || s != redirect.UpPlain || asked[server(2)] != 2 {
		t.Errorf("%v, %v; asked %v", s, known, asked)
	}
	if s, known := p.health(server(3)); !known || s != redirect.UpCRAB {
		t.Errorf("of a former process: %v, %v", s, known)
	}
	if _, known := p.health(server(4)); known || len(asked) != 1 {
		t.Errorf("asked %v", asked)
	}
	p.set([]netip.AddrPort{server(2)}, nil) // all terminate, so that it gets connections again
	p.round(context.Background())
	if asked[server(2)] != 3 {
		t.Errorf("asked %v", asked)
	}
	p.set(nil, nil)
	if _, known := p.health(server(2)); known {
		t.Error("a server that is gone is known")
	}
}

// C-52: a server is not called down before enough probes failed, and a prober's
// own trouble says nothing.
func TestProber(t *testing.T) {
	p := newProber(netip.MustParseAddr("192.0.2.1"), redirect.Wire{})
	server, old := netip.MustParseAddrPort("192.0.2.2:80"), netip.MustParseAddrPort("192.0.2.3:80")
	p.inherit([]redirect.VIP{{VIPKey: redirect.VIPKey{Port: 80}, Backends: []redirect.Backend{{Addr: old.Addr(), State: redirect.UpCRAB}}}})
	if s, known := p.health(old); !known || s != redirect.UpCRAB {
		t.Errorf("of a former process, when pools are written first: %v, %v", s, known)
	}
	p.set([]netip.AddrPort{server, old}, nil)
	if _, known := p.health(server); known {
		t.Error("a server nobody has asked is known")
	}
	if s, known := p.health(old); !known || s != redirect.UpCRAB {
		t.Errorf("of a former process: %v, %v", s, known)
	}
	result, trouble := redirect.Down, error(nil)
	p.ask = func(context.Context, netip.AddrPort) (redirect.State, error) { return result, trouble }
	trouble = errors.New("no socket")
	p.round(context.Background())
	if n := p.failures(); n != 2 {
		t.Errorf("%d failures", n)
	}
	trouble = nil
	for i := range 3 {
		if _, known := p.health(server); known {
			t.Errorf("known after %d probes", i)
		}
		p.round(context.Background())
	}
	for _, a := range []netip.AddrPort{server, old} {
		if s, known := p.health(a); !known || s != redirect.Down {
			t.Errorf("%s after three failures: %v, %v", a, s, known)
		}
	}
	result = redirect.UpPlain
	p.round(context.Background())
	p.round(context.Background())
	if s, _ := p.health(server); s != redirect.UpPlain {
		t.Errorf("after two answers: %v", s)
	}
	select {
	case <-p.changed:
	default:
		t.Error("nobody was told")
	}
}

func TestMissing(t *testing.T) {
	const conf = "/proc/sys/net/ipv4/conf/"
	for _, c := range []struct {
		forward, all, own string
		want              string
	}{
		{"1", "0", "0", ""}, {"0", "0", "0", "ip_forward"}, {"1", "0", "1", "rp_filter"}, {"1", "1", "0", "rp_filter"},
		{"1", "1", "2", ""}, {"1", "2", "1", ""}, {"", "", "", ""},
	} {
		values := map[string]string{"/proc/sys/net/ipv4/ip_forward": c.forward, conf + "all/rp_filter": c.all, conf + "eth0/rp_filter": c.own}
		if got := missing("eth0", families{four: true}, families{four: true}, func(p string) string { return values[p] }); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// C-9: what a family takes is asked for only where an address of it is balanced, and
// IPv4's on every node that has it.
func TestMissingSix(t *testing.T) {
	const forwarding = "/proc/sys/net/ipv6/conf/eth0/forwarding"
	four, six, both := families{four: true}, families{six: true}, families{four: true, six: true}
	for _, c := range []struct {
		need, has families
		four, six string // ip_forward, forwarding
		want      string
	}{
		{four, both, "1", "0", ""}, {both, both, "1", "1", ""}, {both, both, "1", "0", "net.ipv6.conf.eth0.forwarding is 0"},
		{both, four, "1", "", "has no IPv6"}, {both, four, "1", "1", "at most a link-local one"},
		{six, six, "0", "1", ""}, {families{}, six, "0", "0", ""}, {six, six, "0", "0", "net.ipv6.conf.eth0.forwarding is 0"},
		{both, six, "0", "1", "ip_forward is 0"}, {six, both, "0", "1", "ip_forward is 0"},
	} {
		values := map[string]string{"/proc/sys/net/ipv4/ip_forward": c.four, forwarding: c.six}
		if got := missing("eth0", c.need, c.has, func(p string) string { return values[p] }); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestNeeds(t *testing.T) {
	six, four := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		vip  crabplan.VIP
		want families
	}{
		{crabplan.VIP{Addr: four, Kind: crabplan.LoadBalancer}, families{four: true}}, {crabplan.VIP{Addr: six, Kind: crabplan.LoadBalancer}, families{six: true}},
		{crabplan.VIP{Addr: six, Kind: crabplan.NodePort, Node: "node-a"}, families{six: true}}, {crabplan.VIP{Addr: four, Kind: crabplan.NodePort, Node: "node-a"}, families{four: true}},
		{crabplan.VIP{Addr: six, Kind: crabplan.NodePort, Node: "node-b"}, families{}},
	} {
		if got := needs(crabplan.Plan{VIPs: []crabplan.VIP{c.vip}}, "node-a"); got != c.want {
			t.Errorf("%+v: %v", c.vip, got)
		}
	}
}

// An address that no host of the wire looks for there is told of, once, by its owner.
func TestOutside(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("fd00:1::/64")}
	name := types.NamespacedName{Namespace: "shop", Name: "web"}
	var p crabplan.Plan
	var owned []netip.Addr
	for _, text := range []string{"192.0.2.1", "198.51.100.1", "fd00:1::1", "fd00:2::1"} {
		owned = append(owned, netip.MustParseAddr(text))
		for _, port := range []uint16{80, 81} {
			p.VIPs = append(p.VIPs, crabplan.VIP{Addr: netip.MustParseAddr(text), Port: port, Kind: crabplan.LoadBalancer, Service: name})
		}
	}
	p.VIPs = append(p.VIPs, crabplan.VIP{Addr: netip.MustParseAddr("203.0.113.1"), Port: 80, Kind: crabplan.LoadBalancer, Service: name}) // another node's
	seen := snapshot{plan: p, services: map[types.NamespacedName]types.UID{name: "uid"}}
	got := outside(seen, owned, "eth0", networks)
	if len(got) != 2 || got[0].addr != owned[1] || got[1].addr != owned[3] || got[0].uid != "uid" {
		t.Fatalf("%+v", got)
	}
	recorder := events.NewFakeRecorder(10)
	r := newReporter("node-a", fakeClient(t), recorder, func() (map[string]uint64, error) { return nil, nil })
	for range 2 {
		if err := r.write(context.Background(), observed{outside: got}); err != nil {
			t.Fatal(err)
		}
	}
	var said []string
	for len(recorder.Events) > 0 {
		said = append(said, <-recorder.Events)
	}
	if len(said) != 2 || !strings.Contains(said[0], v1alpha1.EventOutsideUplink) || !strings.Contains(said[1], "fd00:2::1 is in none of its networks (192.0.2.0/24, fd00:1::/64)") {
		t.Errorf("events %q", said)
	}
	if told := outside(seen, owned, "eth0", nil); len(told) != 4 {
		t.Errorf("an uplink without networks: %+v", told)
	}
}

func TestConditions(t *testing.T) {
	key := redirect.VIPKey{Addr: netip.MustParseAddr("192.0.2.1"), Port: 80}
	bad := errors.New("refused")
	for name, c := range map[string]struct {
		result            desired.Result
		missing           string
		programmed, ready string
	}{
		"well":         {programmed: v1alpha1.ReasonProgrammed, ready: v1alpha1.ReasonReady},
		"an entry":     {result: desired.Result{VIPs: map[redirect.VIPKey]error{key: bad}}, programmed: v1alpha1.ReasonApplyFailed, ready: v1alpha1.ReasonNotProgrammed},
		"the uplink":   {result: desired.Result{Devices: map[string]error{"eth0": bad}}, programmed: v1alpha1.ReasonProgrammed, ready: v1alpha1.ReasonAttachFailed},
		"a pod":        {result: desired.Result{Devices: map[string]error{"veth1": bad}}, programmed: v1alpha1.ReasonProgrammed, ready: v1alpha1.ReasonAttachFailed},
		"a setting":    {missing: "ip_forward", programmed: v1alpha1.ReasonProgrammed, ready: v1alpha1.ReasonPrerequisiteMissing},
		"something of": {result: desired.Result{Other: bad}, programmed: v1alpha1.ReasonApplyFailed, ready: v1alpha1.ReasonNotProgrammed},
	} {
		got := conditions("eth0", c.result, c.missing)
		if got[0].Reason != c.programmed || got[1].Reason != c.ready {
			t.Errorf("%s: %s and %s", name, got[0].Reason, got[1].Reason)
		}
		for _, condition := range got {
			if (condition.Status == metav1.ConditionTrue) != (condition.Reason == condition.Type) || condition.Message == "" {
				t.Errorf("%s: %+v", name, condition)
			}
		}
	}
}

func TestAnnounceable(t *testing.T) {
	vip, node := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.9")
	p := crabplan.Plan{VIPs: []crabplan.VIP{{Addr: vip, Port: 80, Kind: crabplan.LoadBalancer}, {Addr: vip, Port: 81, Kind: crabplan.LoadBalancer}, {Addr: node, Port: 30080, Kind: crabplan.NodePort}}}
	if got := announceable(p); !slices.Equal(got, []netip.Addr{vip}) {
		t.Errorf("%v", got)
	}
}

// The NodeDataplane is made with its Node as owner, and says what was observed;
// what changed for the worse is an event, once.
func TestReport(t *testing.T) {
	c, recorder := fakeClient(t), events.NewFakeRecorder(10)
	r := newReporter("node-a", c, recorder, func() (map[string]uint64, error) { return map[string]uint64{"b": 2, "a": 1, "none": 0}, nil })
	if err := r.exist(context.Background(), "uid"); err != nil {
		t.Fatal(err)
	}
	o := observed{uid: "uid", status: v1alpha1.NodeDataplaneStatus{OwnedVIPs: 1, Conditions: conditions("eth0", desired.Result{}, "ip_forward is 0"),
		Devices: []v1alpha1.NodeDevice{{Name: "eth0", Placement: v1alpha1.PlacementUplink, Mode: v1alpha1.DeviceModeGeneric, Reason: "veth"},
			{Name: "eth1", Placement: v1alpha1.PlacementUplink, Mode: v1alpha1.DeviceModeNative}}}}
	for range 2 {
		if err := r.write(context.Background(), o); err != nil {
			t.Fatal(err)
		}
	}
	n := &v1alpha1.NodeDataplane{}
	if err := c.Get(context.Background(), types.NamespacedName{Name: "node-a"}, n); err != nil {
		t.Fatal(err)
	}
	if len(n.OwnerReferences) != 1 || n.OwnerReferences[0].UID != "uid" || n.Status.OwnedVIPs != 1 || len(n.Status.Conditions) != 2 {
		t.Errorf("%+v", n)
	}
	if d := n.Status.Devices; len(d) != 2 || d[0].Mode != v1alpha1.DeviceModeGeneric || d[0].Reason != "veth" || d[1].Mode != v1alpha1.DeviceModeNative || d[1].Reason != "" {
		t.Errorf("devices %+v", d)
	}
	if len(n.Status.Counters) != 2 || n.Status.Counters[0].Name != "a" {
		t.Errorf("counters %+v", n.Status.Counters)
	}
	var said []string
	for len(recorder.Events) > 0 {
		said = append(said, <-recorder.Events)
	}
	if len(said) != 2 || !strings.Contains(said[0], "Generic") || !strings.Contains(said[1], "ip_forward") {
		t.Errorf("events %q", said)
	}
}

// What the API server does not answer holds up nothing: only the last is kept.
func TestTellNeverBlocks(t *testing.T) {
	r := newReporter("node-a", nil, nil, nil)
	done := make(chan struct{})
	go func() {
		for i := range 100 {
			r.tell(observed{uid: string(rune('a' + i%26))})
		}
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("tell blocks")
	}
	if o := <-r.next; o.uid != string(rune('a'+99%26)) {
		t.Errorf("kept %q", o.uid)
	}
}

// A rolling update goes on to the next node only when this one can own VIPs again.
func TestReady(t *testing.T) {
	a := &agent{}
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		w := httptest.NewRecorder()
		a.ready(w, nil)
		if w.Code != want {
			t.Errorf("applied %v: %d, want %d", a.applied.Load(), w.Code, want)
		}
		a.applied.Store(true)
	}
}

// Each metric stands in docs/reference/metrics.md, and so does each result of heartbeats.
func TestMetricsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for _, d := range descs {
		name := strings.Split(d.String(), `"`)[1]
		if !strings.HasPrefix(name, "bobtail_crab_") || !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/reference/metrics.md does not name %s", name)
		}
	}
	for _, result := range heartbeat.Results() {
		if !strings.Contains(page, "`"+result+"`") {
			t.Errorf("docs/reference/metrics.md does not name the result %s of heartbeats", result)
		}
	}
}

// An address that a switch redirects is announced by no node.
func TestSwitchesAddressesAreNotAnnounced(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	got := announceable(crabplan.Plan{VIPs: []crabplan.VIP{{Addr: a, Kind: crabplan.LoadBalancer, Switch: "leaf"}, {Addr: b, Kind: crabplan.LoadBalancer}}})
	if !slices.Equal(got, []netip.Addr{b}) {
		t.Errorf("nodes announce %v, want %s", got, b)
	}
}
