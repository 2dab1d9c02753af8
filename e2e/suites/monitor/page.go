// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Page is what the documentation says about metrics: the scrape configuration and
// the queries it shows.
type Page struct {
	Path    string
	Scrape  map[string]any
	Queries []string
}

var block = regexp.MustCompile("(?ms)^```([a-z]+)[^\n]*\n(.*?)^```")

// FindPage looks for the page that shows the scrape configuration, wherever it is.
func FindPage(docs string) (*Page, error) {
	var found []*Page
	err := filepath.WalkDir(docs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		page, err := readPage(path, string(text))
		if page != nil {
			found = append(found, page)
		}
		return err
	})
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d pages below %s show a scrape configuration, want 1", len(found), docs)
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// readPage gives nil for a page without a scrape configuration.
func readPage(path, text string) (*Page, error) {
	page := &Page{Path: path}
	for _, m := range block.FindAllStringSubmatch(text, -1) {
		switch kind, body := m[1], m[2]; {
		case kind == "promql":
			page.Queries = append(page.Queries, strings.TrimSpace(body))
		case kind == "yaml" && strings.HasPrefix(body, "scrape_configs:"):
			if page.Scrape != nil {
				return nil, fmt.Errorf("%s shows two scrape configurations", path)
			}
			if err := yaml.Unmarshal([]byte(body), &page.Scrape); err != nil {
				return nil, fmt.Errorf("%s: the scrape configuration: %w", path, err)
			}
		}
	}
	if page.Scrape == nil {
		return nil, nil
	}
	return page, nil
}

// Configs are the documented scrape configuration for a Prometheus that reads its
// targets from a file, and its discovery apart, for what writes that file: Debian
// builds Prometheus without Kubernetes discovery. What is added is how to reach the API
// server, the rules, and a short interval; the rest is as shown.
func (p *Page) Configs(kubeconfig, targets string, rules []string) (scrape, discovery []byte, err error) {
	jobs, _ := p.Scrape["scrape_configs"].([]any)
	if len(jobs) != 1 {
		return nil, nil, fmt.Errorf("%s: %d scrape jobs, want 1", p.Path, len(jobs))
	}
	job, _ := jobs[0].(map[string]any)
	found, _ := job["kubernetes_sd_configs"].([]any)
	if len(found) == 0 {
		return nil, nil, fmt.Errorf("%s: nothing in the scrape configuration discovers pods", p.Path)
	}
	var reached []any
	for _, f := range found {
		one, _ := f.(map[string]any)
		reached = append(reached, with(one, "kubeconfig_file", kubeconfig))
	}
	job = with(job, "file_sd_configs", []any{map[string]any{"files": []string{targets}, "refresh_interval": "5s"}})
	delete(job, "kubernetes_sd_configs")
	whole := with(p.Scrape, "scrape_configs", []any{job})
	whole["global"] = map[string]any{"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"}
	whole["rule_files"] = rules
	if scrape, err = yaml.Marshal(whole); err == nil {
		discovery, err = yaml.Marshal(map[string]any{"kubernetes_sd_configs": reached})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("write the configuration of Prometheus: %w", err)
	}
	return scrape, discovery, nil
}

// with is a copy of a map with one key more.
func with(of map[string]any, key string, value any) map[string]any {
	out := maps.Clone(of)
	out[key] = value
	return out
}
