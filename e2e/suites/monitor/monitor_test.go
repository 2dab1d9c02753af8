// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// K-21: the page shows one scrape configuration and a query, and what Prometheus gets
// differs from it in how to reach the API server alone.
func TestPageIsTakenAsItIs(t *testing.T) {
	page, err := FindPage("../../../docs")
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Queries) == 0 || !strings.Contains(page.Queries[0], "service") {
		t.Errorf("queries %q", page.Queries)
	}
	scrape, discovery, err := page.Configs("/kubeconfig", "/targets", []string{"alerts.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	var whole struct {
		Jobs []struct {
			Files   []map[string]any `json:"file_sd_configs"`
			Pods    []map[string]any `json:"kubernetes_sd_configs"`
			Relabel []map[string]any `json:"relabel_configs"`
			Honor   bool             `json:"honor_labels"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(scrape, &whole); err != nil {
		t.Fatal(err)
	}
	shown := page.Scrape["scrape_configs"].([]any)[0].(map[string]any)["relabel_configs"].([]any)
	if j := whole.Jobs; len(j) != 1 || !j[0].Honor || len(j[0].Relabel) != len(shown) || len(shown) < 4 || len(j[0].Files) != 1 || len(j[0].Pods) != 0 {
		t.Errorf("configuration:\n%s", scrape)
	}
	if want := "kubernetes_sd_configs:\n- kubeconfig_file: /kubeconfig\n  role: pod\n"; string(discovery) != want {
		t.Errorf("discovery:\n%s", discovery)
	}
}

func TestPagesThatShowNothingOrTwice(t *testing.T) {
	if page, err := readPage("x.md", "```yaml\nkind: Pod\n```\n"); page != nil || err != nil {
		t.Errorf("%v, %v", page, err)
	}
	once := "```yaml\nscrape_configs: []\n```\n"
	if _, err := readPage("x.md", once+once); err == nil {
		t.Error("two configurations pass for one")
	}
	page, err := readPage("x.md", once)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := page.Configs("k", "t", nil); err == nil {
		t.Error("a configuration without a job passes")
	}
	page.Scrape["scrape_configs"] = []any{map[string]any{"job_name": "x"}}
	if _, _, err := page.Configs("k", "t", nil); err == nil {
		t.Error("a configuration that discovers nothing passes")
	}
}

func TestMissingTargets(t *testing.T) {
	up := func(pod string, v float64) Sample {
		return Sample{map[string]string{"namespace": "n", "pod": pod}, v}
	}
	for name, c := range map[string]struct {
		up             []Sample
		lacking, wrong int
	}{
		"all":            {[]Sample{up("a", 1), up("b", 1)}, 0, 0},
		"none":           {nil, 2, 0},
		"one is down":    {[]Sample{up("a", 1), up("b", 0)}, 1, 1},
		"one is twice":   {[]Sample{up("a", 1), up("b", 1), up("b", 1)}, 0, 1},
		"one is no pod":  {[]Sample{up("a", 1), up("b", 1), up("c", 1)}, 0, 1},
		"one is unknown": {[]Sample{up("a", 1), {nil, 1}}, 1, 1},
	} {
		lacking, wrong := missing([]string{"n/a", "n/b"}, c.up)
		if len(lacking) != c.lacking || len(wrong) != c.wrong {
			t.Errorf("%s: lacking %q, wrong %q", name, lacking, wrong)
		}
	}
}

// Every query of the dashboard is asked, without variables and without what hides
// a healthy cluster.
func TestPanelQueries(t *testing.T) {
	all, err := PanelQueries("../../../charts/bobtail/files/dashboard.json")
	if err != nil || len(all) < 20 {
		t.Fatalf("%d queries, %v", len(all), err)
	}
	if slices.ContainsFunc(all, func(q PanelQuery) bool { return strings.Contains(q.Expr, "$") || strings.HasSuffix(q.Expr, "> 0") }) {
		t.Errorf("%v", all)
	}
}

func TestDecode(t *testing.T) {
	got, err := decode("x", `[{"metric":{"service":"a"},"value":[1,"2.5"]},{"metric":{},"value":[1,"NaN"]}]`)
	if err != nil || len(got) != 2 || got[0].Value != 2.5 || got[0].Labels["service"] != "a" {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{"", "{}", `[{"value":[1]}]`, `[{"value":[1,"x"]}]`} {
		if _, err := decode("x", wrong); err == nil {
			t.Errorf("%q passes", wrong)
		}
	}
}
