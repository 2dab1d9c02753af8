// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// table is what a reader compares: before, with the default controller, with
// the published one.
func (s *Suite) table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s can do %.0f requests/s; p99 <= %s allows %.0f/s of them by the sweep, %.0f/s by sweep and overloads;\n",
		s.Setup, s.Setup.Nominal(), s.Setup.latency(), s.swept, s.capacity())
	if s.swept > 0 && s.cut == nil {
		fmt.Fprintln(&out, s.guess.against(s.capacity()))
	}
	if why := s.cannotCarry(); why != "" {
		fmt.Fprintln(&out, why)
	}
	fmt.Fprintln(&out)
	s.sweepTable(&out)
	if len(s.rows) == 0 {
		return out.String()
	}
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "enforcement\ttry\toffered/s\trefused\tanswered/s\twithin SLO/s\tgoodput/capacity\tgoodput/swept\tp50\tp99\tp99/SLO\tworst 5 s\tp99 at client\twithin SLO/s at client\tMet\telsewhere/seconds\t")
	for _, r := range s.rows {
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.1f %%\t%.0f\t%.0f\t%.3f%s\t%.3f\t%s\t%s\t%.3f\t%s\t%s\t%.0f\t%s\t%s\t\n", r.enforcement(), r.which(), r.offered,
			100*r.refused, r.answered, r.inTime, r.inTime/s.capacity(), s.mark(r), r.inTime/s.swept, milliseconds(harness.Microseconds(r.routers, "50")), milliseconds(p99(r.routers)),
			over(p99(r.routers), s.Setup.latency()), milliseconds(r.worst), milliseconds(p99(r.client)), r.within, r.met, lost(r.elsewhere))
	}
	_ = w.Flush() // a strings.Builder takes everything
	fmt.Fprintf(&out, "\np50, p99: the histograms of all routers merged, REQ0 to FEEDBACK of admitted requests, the first %s of the load excluded;\n"+
		"as are requests answered within the objective, here and in the sweep. At client: from when a request was due to its reply. Worst 5 s: of all %s in a row, one second apart.\n"+
		"Elsewhere: processor time that the host withheld or that processes outside of the cluster and this run took, and the seconds that it disturbed.\n", settling, worstOf)
	if slices.ContainsFunc(s.rows, s.isCapacity) {
		out.WriteString("*: this row is the capacity, as no load of the sweep had as much within the objective; its share of what was swept says by how much.\n")
	}
	for _, r := range s.rows {
		if r.tries > 1 {
			fmt.Fprintf(&out, "%s, %s: %s\n", r.enforcement(), r.which(), r.why)
		}
	}
	return out.String()
}

func (r row) enforcement() string { return strings.TrimSpace(r.mode + " " + r.controller) }

// which try it is, and whether it counts.
func (r row) which() string {
	if r.again {
		return fmt.Sprintf("%d", r.try)
	}
	return fmt.Sprintf("%d, judged", r.try)
}

// lost is the share of the processors' time that went elsewhere, and the seconds that
// this disturbed.
func lost(e harness.Elsewhere) string {
	if e.Seconds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%/%d", 100*e.Share(), e.Disturbed)
}

// mark of a row's share of the capacity.
func (s *Suite) mark(r row) string {
	if s.isCapacity(r) {
		return "*"
	}
	return ""
}

// sweepTable shows every time a load was offered.
func (s *Suite) sweepTable(out *strings.Builder) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "sweep\toffered/s\ttimes\tp99\tp99 at client\tmost within SLO/s\telsewhere/seconds\t")
	for _, share := range sweepShares {
		var offered, most float64
		var routers, clients, elsewhere []string
		for _, p := range s.points {
			if p.share == share {
				offered, most = p.offered, max(most, p.within)
				routers, clients = append(routers, milliseconds(p.p99)), append(clients, milliseconds(p.client))
				elsewhere = append(elsewhere, lost(p.elsewhere))
			}
		}
		fmt.Fprintf(w, "%.0f %%\t%.0f\t%d\t%s\t%s\t%.0f\t%s\t\n", 100*share, offered, len(routers), strings.Join(routers, " "), strings.Join(clients, " "), most, strings.Join(elsewhere, " "))
	}
	_ = w.Flush() // a strings.Builder takes everything
	fmt.Fprintln(out)
}

// p99 in microseconds.
func p99(h *ll7.Histogram) float64 { return harness.Microseconds(h, "99") }

func milliseconds(us float64) string {
	switch {
	case math.IsNaN(us):
		return "-"
	case math.IsInf(us, 1):
		return "unanswered"
	}
	return fmt.Sprintf("%.1fms", us/1000)
}

// over is a latency in microseconds in units of the objective.
func over(us float64, objective time.Duration) float64 { return us / float64(objective.Microseconds()) }

// record hands the figures to the report. One that is infinite or was not
// measured is left out, and the report calls it missing.
func (s *Suite) record() {
	set := s.Got.SetFinite
	name := "e2e_slo_" + s.additional
	s.Got.Set(name+"workers", s.Setup.Replicas*s.Setup.Workers)
	s.Got.Set(name+"service_ms", s.Setup.Service.Seconds()*1000)
	set(name+"sweep_rps", s.swept)
	set(name+"capacity_rps", s.capacity())
	set(name+"capacity_of_workers", s.capacity()/s.Setup.Nominal())
	if s.guess.high > 0 {
		set(name+"estimate_low_over_capacity", s.guess.low/s.capacity())
		set(name+"estimate_high_over_capacity", s.guess.high/s.capacity())
	}
	for _, r := range s.judged() {
		if r.short == nil {
			s.recordRow(r)
		}
	}
}

func (s *Suite) recordRow(r row) {
	set := s.Got.SetFinite
	prefix := "e2e_overload_" + s.additional
	if r.controller != "Track" {
		prefix += r.name + "_" // the default controller has the plain names
	}
	set(prefix+"p99_over_slo", over(p99(r.routers), s.Setup.latency()))
	set(prefix+"client_p99_over_slo", over(p99(r.client), s.Setup.latency()))
	set(prefix+"worst_5s_p99_over_slo", over(r.worst, s.Setup.latency()))
	set(prefix+"goodput_share", r.inTime/s.capacity())
	set(prefix+"swept_goodput_share", r.inTime/s.swept)
	set(prefix+"client_goodput_share", r.within/s.capacity())
	set(prefix+"refused_share", r.refused)
	if r.tries > 1 {
		s.Got.Set(prefix+"tries", r.try)
	}
	if r.elsewhere.Seconds > 0 {
		set(prefix+"elsewhere_share", r.elsewhere.Share())
	}
}
