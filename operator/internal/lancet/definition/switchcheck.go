// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// maxBuckets bounds the table of a histogram: a switch has room for some thousands.
const maxBuckets = 4096

// ForSwitch names every field that keeps a switch from generating this load.
// Requests, connections and measurement are Lancet's, and nothing is said of them.
func (d Definition) ForSwitch() error {
	var all []error
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			all = append(all, fmt.Errorf("%s: %v: must be %s", field, value, want))
		}
	}
	d.checkShared(check)
	check(d.Switch != nil, "switch", "none", "given: packets, packet, stamp and histogram of a switch")
	check(d.Load.Steps == nil, "load.steps", fmt.Sprintf("%d steps", len(d.Load.Steps)), "left out for a switch, whose gaps are one table: write requestsPerSecond or sweep")
	check(d.Load.Sine == nil, "load.sine", "a wave", "left out for a switch, whose gaps are one table: write requestsPerSecond or sweep")
	for i, t := range d.Targets {
		a, err := netip.ParseAddr(t.Host)
		check(err == nil && a.Is4(), fmt.Sprintf("targets[%d].host", i), t.Host, "an IPv4 address for a switch, which resolves no names")
	}
	if d.Switch != nil {
		d.Switch.check(check)
	}
	if len(all) == 0 { // a wrong load has no rates
		d.checkRates(check)
	}
	return errors.Join(all...)
}

// checkRates holds the loads against what the generator can do.
func (d Definition) checkRates(check checker) {
	s := d.Switch
	for _, rate := range d.Load.points() {
		check(rate <= s.MostPerSecond(), "load", fmt.Sprintf("%.6g requests/s", rate),
			fmt.Sprintf("at most %.6g of packets of this size: smaller ones (switch.packet.bytes), or a faster generator", s.MostPerSecond()))
		check(float64(s.Packets)/rate <= 86_400, "switch.packets", s.Packets, fmt.Sprintf("sent within a day, at %.6g requests/s", rate))
	}
}

func (s Switch) check(check checker) {
	check(s.Packets >= 1 && s.Packets <= 1e15, "switch.packets", s.Packets, "between 1 and 1e15: how many are sent at each load")
	check(s.GigabitsPerSecond >= 0 && s.GigabitsPerSecond <= defaultGigabits, "switch.gigabitsPerSecond", s.GigabitsPerSecond, "above 0 and at most 100, what the generator of one pipe makes")
	p := s.Packet
	check(slices.Contains([]string{"", "udp", "tcp-syn"}, p.Transport), "switch.packet.transport", p.Transport, "udp or tcp-syn: data over TCP needs connections, which are `lancet`'s")
	check(p.Bytes == 0 || p.Bytes >= 64 && p.Bytes <= 9216, "switch.packet.bytes", p.Bytes, "between 64 and 9216, the whole Ethernet frame")
	check(slices.Contains([]string{"", "zeros", "r2p2-echo", "dns"}, p.Template), "switch.packet.template", p.Template, "zeros, r2p2-echo or dns")
	check(p.Transport != "tcp-syn" || p.Template == "" || p.Template == "zeros", "switch.packet.template", p.Template, "left out with tcp-syn, which carries no payload")
	s.Stamp.check(check, p)
	s.Histogram.check(check, s.Stamp)
}

func (s Stamp) check(check checker, p Packet) {
	check(len(s.Fields) > 0, "switch.stamp.fields", "none", "some of "+stampFields())
	seen := map[string]bool{}
	for i, f := range s.Fields {
		field := fmt.Sprintf("switch.stamp.fields[%d]", i)
		check(stampValues[f] > 0, field, f, "one of "+stampFields())
		check(!seen[f], field, f, "named once")
		seen[f] = true
	}
	with := p.Template == "r2p2-echo" || p.Template == "dns"
	check(!seen[fieldID] || with, "switch.stamp.fields", fieldID, "left out, or switch.packet.template be r2p2-echo or dns, which have an id that comes back")
	network, err := netip.ParsePrefix(s.SourceNetwork)
	check(seen[fieldAddress] == (s.SourceNetwork != ""), "switch.stamp.sourceNetwork", s.SourceNetwork, "given with "+fieldAddress+", and only with it")
	check(s.SourceNetwork == "" || err == nil && network.Addr().Is4() && network.Bits() == 16 && network == network.Masked(),
		"switch.stamp.sourceNetwork", s.SourceNetwork, "an IPv4 network of 16 bits that is routed to the switch, such as 10.1.0.0/16")
	check(s.TickNanoseconds >= 0 && s.TickNanoseconds <= 1_000_000, "switch.stamp.tickNanoseconds", s.TickNanoseconds, "between 1 and 1,000,000")
}

func stampFields() string { return strings.Join([]string{fieldPort, fieldAddress, fieldID}, ", ") }

func (h SwitchHistogram) check(check checker, s Stamp) {
	low, high, off := orDefault(h.MinNanoseconds, defaultMin), orDefault(h.MaxNanoseconds, defaultMax), orDefault(h.RelativeError, defaultError)
	check(h.Kind == "" || h.Kind == "logLinear", "switch.histogram.kind", h.Kind, "logLinear")
	check(low >= 1, "switch.histogram.minNanoseconds", low, "1 or more")
	check(high > low && high <= 1e12, "switch.histogram.maxNanoseconds", high, "above minNanoseconds and at most 1e12")
	check(off >= 0.0001 && off <= 0.5, "switch.histogram.relativeError", off, "between 0.0001 and 0.5")
	if low < 1 || high <= low || high > 1e12 || !(off >= 0.0001 && off <= 0.5) {
		return
	}
	if len(s.Fields) > 0 {
		check(float64(high) < s.LongestLatency(), "switch.histogram.maxNanoseconds", high,
			fmt.Sprintf("below %.6g, half of where the stamp begins anew: more stamp.fields, or a coarser stamp.tickNanoseconds", s.LongestLatency()))
	}
	check(low >= orDefault(s.TickNanoseconds, 1), "switch.stamp.tickNanoseconds", s.TickNanoseconds,
		fmt.Sprintf("at most histogram.minNanoseconds, %d, below which the stamp tells nothing", low))
	n := len(h.Bounds())
	check(n <= maxBuckets, "switch.histogram", fmt.Sprintf("%d buckets", n), fmt.Sprintf("at most %d: a larger relativeError, or a smaller range", maxBuckets))
}

// checkNotSwitch says what of a definition that needs the switch could be run by
// Lancet, and what not.
func (d Definition) checkNotSwitch(check checker) {
	alone := d.Switch != nil && d.Protocol == ""
	check(!alone, "switch", "needed by this definition", "run by a switch: `lancet` sends no packets of a template. "+
		"It runs targets, load and interarrival of the same file once protocol says what the service speaks (--protocol); packets, packet, stamp and histogram stay the switch's, measurement says how well the answer must be known")
	check(d.Interarrival.Kind != "bimodal", "interarrival.kind", "bimodal",
		"exponential, fixed or table for `lancet`, whose agents draw no gaps of two lengths: record such gaps and give them as a table")
}
