// SPDX-License-Identifier: Apache-2.0

package switchboard

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Group is a replication group that asks a switch to be its aggregator, or its flow-control box.
type Group struct {
	// Box: it is to be the box, which sends to clients' ports of all members, and hears them at FeedbackPort. It lets Limit
	// requests in at once.
	Box                     bool
	FeedbackPort            uint16
	Limit                   int
	Namespace, Name, Switch string
	// Created orders those of one switch: an address is the oldest one's.
	Created time.Time
	// Version of all that follows.
	Version string
	At      netip.AddrPort
	// Number and Cluster are the group's on the wire.
	Number  uint32
	Cluster uint64
	// Known: a leader said who its members are. Epoch is the index of the entry that made its membership.
	Known   bool
	Epoch   uint64
	Members []GroupMember
}

// GroupMember is one of the membership; the zero address: it is not known where it is.
type GroupMember struct {
	ID      uint16
	Votes   bool
	Address netip.AddrPort
}

// Key is the group's name.
func (g Group) Key() string { return g.Namespace + "/" + g.Name }

// place of it on the board: a group may ask two switches.
func (g Group) place() string { return placeOf(g.Key(), g.Box) }

func placeOf(key string, box bool) string {
	if box {
		return key + " box"
	}
	return key
}

// same says that it is the same group, asking for the same.
func (g Group) same(o Group) bool {
	return g.Switch == o.Switch && g.At == o.At && g.Cluster == o.Cluster && g.Number == o.Number
}

// AskGroup says that a group asks for a switch, until it is withdrawn, and returns what stands: a group that nobody leads
// keeps the members that it had last.
func (b *Board) AskGroup(g Group) Group {
	if b == nil {
		return g
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before, had := b.groups[g.place()]
	if had && !g.Known && before.Known && before.same(g) {
		return before
	}
	if had && reflect.DeepEqual(before, g) {
		return g
	}
	b.groups[g.place()] = g
	tell(b.asks, g.Switch)
	if had && before.Switch != g.Switch {
		tell(b.asks, before.Switch)
	}
	return g
}

// WithdrawGroup ends that, of its aggregator or of its box.
func (b *Board) WithdrawGroup(key string, box bool) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if g, had := b.groups[placeOf(key, box)]; had {
		delete(b.groups, g.place())
		tell(b.asks, g.Switch)
	}
}

// ToldGroups says that every group there is has asked once.
func (b *Board) ToldGroups() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.toldGroups {
		b.toldGroups = true
		tell(b.asks, "") // any switch may hold what a former operator wrote
	}
}

// Groups are those that ask for a switch, the oldest first; told is false while it is not known of all of them.
func (b *Board) Groups(name string) (out []Group, told bool) {
	if b == nil {
		return nil, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.groups {
		if g.Switch == name {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(x, y Group) int { return cmp.Or(x.Created.Compare(y.Created), strings.Compare(x.Key(), y.Key())) })
	return out, b.toldGroups
}
