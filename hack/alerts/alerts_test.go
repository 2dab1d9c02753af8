// SPDX-License-Identifier: Apache-2.0

// Package alerts tests the alert rules and the dashboard with Prometheus' own
// parser and engine: each expression parses and names documented metrics, each
// alert has its runbook page, and fires when it should and only then.
package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

var top = filepath.FromSlash("../..")

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parsed are the rules of a file, in their order.
func parsed(t *testing.T, file string) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.Parse([]byte(read(t, "charts/bobtail/files/"+file)), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var out []rulefmt.Rule
	for _, g := range groups.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

func rules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	out := map[string]rulefmt.Rule{}
	for _, r := range parsed(t, "alerts.yaml") {
		out[r.Alert] = r
	}
	return out
}

// checkMetrics: every metric an expression reads stands in docs/reference/metrics.md.
func checkMetrics(t *testing.T, where, expr, page string) {
	t.Helper()
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, expr)
		return
	}
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			if name := strings.TrimSuffix(v.Name, "_bucket"); !strings.Contains(page, "`"+name+"`") {
				t.Errorf("%s reads %s, which docs/reference/metrics.md does not name", where, name)
			}
		}
		return nil
	})
}

func TestAlertsAreDocumented(t *testing.T) {
	page := read(t, "docs/reference/metrics.md")
	all := rules(t)
	for name, r := range all {
		checkMetrics(t, name, r.Expr, page)
		runbook := "docs/runbooks/" + name + ".md"
		if !strings.HasSuffix(r.Annotations["runbook_url"], runbook) {
			t.Errorf("%s: runbook_url %q does not end in %s", name, r.Annotations["runbook_url"], runbook)
		}
		text := read(t, runbook)
		for _, part := range []string{"# " + name, "## What it means", "## What to look at", "## What to do"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %q", runbook, part)
			}
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", name, s)
		}
	}
	pages, _ := filepath.Glob(filepath.Join(top, "docs/runbooks/Bobtail*.md"))
	if len(pages) != len(all) {
		t.Errorf("%d runbook pages for %d alerts", len(pages), len(all))
	}
}

// panels are the dashboard's queries by the title of their panel.
func panels(t *testing.T) map[string][]string {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "charts/bobtail/files/dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			out[p.Title] = append(out[p.Title], target.Expr)
		}
	}
	return out
}

func TestDashboard(t *testing.T) {
	page := read(t, "docs/reference/metrics.md")
	n := 0
	for title, exprs := range panels(t) {
		for _, expr := range exprs {
			checkMetrics(t, "panel "+title, expr, page)
			n++
		}
	}
	if n < 20 {
		t.Errorf("only %d queries", n)
	}
}

// asked is what Prometheus' engine says to a query over the series of load.
func asked(t *testing.T, load string, query func(*promql.Engine, storage.Queryable) (promql.Query, error)) parser.Value {
	t.Helper()
	series := loaded(t, load)
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{}),
	})
	q, err := query(engine, storage.QueryableFunc(func(from, to int64) (storage.Querier, error) { return series.at(from, to), nil }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	result := q.Exec(context.Background())
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	return result.Value
}

// fires lists the series for which an alert's expression holds at a time. The
// `for` clause only delays that.
func fires(t *testing.T, load, expr string, at time.Duration) []string {
	t.Helper()
	result := asked(t, load, func(e *promql.Engine, of storage.Queryable) (promql.Query, error) {
		return e.NewInstantQuery(context.Background(), of, nil, expr, time.Unix(0, 0).Add(at))
	})
	var out []string
	for _, s := range result.(promql.Vector) {
		out = append(out, s.Metric.String())
	}
	return out
}

// traffic is two days of 100 requests a second, and `bad` misses a second from
// the given minute on, as two operators in turn would count them.
func traffic(bad float64, from int, allowed float64) string {
	const minutes = 2880
	series := `{namespace="demo", name="p99", instance="a"}`
	var b strings.Builder
	fmt.Fprintf(&b, "bobtail_slo_requests_total%s 0+6000x%d\n", series, minutes)
	fmt.Fprintf(&b, "  bobtail_slo_violations_total%s 0x%d 0+%gx%d\n", series, from, bad*60, minutes-from)
	fmt.Fprintf(&b, "  bobtail_slo_allowed_share%s %gx%d\n", series, allowed, minutes)
	return b.String()
}

func TestBurnRates(t *testing.T) {
	all := rules(t)
	const end = 2880
	for _, c := range []struct {
		name    string
		bad     float64 // a second, of 100 requests
		minutes int     // for how long
		allowed float64
		fires   map[string]bool
	}{
		{"nothing misses", 0, 60, 0.01, nil},
		{"twice the budget for a day", 2, 1440, 0.01, nil},
		{"four times for a day", 4, 1440, 0.01, map[string]bool{"SLOSlowBurn": true}},
		{"ten times for seven hours", 10, 420, 0.01, map[string]bool{"SLOBurn": true}},
		{"twenty times for an hour", 20, 62, 0.01, map[string]bool{"SLOFastBurn": true}},
		{"everything for ten minutes", 100, 10, 0.01, map[string]bool{"SLOFastBurn": true}},
		{"everything for two minutes", 100, 2, 0.01, nil},
		{"p50: nine of ten", 90, 1500, 0.5, map[string]bool{"SLOFastBurn": true, "SLOBurn": true, "SLOSlowBurn": true}},
		{"p50: six of ten", 60, 1500, 0.5, nil},
	} {
		load := traffic(c.bad, end-c.minutes, c.allowed)
		for _, alert := range []string{"SLOFastBurn", "SLOBurn", "SLOSlowBurn"} {
			got := fires(t, load, all["Bobtail"+alert].Expr, end*time.Minute)
			if (len(got) == 1) != c.fires[alert] {
				t.Errorf("%s: %s fires %v, want %v", c.name, alert, got, c.fires[alert])
			}
			if len(got) == 1 && !strings.Contains(got[0], `name="p99", namespace="demo"`) {
				t.Errorf("%s: %s does not say which objective: %s", c.name, alert, got[0])
			}
		}
	}
	// Half an hour after it is over the short window has let go.
	load := strings.ReplaceAll(traffic(20, end-100, 0.01), fmt.Sprintf("0+1200x%d", 100), "0+1200x70 84000x30")
	if got := fires(t, load, all["BobtailSLOFastBurn"].Expr, end*time.Minute); len(got) > 0 {
		t.Errorf("over for half an hour and still firing: %v", got)
	}
}

// Another operator took over: its counters begin at zero, the old one's stop.
func TestBurnRateSurvivesAnotherOperator(t *testing.T) {
	load := `bobtail_slo_requests_total{namespace="demo", name="p99", instance="a"} 0+6000x40 _x25
  bobtail_slo_violations_total{namespace="demo", name="p99", instance="a"} 0+1200x40 _x25
  bobtail_slo_allowed_share{namespace="demo", name="p99", instance="a"} 0.01x40 stale
  bobtail_slo_requests_total{namespace="demo", name="p99", instance="b"} _x41 0+6000x25
  bobtail_slo_violations_total{namespace="demo", name="p99", instance="b"} _x41 0+1200x25
  bobtail_slo_allowed_share{namespace="demo", name="p99", instance="b"} _x41 0.01x25
`
	if got := fires(t, load, rules(t)["BobtailSLOFastBurn"].Expr, 65*time.Minute); len(got) != 1 {
		t.Errorf("fires %v", got)
	}
}

func TestOtherAlerts(t *testing.T) {
	all := rules(t)
	of := func(metric, labels, values string) string { return metric + labels + " " + values + "\n" }
	slo := `{namespace="demo", name="p99"}`
	requests := of("bobtail_slo_requests_total", slo, "0+6000x30")
	for _, c := range []struct{ alert, yes, no string }{
		{"SLORejecting", requests + of("bobtail_slo_rejected_total", slo, "0+400x30"), requests + of("bobtail_slo_rejected_total", slo, "0+300x30")},
		{"SLOCapacityNear", requests + of("bobtail_slo_capacity_low", slo, "110x30"), requests + of("bobtail_slo_capacity_low", slo, "112x30")},
		{"SidecarUnreadable", of("bobtail_operator_sidecar_reads_total", `{operation="state", result="Untrusted"}`, "0+10x30"),
			of("bobtail_operator_sidecar_reads_total", `{operation="state", result="Answered"}`, "0+10x30")},
		{"OperatorAbsent", of("bobtail_dataplane_up", `{}`, "1x30"), of("bobtail_build_info", `{component="operator"}`, "1x30")},
		{"DataplaneDown", of("bobtail_dataplane_up", `{instance="x"}`, "0x30"), of("bobtail_dataplane_up", `{instance="x"}`, "1x30")},
		{"ConfigRefused", of("bobtail_config_refused_total", `{reason="InvalidConfig"}`, "0x20 1x10"), of("bobtail_config_refused_total", `{reason="InvalidConfig"}`, "1x30")},
		{"ConfigWatchFailing", of("bobtail_config_watch_failing_seconds", `{instance="x"}`, "0x25 60 120 180 240 300"), of("bobtail_config_watch_failing_seconds", `{instance="x"}`, "0x28 60 120")}, // K-28
		{"WorkerEjected", of("bobtail_worker_ejected", `{worker="10.0.0.1:8000"}`, "1x30"), of("bobtail_worker_ejected", `{worker="10.0.0.1:8000"}`, "0x30")},
		{"SwitchNotProgrammed", of("bobtail_switch_programmed", `{switch="leaf"}`, "0x30") + of("bobtail_switch_programmed", `{switch="spine"}`, "1x30"),
			of("bobtail_switch_programmed", `{switch="leaf"}`, "1x30")},
		{"SwitchEntriesLost", of("bobtail_switch_entries_repaired_total", `{switch="leaf"}`, "0+1x30") + of("bobtail_switch_entries_repaired_total", `{switch="spine"}`, "7x30"),
			of("bobtail_switch_entries_repaired_total", `{switch="leaf"}`, "7x30")},
		{"GroupNoLeader", of("bobtail_group_has_leader", `{group="orders"}`, "0x30") + of("bobtail_group_voters", `{group="orders"}`, "3x30"),
			of("bobtail_group_has_leader", `{group="orders"}`, "0x30") + of("bobtail_group_voters", `{group="orders"}`, "0x30") + // it has yet to begin
				of("bobtail_group_has_leader", `{group="carts"}`, "1x30") + of("bobtail_group_voters", `{group="carts"}`, "3x30")},
		{"GroupMemberUnhealthy", of("bobtail_group_voters", `{group="orders"}`, "3x30") + of("bobtail_group_healthy_voters", `{group="orders"}`, "2x30"),
			of("bobtail_group_voters", `{group="orders"}`, "3x30") + of("bobtail_group_healthy_voters", `{group="orders"}`, "3x30")},
		{"GroupStatesUndecided", of("bobtail_group_states_undecided_entry", `{group="orders"}`, "2048x30") + of("bobtail_group_states_undecided_entry", `{group="carts"}`, "0x30"),
			of("bobtail_group_states_undecided_entry", `{group="orders"}`, "2048x20 0x10")},
		{"CrabPoolExhausted", of("bobtail_crab_pool_exhausted", `{instance="leader"}`, "2x30") + of("bobtail_crab_pool_exhausted", `{instance="other"}`, "0x30"),
			of("bobtail_crab_pool_exhausted", `{instance="leader"}`, "0x30")},
		{"CrabAddressWithoutOwner", of("bobtail_crab_unowned_vips", `{instance="a"}`, "1x30") + of("bobtail_crab_unowned_vips", `{instance="b"}`, "2x30"),
			of("bobtail_crab_unowned_vips", `{instance="a"}`, "0x30") + of("bobtail_crab_unowned_vips", `{instance="b"}`, "2x30")},
		{"CrabAddressWithoutOwner", of("bobtail_crab_unowned_vips", `{family="IPv6"}`, "1x30") + of("bobtail_crab_unowned_vips", `{family="IPv4"}`, "0x30"),
			of("bobtail_crab_unowned_vips", `{family="IPv6"}`, "0x30") + of("bobtail_crab_unowned_vips", `{family="IPv4"}`, "0x30")},
		{"CrabAddressWithoutOwner", of("bobtail_crab_pool_size", `{family="IPv4"}`, "9x30") + of("bobtail_crab_pool_free", `{family="IPv4"}`, "7x30") +
			of("bobtail_crab_pool_size", `{family="IPv6"}`, "99x30") + of("bobtail_crab_pool_free", `{family="IPv6"}`, "99x30"),
			of("bobtail_crab_pool_size", `{family="IPv4"}`, "9x30") + of("bobtail_crab_pool_free", `{family="IPv4"}`, "9x30")},
		{"CrabAddressWithoutOwner", of("bobtail_crab_pool_size", `{}`, "9x30") + of("bobtail_crab_pool_free", `{}`, "7x30"),
			of("bobtail_crab_pool_size", `{}`, "9x30") + of("bobtail_crab_pool_free", `{}`, "7x30") + of("bobtail_crab_unowned_vips", `{instance="a"}`, "0x30")},
	} {
		expr := all["Bobtail"+c.alert].Expr
		if got := fires(t, c.yes, expr, 30*time.Minute); len(got) != 1 {
			t.Errorf("%s does not fire when it should: %v", c.alert, got)
		}
		if got := fires(t, c.no, expr, 30*time.Minute); len(got) != 0 {
			t.Errorf("%s fires when it should not: %v", c.alert, got)
		}
	}
	// An unknown capacity (NaN) is no reason to wake anybody.
	if got := fires(t, requests+of("bobtail_slo_capacity_low", slo, "_x29 NaN"), all["BobtailSLOCapacityNear"].Expr, 30*time.Minute); len(got) != 0 {
		t.Errorf("an unknown capacity fires: %v", got)
	}
}

// What an annotation asks of a series must be there: labels the expression keeps.
func TestAnnotationLabels(t *testing.T) {
	asked := regexp.MustCompile(`\$labels\.([a-z_]+)`)
	for name, r := range rules(t) {
		for _, text := range r.Annotations {
			for _, m := range asked.FindAllStringSubmatch(text, -1) {
				kept := strings.Contains(r.Expr, "by (") && strings.Contains(r.Expr, m[1]) || !strings.Contains(r.Expr, "by (")
				if !kept {
					t.Errorf("%s: the annotation asks for label %s, which the expression drops", name, m[1])
				}
			}
		}
	}
}
