// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// released are the packed charts that users may have: 0.1.0, and each state of 0.2.0
// whose values differ from the one before.
func released(t *testing.T) []string {
	t.Helper()
	states, err := filepath.Glob("testdata/released/*.tgz")
	if err != nil || len(states) < 9 {
		t.Fatalf("%d packed states of 0.2.0: %v", len(states), err)
	}
	return append([]string{"baseline/bobtail-0.1.0.tgz"}, states...)
}

// packed reads one file of a packed chart.
func packed(t *testing.T, archive, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			t.Fatalf("%s has no %s", archive, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "bobtail/"+name {
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
	}
}

// reusing is this chart with the defaults of another: what `helm upgrade --reuse-values`
// renders. Defaults that came later are not there at all.
func reusing(t *testing.T, values []byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bobtail")
	if err := os.CopyFS(dir, os.DirFS("bobtail")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "values.yaml"), values, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// everything turns on what is off by default.
var everything = []string{"--set", "crab.enabled=true,crab.vipPool={192.0.2.0/28},monitoring.prometheusRule.enabled=true,monitoring.podMonitor.enabled=true,monitoring.dashboard.enabled=true"}

// K-8: the values of every released chart render, as they are and with all that is new.
func TestValuesOfEveryReleasedChartRender(t *testing.T) {
	for _, archive := range released(t) {
		t.Run(filepath.Base(archive), func(t *testing.T) {
			old := documents[appsv1.Deployment](t, template(t, archive), "Deployment")[0]
			chart := reusing(t, packed(t, archive, "values.yaml"))
			for _, args := range [][]string{nil, everything} {
				rendered, err := run(t, chart, args...)
				if err != nil {
					t.Errorf("%v: %v", args, err)
					continue
				}
				now := documents[appsv1.Deployment](t, rendered, "Deployment")[0]
				if old.Name != now.Name || !reflect.DeepEqual(old.Spec.Selector, now.Spec.Selector) || *old.Spec.Replicas != *now.Spec.Replicas {
					t.Errorf("%v: the Deployment was %s %v, is %s %v", args, old.Name, old.Spec.Selector, now.Name, now.Spec.Selector)
				}
			}
		})
	}
}

// keys are the paths of all values, sections included.
func keys(path string, of map[string]any) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		out = append(out, at)
		if section, ok := of[key].(map[string]any); ok {
			out = append(out, keys(at, section)...)
		}
	}
	return out
}

func values(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile("bobtail/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// nothing are values whose null is "none of it", as Helm's users know it of resources
// and tolerations; any other value without which the chart cannot do keeps its default.
var nothing = []string{"resources", "crab.agent.resources", "crab.agent.tolerations", "nodes.resources", "nodes.tolerations", "monitoring.dashboard.labels"}

// K-8: any value may be null, whole sections included, and the chart is then what it is
// without the setting.
func TestEachValueMayBeNull(t *testing.T) {
	all := keys("", values(t))
	if len(all) < 60 {
		t.Fatalf("only %d values", len(all))
	}
	want := template(t, "bobtail", append(everything, "--set", "crds.install=false")...)
	for _, key := range all {
		if testing.Short() && strings.Contains(key, ".") {
			continue // a minute of Helm: whole sections are shown here, each value by make test-all
		}
		t.Run(key, func(t *testing.T) {
			got, err := run(t, "bobtail", append(everything, "--set", "crds.install=false", "--set", key+"=null")...)
			if err != nil {
				t.Fatal(err)
			}
			of := func(p string) bool { return key == p || strings.HasPrefix(key, p+".") }
			if on := strings.HasPrefix(key, "crab") || strings.HasPrefix(key, "monitoring") || strings.HasPrefix(key, "crds"); on || slices.ContainsFunc(nothing, of) {
				return // what was turned on here is off again, or nothing of it is wanted
			}
			if got != want {
				t.Errorf("the chart is another one:\n%s", difference(got, want))
			}
		})
	}
}

func difference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "got " + a[i] + "\nwant " + b[i]
		}
	}
	return "one is longer than the other"
}

// K-8: the oldest values, which lack most sections, with each section null on top.
func TestOldestValuesWithNullSections(t *testing.T) {
	old := packed(t, "baseline/bobtail-0.1.0.tgz", "values.yaml")
	for section := range values(t) {
		t.Run(section, func(t *testing.T) {
			if _, err := run(t, reusing(t, old), "--set", section+"=null"); err != nil {
				t.Error(err)
			}
		})
	}
}

// K-8: null of what a container may take, or of where it may run, is no bound.
func TestNullOfWhatMayBeNothing(t *testing.T) {
	rendered := template(t, "bobtail", "--set", "crab.enabled=true,resources.limits=null,crab.agent.resources=null,crab.agent.tolerations=null")
	d := documents[appsv1.Deployment](t, rendered, "Deployment")[0].Spec.Template.Spec
	if r := d.Containers[0].Resources; len(r.Limits) != 0 || len(r.Requests) != 2 {
		t.Errorf("resources %+v", r)
	}
	agent := documents[appsv1.DaemonSet](t, rendered, "DaemonSet")[0].Spec.Template.Spec
	if r := agent.Containers[0].Resources; len(r.Limits)+len(r.Requests)+len(agent.Tolerations) != 0 {
		t.Errorf("resources %+v, tolerations %v", r, agent.Tolerations)
	}
}

// K-8: a chart whose values changed has another version number than any released one.
func TestVersionTellsOtherValues(t *testing.T) {
	type head struct {
		Version string `json:"version"`
	}
	var now head
	text, err := os.ReadFile("bobtail/Chart.yaml")
	if err != nil || yaml.Unmarshal(text, &now) != nil || now.Version == "" {
		t.Fatalf("Chart.yaml: %v", err)
	}
	for _, archive := range released(t) {
		var then head
		if err := yaml.Unmarshal(packed(t, archive, "Chart.yaml"), &then); err != nil {
			t.Fatal(err)
		}
		was := map[string]any{}
		if err := yaml.Unmarshal(packed(t, archive, "values.yaml"), &was); err != nil {
			t.Fatal(err)
		}
		if then.Version == now.Version && !reflect.DeepEqual(was, values(t)) {
			t.Errorf("%s has version %s, too, and other values: raise the version in Chart.yaml", archive, now.Version)
		}
	}
}
