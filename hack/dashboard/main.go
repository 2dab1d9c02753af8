// SPDX-License-Identifier: Apache-2.0

// Command dashboard writes Grafana's dashboard of Bobtail from the panels below:
// one place for queries, units and layout, where the JSON would hide mistakes.
// Grafana's own SDK for this is not served by the module proxy the build uses.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// panel is one graph: its queries by legend, and what their numbers are.
type panel struct {
	title, help, unit string
	queries           []query
}

type query struct{ legend, expr string }

const (
	of     = `{namespace=~"$namespace", service=~"$service", name=~"$slo"}`
	pods   = `{namespace=~"$namespace", service=~"$service", pod=~"$pod"}`
	groups = `{namespace=~"$namespace"}`
	route  = `{namespace=~"$namespace", service=~"$service", pod=~"$pod", source="Router"}`
	whose  = "{{namespace}}/{{service}}"
)

// rows of the dashboard, from what users feel to what explains it.
var rows = []struct {
	title  string
	panels []panel
}{
	{"Objectives", []panel{
		{"Observed percentile and objective", "Merged over all routers, REQ0 to FEEDBACK. +Inf: the percentile falls on unanswered requests.", "s", []query{
			{"{{namespace}}/{{name}}", "bobtail_slo_observed_seconds" + of}, {"objective {{namespace}}/{{name}}", "bobtail_slo_objective_seconds" + of}}},
		{"Error budget burn rate", "Share of requests that missed the objective over the share that may: above 1 the budget shrinks.", "none", []query{
			{"1 h {{namespace}}/{{name}}", burn("1h")}, {"5 min {{namespace}}/{{name}}", burn("5m")}}},
		{"Requests and capacity", "Requests a second beside both ends of the estimated capacity under the objective.", "reqps", []query{
			{"{{namespace}}/{{name}}", "sum by (namespace, name) (rate(bobtail_slo_requests_total" + of + "[1m]))"},
			{"low {{namespace}}/{{name}}", "bobtail_slo_capacity_low" + of}, {"high {{namespace}}/{{name}}", "bobtail_slo_capacity_high" + of}}},
		{"Rejected", "Requests answered by DROP: told at once, not among the measured ones.", "reqps", []query{
			{"{{namespace}}/{{name}}", "sum by (namespace, name) (rate(bobtail_slo_rejected_total" + of + "[1m]))"}}},
	}},
	{"Latency", []panel{
		{"Percentiles over all routers", "From the summed buckets of each service; percentiles are never averaged.", "s", []query{
			{"p50 " + whose, quantile("0.5")}, {"p99 " + whose, quantile("0.99")}, {"p99.9 " + whose, quantile("0.999")}}},
		{"Never answered", "Requests that count as infinite in every percentile.", "reqps", []query{
			{"{{pod}}", "sum by (namespace, service, pod) (rate(bobtail_router_pairs_total" + `{namespace=~"$namespace", service=~"$service", pod=~"$pod", result="unanswered"}` + "[1m]))"}}},
	}},
	{"Routers", []panel{
		{"Requests", "Routed, and held for want of a free worker.", "reqps", []query{
			{"routed {{pod}}", "sum by (namespace, service, pod) (rate(bobtail_router_requests_total" + pods + "[1m]))"}, {"held {{pod}}", "sum by (namespace, service, pod) (rate(bobtail_router_held_total" + pods + "[1m]))"}}},
		{"Central queue", "Requests waiting in the router now, and the age of the oldest.", "short", []query{
			{"held {{pod}}", "bobtail_router_held" + pods}, {"oldest, s {{pod}}", "bobtail_router_oldest_held_seconds" + pods}}},
		{"Dropped by reason", "Answered by DROP.", "reqps", []query{
			{"{{reason}} " + whose, "sum by (namespace, service, reason) (rate(bobtail_router_dropped_total" + pods + "[1m]))"}}},
		{"Discarded by reason", "Thrown away without an answer; docs/reference/protocol.md lists the cases.", "pps", []query{
			{"router {{reason}} " + whose, "sum by (namespace, service, reason) (rate(bobtail_router_discarded_total" + pods + "[1m]))"},
			{"socket, in {{reason}} " + whose, "sum by (namespace, service, reason) (rate(bobtail_io_rx_dropped_total" + pods + "[1m]))"},
			{"socket, out {{reason}} " + whose, "sum by (namespace, service, reason) (rate(bobtail_io_tx_dropped_total" + pods + "[1m]))"}}},
	}},
	{"Workers", []panel{
		{"In use", "Requests at each worker, of its credits n.", "short", []query{{"{{worker}}", "sum by (namespace, service, worker) (bobtail_worker_outstanding" + pods + ")"}}},
		{"Not taking requests", "Suspect: FEEDBACK overdue. Ejected: takes requests, reports nothing.", "short", []query{
			{"suspect {{worker}}", "max by (namespace, service, worker) (bobtail_worker_suspect" + pods + ") > 0"}, {"ejected {{worker}}", "max by (namespace, service, worker) (bobtail_worker_ejected" + pods + ") > 0"}}},
	}},
	{"Cores", []panel{
		{"Cores that run", "Of servers with spec.scheduling: those that run, and those that may.", "short", []query{
			{"run {{pod}}", "bobtail_server_threads_active" + pods}, {"may run {{pod}}", "bobtail_server_threads_allowed" + pods}}},
		{"Steals, parks and slow handlers", "A core took what another one had; was put to sleep; was in a handler for over 10 ms.", "ops", []query{
			{"steals {{pod}}", "rate(bobtail_server_stolen_total" + pods + "[1m])"}, {"parks {{pod}}", "rate(bobtail_server_parks_total" + pods + "[1m])"},
			{"slow {{pod}}", "rate(bobtail_server_slow_handlers_total" + pods + "[1m])"}}},
	}},
	{"Replication groups", []panel{
		{"Voters", "Those that are healthy, those in force, and how many must agree.", "short", []query{
			{"healthy {{namespace}}/{{group}}", "bobtail_group_healthy_voters" + groups}, {"in force {{namespace}}/{{group}}", "bobtail_group_voters" + groups},
			{"must agree {{namespace}}/{{group}}", "bobtail_group_quorum" + groups}}},
		{"Elections and lag", "Terms that began in five minutes; entries that a member has yet to get.", "short", []query{
			{"terms {{namespace}}/{{group}}", "delta(bobtail_group_term" + groups + "[5m])"}, {"lag {{pod}}", "bobtail_group_member_lag_entries" + groups}}},
	}},
	{"Control", []panel{
		{"Dataplanes that do not answer", "Sidecars whose router or server is silent.", "short", []query{{"{{pod}}", "1 - bobtail_dataplane_up" + pods + " > 0"}}},
		{"Reads of sidecars", "By result; anything but Answered makes conditions Unknown.", "reqps", []query{
			{"{{operation}} {{result}}", "sum by (operation, result) (rate(bobtail_operator_sidecar_reads_total[1m]))"}}},
	}},
}

func burn(window string) string {
	sum := func(metric string) string {
		return "sum by (namespace, name) (rate(" + metric + of + "[" + window + "]))"
	}
	return sum("bobtail_slo_violations_total") + " / " + sum("bobtail_slo_requests_total") +
		" / on (namespace, name) max by (namespace, name) (bobtail_slo_allowed_share" + of + ")"
}

func quantile(q string) string {
	return "histogram_quantile(" + q + ", sum by (namespace, service, le) (rate(bobtail_latency_seconds_bucket" + route + "[1m])))"
}

type object = map[string]any

// source is the data source the viewer chooses.
var source = object{"type": "prometheus", "uid": "${datasource}"}

func variable(name, metric string) object {
	q := fmt.Sprintf("label_values(%s, %s)", metric, map[string]string{"namespace": "namespace", "service": "service", "slo": "name", "pod": "pod"}[name])
	return object{"name": name, "type": "query", "datasource": source, "definition": q, "query": object{"query": q, "refId": name},
		"refresh": 2, "multi": true, "includeAll": true, "current": object{"text": "All", "value": "$__all"}}
}

// layout puts two panels side by side under each row's title.
func layout() []object {
	var out []object
	id, y := 0, 0
	for _, r := range rows {
		id++
		out = append(out, object{"id": id, "type": "row", "title": r.title, "collapsed": false, "gridPos": object{"x": 0, "y": y, "w": 24, "h": 1}, "panels": []object{}})
		y++
		for i, p := range r.panels {
			id++
			out = append(out, p.render(id, 12*(i%2), y+8*(i/2)))
		}
		y += 8 * ((len(r.panels) + 1) / 2)
	}
	return out
}

func (p panel) render(id, x, y int) object {
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend})
	}
	return object{
		"id": id, "type": "timeseries", "title": p.title, "description": p.help, "datasource": source, "targets": targets,
		"gridPos":     object{"x": x, "y": y, "w": 12, "h": 8},
		"fieldConfig": object{"defaults": object{"unit": p.unit, "min": 0, "custom": object{"lineWidth": 1, "showPoints": "never"}}, "overrides": []object{}},
		"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi"}},
	}
}

func main() {
	text, err := json.MarshalIndent(object{
		"uid": "bobtail", "title": "Bobtail", "tags": []string{"bobtail"}, "schemaVersion": 39, "version": 1, "editable": true,
		"time": object{"from": "now-1h", "to": "now"}, "refresh": "10s", "panels": layout(),
		"templating": object{"list": []object{
			{"name": "datasource", "type": "datasource", "query": "prometheus"},
			variable("namespace", "bobtail_dataplane_up"), variable("service", `bobtail_dataplane_up{namespace=~"$namespace"}`),
			variable("slo", `bobtail_slo_objective_seconds{namespace=~"$namespace", service=~"$service"}`), variable("pod", `bobtail_dataplane_up{namespace=~"$namespace", service=~"$service"}`),
		}},
	}, "", "  ")
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
	fmt.Println(string(text))
}
