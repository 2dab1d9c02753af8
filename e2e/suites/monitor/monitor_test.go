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
	text, err := page.Config("/kubeconfig", []string{"alerts.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	var whole struct {
		Jobs []struct {
			Discovery []map[string]any `json:"kubernetes_sd_configs"`
			Relabel   []map[string]any `json:"relabel_configs"`
			Honor     bool             `json:"honor_labels"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	if j := whole.Jobs; len(j) != 1 || !j[0].Honor || len(j[0].Relabel) < 4 || j[0].Discovery[0]["kubeconfig_file"] != "/kubeconfig" || j[0].Discovery[0]["role"] != "pod" {
		t.Errorf("configuration:\n%s", text)
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
	if _, err := page.Config("k", nil); err == nil {
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
