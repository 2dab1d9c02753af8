// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// JSON writes the document.
func JSON(w io.Writer, d Document) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(d)
}

// CSV writes a line for each percentile of each point. An empty field is +∞.
func CSV(w io.Writer, d Document) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"start_s", "offered_rps", "achieved_rps", "conclusive", "percentile", "value_us", "low_us", "high_us", "defined",
		"other_us", "samples", "reasons"}}
	for _, p := range d.Points {
		for i, q := range p.Percentiles {
			lines = append(lines, []string{number(p.StartSeconds), number(p.Offered), number(p.Achieved), strconv.FormatBool(p.Conclusive),
				number(q.Percentile), field(q.Value), field(q.Low), field(q.High), strconv.FormatBool(q.Defined),
				field(p.Other[i].Value), strconv.Itoa(q.Samples), strings.Join(p.Reasons, "; ")})
		}
	}
	if err := out.WriteAll(lines); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func field(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', 3, 64)
}

// Table writes the document for people: a line for each load, then, for a single
// one, a line for each percentile, then what must be known before believing it.
func Table(w io.Writer, d Document) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%s %s, %s latency, %s stamps%s, %s\n\n", d.Protocol, strings.Join(d.Targets, " "),
		strings.ToLower(d.Latency), strings.Join(slices.Compact(slices.Sorted(slices.Values(d.measuring()))), " and "), d.polling(), d.agents())
	if len(d.Points) == 1 && !d.Changing {
		percentiles(out, d, d.Points[0])
	} else {
		loads(out, d)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	notes(w, d)
	return nil
}

func loads(w io.Writer, d Document) {
	p := "P" + number(d.Percentile)
	fmt.Fprintf(w, "START\tOFFERED\tACHIEVED\tFAILED\tP50\t%s\t%s %% INTERVAL\tCONCLUSIVE\n", p, number(d.Confidence))
	for _, point := range d.Points {
		start := "-"
		if d.Changing {
			start = fmt.Sprintf("%.1fs", point.StartSeconds)
		}
		q, _ := d.Wanted(point)
		fmt.Fprintf(w, "%s\t%.0f/s\t%.0f/s\t%d\t%s\t%s\t%s\t%s\n", start, point.Offered, point.Achieved, total(point.Failed),
			latency(median(point)), latency(q.Value), interval(q), verdict(d, point))
	}
}

func percentiles(w io.Writer, d Document, p Point) {
	other := "SERVICE"
	if d.Latency == "Service" {
		other = "RESPONSE"
	}
	fmt.Fprintf(w, "PERCENTILE\t%s\t%s %% INTERVAL\t%s\n", strings.ToUpper(d.Latency), number(d.Confidence), other)
	for i, q := range p.Percentiles {
		if !q.Defined && q.Percentile != d.Percentile {
			continue // too few samples to speak of it
		}
		fmt.Fprintf(w, "p%s\t%s\t%s\t%s\n", number(q.Percentile), latency(q.Value), interval(q), latency(p.Other[i].Value))
	}
	fmt.Fprintf(w, "\noffered %.0f/s, achieved %.0f/s, mean %s, %d failed, %.0f s\n", p.Offered, p.Achieved, latency(p.Mean), total(p.Failed), p.Seconds)
}

func median(p Point) *float64 {
	for _, q := range p.Percentiles {
		if q.Percentile == 50 {
			return q.Value
		}
	}
	return nil
}

func verdict(d Document, p Point) string {
	switch {
	case d.Changing:
		return "-"
	case p.Conclusive:
		return "yes"
	}
	return "no"
}

// notes says why points are not conclusive, what failed, and what to doubt.
func notes(w io.Writer, d Document) {
	for _, p := range d.Points {
		where := fmt.Sprintf("%.0f/s", p.Offered)
		if d.Changing {
			where = fmt.Sprintf("%.1fs", p.StartSeconds)
		} else if !p.Conclusive {
			fmt.Fprintf(w, "%s: inconclusive, because %s\n", where, strings.Join(p.Reasons, "; "))
		}
		for _, cause := range slices.Sorted(maps.Keys(p.Failed)) {
			if n := p.Failed[cause]; n > 0 {
				fmt.Fprintf(w, "%s: %d requests failed: %s\n", where, n, cause)
			}
		}
		for _, warning := range p.Warnings {
			fmt.Fprintf(w, "%s: warning: %s\n", where, warning)
		}
	}
	for i, said := range d.BusyPoll {
		if why, refused := strings.CutPrefix(said, "refused: "); refused {
			fmt.Fprintf(w, "%s: warning: the kernel does not poll for its sockets: %s\n", d.Agents[i], why)
		}
	}
	if d.Changing {
		fmt.Fprintln(w, "the load changes: there is no steady state to qualify, intervals take samples as independent")
	}
}

func total(failed map[string]uint64) uint64 {
	sum := uint64(0)
	for _, n := range failed {
		sum += n
	}
	return sum
}

func interval(q Quantile) string {
	if !q.Defined {
		return fmt.Sprintf("undefined: %d samples", q.Samples)
	}
	return latency(q.Low) + " … " + latency(q.High)
}

// latency writes microseconds in the unit that reads best.
func latency(v *float64) string {
	switch {
	case v == nil:
		return "+Inf"
	case *v >= 1e6:
		return fmt.Sprintf("%.3fs", *v/1e6)
	case *v >= 1e3:
		return fmt.Sprintf("%.3fms", *v/1e3)
	}
	return fmt.Sprintf("%.1fµs", *v)
}

// measuring is whose clocks stamped the samples.
func (d Document) measuring() []string {
	if d.LatencyAgents == 0 {
		return d.Timestamps
	}
	return d.Timestamps[:min(d.LatencyAgents, len(d.Timestamps))]
}

// polling is what the kernel said to agents that asked it to poll; nothing where none did.
func (d Document) polling() string {
	var said []string
	for _, s := range d.BusyPoll {
		if answer, _, _ := strings.Cut(s, ":"); answer != "" && answer != "off" {
			said = append(said, answer)
		}
	}
	if said == nil {
		return ""
	}
	return ", busy polling " + strings.Join(slices.Compact(slices.Sorted(slices.Values(said))), " and ")
}

func (d Document) agents() string {
	if d.LatencyAgents == 0 {
		return fmt.Sprintf("%d agent(s)", len(d.Agents))
	}
	return fmt.Sprintf("%d agent(s) of which %d measure", len(d.Agents), d.LatencyAgents)
}
