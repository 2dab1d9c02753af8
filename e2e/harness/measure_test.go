// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A run that ends before its first figure still leaves a list, which the report
// reads and calls all figures missing.
func TestMeasurementsAreAList(t *testing.T) {
	root := t.TempDir()
	var m Measurements
	for _, want := range []string{"[]", `"value": 1.5`} {
		if err := m.Write(root, "none"); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(root, "build", "measurements", "none.json"))
		if err != nil || !strings.HasPrefix(string(raw), "[") || !strings.Contains(string(raw), want) || strings.Contains(string(raw), "odd") {
			t.Errorf("%s, %v, want a list with %s", raw, err, want)
		}
		m.SetFinite("even", 1.5)
		for _, none := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			m.SetFinite("odd", none)
		}
	}
}

// Figures have four digits behind the point.
func TestMeasurementsAreRounded(t *testing.T) {
	var m Measurements
	m.SetFinite("share", 0.123456)
	if got := m.rows[0].Value; got != 0.1235 {
		t.Errorf("%v", got)
	}
}
