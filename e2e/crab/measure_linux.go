// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

var measured struct {
	sync.Mutex
	rows []map[string]any
}

// Measure keeps a figure for build/measurements/e2e-crab.json.
func Measure(t testing.TB, name string, value float64) {
	t.Helper()
	t.Logf("%s = %v", name, value)
	measured.Lock()
	defer measured.Unlock()
	measured.rows = append(measured.rows, map[string]any{"name": name, "value": value})
	path := filepath.Join("../../build/measurements", "e2e-crab.json")
	raw, err := json.Marshal(measured.rows)
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
