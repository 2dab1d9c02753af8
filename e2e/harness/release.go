// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// release is what `make dist` made: the chart's archive, and the digests of the images.
type release struct {
	chart   string
	digests map[string]string
}

// pinnable are the images whose digests the chart takes (image.digests).
var pinnable = []string{"agent", "operator"}

// UseRelease makes Install take the chart's archive and the digests of a folder of
// `make dist` instead of the tree.
func (e *Env) UseRelease(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, "bobtail-*.tgz"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%s has %d archives of the chart, want one: run `make dist`", dir, len(found))
	}
	text, err := os.ReadFile(filepath.Join(dir, "images.json"))
	if err != nil {
		return fmt.Errorf("run `make dist`: %w", err)
	}
	r := &release{chart: found[0]}
	if err := json.Unmarshal(text, &struct {
		Digests *map[string]string `json:"digests"`
	}{&r.digests}); err != nil {
		return fmt.Errorf("%s: images.json: %w", dir, err)
	}
	for _, component := range pinnable {
		if r.digests[component] == "" {
			return fmt.Errorf("%s: images.json has no digest of the image %s: run `make images dist`", dir, component)
		}
	}
	e.release = r
	return nil
}

// values pin the images of the chart.
func (r *release) values() []string {
	var out []string
	for _, component := range pinnable {
		out = append(out, "--set", "image.digests."+component+"="+r.digests[component])
	}
	return out
}

// chartName is what is installed, for people.
func (e *Env) chartName() string {
	if e.release == nil {
		return "charts/bobtail"
	}
	if name, err := filepath.Rel(e.Root, e.release.chart); err == nil {
		return name
	}
	return e.release.chart
}
