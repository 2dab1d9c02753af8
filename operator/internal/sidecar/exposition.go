// SPDX-License-Identifier: Apache-2.0

package sidecar

// The Prometheus text format, as little of it as a sidecar needs.

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

type family struct {
	kind, help string
	lines      []string
}

// exposition collects samples by family, because all samples of one family
// must stand together under one TYPE line.
type exposition struct {
	common   map[string]string // labels of every sample that does not set them itself
	families map[string]*family
}

func (e *exposition) add(kind, name, help string, labels map[string]string, value float64) {
	e.line(kind, name, help, name, labels, value)
}

func (e *exposition) line(kind, name, help, sample string, labels map[string]string, value float64) {
	if e.families == nil {
		e.families = map[string]*family{}
	}
	f := e.families[name]
	if f == nil {
		f = &family{kind: kind, help: help}
		e.families[name] = f
	}
	all := maps.Clone(e.common)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	f.lines = append(f.lines, sample+formatLabels(all)+" "+formatValue(value))
}

// bytes returns the text, families in alphabetical order.
func (e *exposition) bytes() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(e.families)) {
		f := e.families[name]
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, escapeHelp(f.help), name, f.kind)
		for _, l := range f.lines {
			b.WriteString(l)
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

func formatLabels(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	parts := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, metricName(k)+`="`+labelEscaper.Replace(labels[k])+`"`)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

var (
	labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	helpEscaper  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)

func escapeHelp(s string) string { return helpEscaper.Replace(s) }

func formatValue(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case v == math.Trunc(v) && math.Abs(v) < 1<<53:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// metricName makes a name of whatever a dataplane sent: one bad name must not
// cost the whole scrape.
func metricName(s string) string {
	ok := func(i int, r rune) bool {
		return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && r >= '0' && r <= '9'
	}
	var b strings.Builder
	for i, r := range s {
		if ok(i, r) {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	if b.Len() == 0 {
		return "_"
	}
	return b.String()
}
