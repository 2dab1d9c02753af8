// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"fmt"
	"io/fs"
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

// Config is the documented scrape configuration, with how to reach the API server
// from outside the cluster, the rules and a short interval; the rest is as shown.
func (p *Page) Config(kubeconfig string, rules []string) ([]byte, error) {
	jobs, _ := p.Scrape["scrape_configs"].([]any)
	discoveries := 0
	for _, j := range jobs {
		job, _ := j.(map[string]any)
		all, _ := job["kubernetes_sd_configs"].([]any)
		for _, d := range all {
			if discovery, ok := d.(map[string]any); ok {
				discovery["kubeconfig_file"] = kubeconfig
				discoveries++
			}
		}
	}
	if discoveries == 0 {
		return nil, fmt.Errorf("%s: nothing in the scrape configuration discovers pods", p.Path)
	}
	whole := map[string]any{"global": map[string]any{"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"}, "rule_files": rules}
	for key, value := range p.Scrape {
		whole[key] = value
	}
	text, err := yaml.Marshal(whole)
	if err != nil {
		return nil, fmt.Errorf("write the configuration of Prometheus: %w", err)
	}
	return text, nil
}
