// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Counts are the values of all pods of one kind, added up: the family's name for all
// of its series, and name{label="value"} for each value of each label.
type Counts map[string]float64

// Counts reads the metrics of the pods of a service's component (router, server)
// that run.
func (e *Env) Counts(ctx context.Context, namespace, service, component string) (Counts, error) {
	pods, err := e.pods(ctx, namespace, "bobtail.dev/component="+component+",bobtail.dev/service="+service)
	if err != nil {
		return nil, err
	}
	all := Counts{}
	seen := 0
	for _, pod := range pods {
		if pod.Status.Phase != "Running" {
			continue
		}
		text, err := e.ask(ctx, fmt.Sprintf("/api/v1/namespaces/%s/pods/http:%s:9464/proxy/metrics", namespace, pod.Metadata.Name))
		if err != nil {
			return nil, fmt.Errorf("read the metrics of %s: %w", pod.Metadata.Name, err)
		}
		if err := all.add(text); err != nil {
			return nil, fmt.Errorf("metrics of %s: %w", pod.Metadata.Name, err)
		}
		seen++
	}
	if seen == 0 {
		return nil, errors.New("no pod of component " + component + " runs")
	}
	return all, nil
}

// add takes the counters and gauges of one pod.
func (c Counts) add(text []byte) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return err
	}
	for name, family := range families {
		if family.GetType() != dto.MetricType_COUNTER && family.GetType() != dto.MetricType_GAUGE {
			continue
		}
		for _, m := range family.GetMetric() {
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			c[name] += v
			for _, l := range m.GetLabel() {
				c[fmt.Sprintf("%s{%s=%q}", name, l.GetName(), l.GetValue())] += v
			}
		}
	}
	return nil
}

// Since is what was counted after another reading. A pod that was replaced meanwhile
// makes it wrong, perhaps negative.
func (c Counts) Since(before Counts) Counts {
	out := Counts{}
	for name, v := range c {
		out[name] = v - before[name]
	}
	return out
}

// Lacks names the families that no pod has: a counter that is spelled wrong must not
// pass for one that is 0.
func (c Counts) Lacks(names ...string) error {
	var missing []string
	for _, name := range names {
		if _, ok := c[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return errors.New("no pod has " + strings.Join(missing, ", "))
	}
	return nil
}
