// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
)

// Measurements collects figures for measure/report, which judges them against measure/goals.
type Measurements struct {
	mu   sync.Mutex
	rows []measurement
}

type measurement struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// Set records one figure; a later value of the same name wins.
func (m *Measurements) Set(name string, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows = append(m.rows, measurement{name, value})
}

// SetFinite records a figure rounded to four digits. One that is infinite or no
// number is left out, and the report calls it missing.
func (m *Measurements) SetFinite(name string, value float64) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		m.Set(name, math.Round(value*10000)/10000)
	}
}

// Write puts build/measurements/<target>.json in place.
func (m *Measurements) Write(root, target string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := filepath.Join(root, "build", "measurements", target+".json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the measurements folder: %w", err)
	}
	raw, err := json.MarshalIndent(append([]measurement{}, m.rows...), "", " ") // a list, however short
	if err != nil {
		return fmt.Errorf("encode the measurements of %s: %w", target, err)
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}
