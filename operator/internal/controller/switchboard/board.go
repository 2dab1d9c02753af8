// SPDX-License-Identifier: Apache-2.0

// Package switchboard is where Services that a switch redirects meet the switches: the controller of the ones says what it
// asks of which switch, and that of the others what became of it. Neither waits for the other.
package switchboard

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// Board holds what was said last. A nil one is where nobody redirects.
type Board struct {
	mu     sync.Mutex
	told   bool
	asked  map[string][]crabplan.VIP
	runs   map[string]Run   // by experiment
	groups map[string]Group // by replication group
	// toldGroups: every group has asked once.
	toldGroups bool
	answers    map[string][]v1alpha1.SwitchService

	// asks and replies wake the two controllers; what finds no room is seen when they look by themselves.
	asks, replies chan event.GenericEvent
}

// room for news that nobody has heard yet.
const room = 64

// New has heard nothing yet.
func New() *Board {
	return &Board{asked: map[string][]crabplan.VIP{}, runs: map[string]Run{}, groups: map[string]Group{}, answers: map[string][]v1alpha1.SwitchService{}, asks: make(chan event.GenericEvent, room), replies: make(chan event.GenericEvent, room)}
}

// Asks has the names of switches of which something else is asked.
func (b *Board) Asks() <-chan event.GenericEvent {
	if b == nil {
		return make(chan event.GenericEvent)
	}
	return b.asks
}

// Replies are of those that said something else.
func (b *Board) Replies() <-chan event.GenericEvent {
	if b == nil {
		return make(chan event.GenericEvent)
	}
	return b.replies
}

func tell(to chan event.GenericEvent, name string) {
	select {
	case to <- event.GenericEvent{Object: &v1alpha1.ProgrammableSwitch{ObjectMeta: metav1.ObjectMeta{Name: name}}}:
	default:
	}
}

// Ask says all that is asked of all switches.
func (b *Board) Ask(vips []crabplan.VIP) {
	if b == nil {
		return
	}
	next := map[string][]crabplan.VIP{}
	for _, v := range vips {
		if v.Switch != "" {
			next[v.Switch] = append(next[v.Switch], v)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before, first := b.asked, !b.told
	b.asked, b.told = next, true
	if first { // any switch may hold what a former operator wrote
		tell(b.asks, "")
	}
	for name := range before {
		if next[name] == nil {
			tell(b.asks, name)
		}
	}
	for name, all := range next {
		if !reflect.DeepEqual(before[name], all) {
			tell(b.asks, name)
		}
	}
}

// Asked is what is asked of a switch; false: nobody has said anything yet.
func (b *Board) Asked(name string) ([]crabplan.VIP, bool) {
	if b == nil {
		return nil, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked[name]), b.told
}

// Run is a load that an experiment asks a switch to make.
type Run struct {
	Namespace, Name, Switch string
	// Created orders those of one switch: it makes one load at a time.
	Created time.Time
	// Version of what it was made from.
	Version string
	// Number tells runs apart at the switch.
	Number                      uint32
	Packets, Rate, TemplateRate uint32
	TemplatePort                uint32
	Fixed                       bool
	Targets                     []netip.AddrPort
}

// Key is the experiment's name.
func (r Run) Key() string { return r.Namespace + "/" + r.Name }

// AskRun says that an experiment asks for a load, until it is withdrawn.
func (b *Board) AskRun(r Run) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before, had := b.runs[r.Key()]
	b.runs[r.Key()] = r
	if !had || !reflect.DeepEqual(before, r) {
		tell(b.asks, r.Switch)
	}
}

// WithdrawRun ends that.
func (b *Board) WithdrawRun(key string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, had := b.runs[key]; had {
		delete(b.runs, key)
		tell(b.asks, r.Switch)
	}
}

// Runs are those that are asked of a switch, the oldest first.
func (b *Board) Runs(name string) (out []Run) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.runs {
		if r.Switch == name {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(x, y Run) int { return cmp.Or(x.Created.Compare(y.Created), strings.Compare(x.Key(), y.Key())) })
	return out
}

// Answer says what became of what was asked of a switch; there: the switch is.
func (b *Board) Answer(name string, services []v1alpha1.SwitchService, there bool) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before, had := b.answers[name]
	if there {
		b.answers[name] = slices.Clone(services)
	} else {
		delete(b.answers, name)
	}
	if had != there || there && !reflect.DeepEqual(before, services) {
		tell(b.replies, name)
	}
}

// Answered is the answer for a Service; found is false where the switch says nothing of it, and there where there is no
// such switch.
func (b *Board) Answered(name, namespace, service string) (answer v1alpha1.SwitchService, found, there bool) {
	if b == nil {
		return answer, false, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	all, there := b.answers[name]
	for _, s := range all {
		if s.Namespace == namespace && s.Name == service {
			return s, true, there
		}
	}
	return v1alpha1.SwitchService{}, false, there
}
