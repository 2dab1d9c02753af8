// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

var dialled = redirect.VIPKey{Addr: netip.MustParseAddr("192.0.2.1"), Port: 80}

func fellTo(vip redirect.VIPKey, client, reason string, ago time.Duration) redirect.FellBack {
	return redirect.FellBack{Client: netip.MustParseAddr(client), VIP: vip, Reason: reason, Ago: ago}
}

// C-8, C-40, C-105: who falls back is told once for each VIP and reason, and again after tellAgain; not what came before the agent.
func TestWhoFallsBackIsTold(t *testing.T) {
	start, f := time.Unix(1000, 0), &fallen{}
	other := redirect.VIPKey{Addr: netip.MustParseAddr("2001:db8::1"), Port: 443}
	const noSpace, retried = "client_syn_no_space", "client_syn_unmarked_retry"
	for i, c := range []struct {
		after   time.Duration
		all     []redirect.FellBack
		relayed bool
		want    map[fell]string
	}{
		{0, []redirect.FellBack{fellTo(dialled, "10.0.0.1", noSpace, 0)}, false, nil}, // of a former process
		{time.Minute, []redirect.FellBack{fellTo(dialled, "10.0.0.1", noSpace, time.Minute+time.Second)}, false, nil},
		{2 * time.Minute, []redirect.FellBack{
			fellTo(dialled, "10.0.0.2", noSpace, time.Second), fellTo(dialled, "10.0.0.1", noSpace, 2*time.Second), fellTo(dialled, "10.0.0.2", noSpace, 3*time.Second),
			fellTo(other, "2001:db8::9", noSpace, time.Second), fellTo(dialled, "10.0.0.3", answeredByVIP, 0),
		}, true, map[fell]string{{dialled, noSpace}: "10.0.0.1, 10.0.0.2", {other, noSpace}: "2001:db8::9"}},
		{3 * time.Minute, []redirect.FellBack{
			fellTo(dialled, "10.0.0.7", noSpace, time.Second), fellTo(dialled, "10.0.0.3", answeredByVIP, 0), fellTo(dialled, "10.0.0.1", retried, time.Second),
		}, false, map[fell]string{{dialled, answeredByVIP}: "10.0.0.3", {dialled, retried}: "10.0.0.1"}},
		{2*time.Minute + tellAgain, []redirect.FellBack{ // what was not told meanwhile is old by now
			fellTo(dialled, "10.0.0.7", noSpace, tellAgain-time.Minute), fellTo(dialled, "10.0.0.8", retried, time.Second),
		}, false, nil},
		{3*time.Minute + tellAgain, []redirect.FellBack{fellTo(dialled, "10.0.0.9", noSpace, time.Second)}, false, map[fell]string{{dialled, noSpace}: "10.0.0.9"}},
	} {
		got := f.news(start.Add(c.after), c.all, c.relayed)
		for key, clients := range got {
			if some(clients) != c.want[key] {
				t.Errorf("look %d: %+v: %v, want %q", i, key, clients, c.want[key])
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("look %d: %v, want %v", i, got, c.want)
		}
	}
}

// An event names some clients and counts the others.
func TestSomeClientsAreNamed(t *testing.T) {
	var clients []netip.Addr
	for _, a := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"} {
		clients = append(clients, netip.MustParseAddr(a))
	}
	for n, want := range map[int]string{1: "10.0.0.1", 3: "10.0.0.1, 10.0.0.2, 10.0.0.3", 5: "10.0.0.1, 10.0.0.2, 10.0.0.3 and 2 more"} {
		if got := some(clients[:n]); got != want {
			t.Errorf("%d clients: %q, want %q", n, got, want)
		}
	}
}

// The Service gets the event, with the VIP, the node, the client and the reason; a VIP of no Service gets none.
func TestWhoFallsBackIsAnEventOnTheService(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := newReporter("node-a", fakeClient(t), recorder, func() (map[string]uint64, error) { return nil, nil })
	var all []redirect.FellBack
	r.fellBack = func() ([]redirect.FellBack, error) { return all, nil }
	shop := types.NamespacedName{Namespace: "shop", Name: "cart"}
	plan := crabplan.Plan{VIPs: []crabplan.VIP{{Addr: dialled.Addr, Port: dialled.Port, Service: shop}}}
	o := observed{services: references(snapshot{plan: plan, services: map[types.NamespacedName]types.UID{shop: "u1"}})}
	if o.services[dialled] != (serviceRef{shop, "u1"}) {
		t.Fatalf("%+v", o.services)
	}
	for range 2 {
		if err := r.write(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		stranger := dialled
		stranger.Port = 81
		all = []redirect.FellBack{fellTo(dialled, "10.0.0.1", "client_syn_no_space", 0), fellTo(stranger, "10.0.0.1", "client_syn_no_space", 0)}
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events, want one", len(recorder.Events))
	}
	said := <-recorder.Events
	for _, want := range []string{"FallingBack", "192.0.2.1:80 on node node-a (10.0.0.1)", "no room for the option", "client_syn_no_space"} {
		if !strings.Contains(said, want) {
			t.Errorf("the event does not say %q: %q", want, said)
		}
	}
}

// Every reason by which a program remembers who fell back has a text.
func TestReasonsOfFallenHaveATextEach(t *testing.T) {
	for _, r := range whyClientsFallBack {
		if whyOf(r.counter) != r.why || !slices.Contains(redirect.Reasons, r.counter) {
			t.Errorf("%s: %q", r.counter, whyOf(r.counter))
		}
	}
}
