// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"encoding/json"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

var measured struct {
	sync.Mutex
	values map[string]float64
}

// reportVariable names the file of the figures where a target runs a part of the suite.
const reportVariable = "CRAB_REPORT"

// reportName names the file of the figures: the short form owes fewer of them.
func reportName() string {
	if name := os.Getenv(reportVariable); name != "" {
		return name
	}
	if testing.Short() {
		return "e2e-crab-short"
	}
	return "e2e-crab"
}

// Measure keeps a figure for build/measurements/<target>.json.
func Measure(t testing.TB, name string, value float64) {
	t.Helper()
	measured.Lock()
	defer measured.Unlock()
	keep(t, name, value)
}

// MeasureMore adds to a figure that several tests have a part in.
func MeasureMore(t testing.TB, name string, value float64) {
	t.Helper()
	measured.Lock()
	defer measured.Unlock()
	keep(t, name, measured.values[name]+value)
}

// MeasureMost keeps the largest of several values.
func MeasureMost(t testing.TB, name string, value float64) {
	t.Helper()
	measured.Lock()
	defer measured.Unlock()
	keep(t, name, max(value, measured.values[name]))
}

func keep(t testing.TB, name string, value float64) {
	t.Helper()
	t.Logf("%s = %v", name, value)
	if measured.values == nil {
		measured.values = map[string]float64{}
	}
	measured.values[name] = value
	var rows []map[string]any
	for _, name := range slices.Sorted(maps.Keys(measured.values)) {
		rows = append(rows, map[string]any{"name": name, "value": measured.values[name]})
	}
	path := filepath.Join("../../build/measurements", reportName()+".json")
	raw, err := json.Marshal(rows)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, raw, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func ifindex(name string) (int, error) {
	d, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	return d.Index, nil
}
