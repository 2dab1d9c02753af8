// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// table is what a reader compares: before, with the default controller, with
// the published one.
func table(setup Setup, capacity float64, rows []row) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s can do %.0f requests/s; p99 <= %s allows %.0f/s of them (sweep)\n\n", setup, setup.Nominal(), setup.latency(), capacity)
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "enforcement\toffered/s\trefused\tanswered/s\twithin SLO/s\tgoodput/capacity\tp50\tp99\tp99/SLO\tworst 5 s\tp99 at client\tMet\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%.0f\t%.1f %%\t%.0f\t%.0f\t%.3f\t%s\t%s\t%.3f\t%s\t%s\t%s\t\n", strings.TrimSpace(r.mode+" "+r.controller), r.offered,
			100*r.refused, r.answered, r.within, r.within/capacity, milliseconds(harness.Microseconds(r.routers, "50")), milliseconds(p99(r.routers)),
			over(p99(r.routers), setup.latency()), milliseconds(r.worst), milliseconds(p99(r.client)), r.met)
	}
	_ = w.Flush() // a strings.Builder takes everything
	fmt.Fprintf(&out, "\np50, p99: the histograms of all routers merged, REQ0 to FEEDBACK of admitted requests, the first %s of the load excluded;\n"+
		"p99 at client: intended send to reply. Within SLO: answered within the objective, by the client's clock.\n", settling)
	return out.String()
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
func (s *Suite) record() error {
	set := s.Got.SetFinite
	s.Got.Set("e2e_slo_workers", s.Setup.Replicas*s.Setup.Workers)
	s.Got.Set("e2e_slo_service_ms", s.Setup.Service.Seconds()*1000)
	set("e2e_slo_capacity_rps", s.capacity)
	for _, r := range s.rows {
		prefix := "e2e_overload_"
		if r.controller != "Track" {
			prefix += r.name + "_" // the default controller has the plain names
		}
		set(prefix+"p99_over_slo", over(p99(r.routers), s.Setup.latency()))
		set(prefix+"client_p99_over_slo", over(p99(r.client), s.Setup.latency()))
		set(prefix+"worst_5s_p99_over_slo", over(r.worst, s.Setup.latency()))
		set(prefix+"goodput_share", r.within/s.capacity)
		set(prefix+"refused_share", r.refused)
	}
	if len(s.rows) < 3 {
		return fmt.Errorf("%d of 3 overloads were measured", len(s.rows))
	}
	return nil
}
