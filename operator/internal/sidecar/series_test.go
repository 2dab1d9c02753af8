// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// K-31: every series says whose it is, however it is scraped: percentiles of two
// services must never be merged. The first scrape says so, too, before there is a
// configuration: a series does not change its name.
func TestEverySeriesNamesItsService(t *testing.T) {
	r := start(t)
	checkService(t, r.scrape(t))
	one, hash := content(t, 3)
	r.api.set(one)
	eventually(t, "configuration", r.runs(hash))
	r.plane.set(func(p *plane) { p.second, p.slices = 100, map[uint64]int{100: 3} })
	eventually(t, "histogram", func() bool { return strings.Contains(r.scrape(t), "bobtail_latency_seconds_count") })
	text := r.scrape(t)
	for _, name := range []string{"bobtail_latency_seconds_bucket", "bobtail_worker_outstanding", "bobtail_router_class_latency_seconds_sum", "bobtail_router_dropped_total", "bobtail_config_info"} {
		if !strings.Contains(text, "\n"+name+"{") {
			t.Errorf("no %s to look at", name)
		}
	}
	checkService(t, text)
}

// whose are the labels that every series of the tests' sidecar begins with, unless one
// comes before them in the alphabet.
const whose = `namespace="demo",service="echo"`

func checkService(t *testing.T, text string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil || len(families) == 0 {
		t.Fatalf("%v in:\n%s", err, text)
	}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			if namespace, service := label(m, "namespace"), label(m, "service"); namespace != "demo" || service != "echo" {
				t.Errorf("%s of namespace %q and service %q", name, namespace, service)
			}
		}
	}
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
