// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
)

// PanelQuery is one query of the dashboard.
type PanelQuery struct{ Panel, Expr string }

var (
	variable = regexp.MustCompile(`\$\{?[a-z_]+\}?`)
	// quiet is the end of a query that shows only what is amiss: on a healthy cluster
	// nothing is, so it is asked without.
	quiet = regexp.MustCompile(` > 0$`)
	// elsewhere: no group runs here, since this cluster has no volumes (e2e-replica-cluster
	// has), and no service that schedules cores (e2e-sched).
	elsewhere = regexp.MustCompile(`\bbobtail_(group|server_(threads|stolen|parks|slow))_`)
)

// PanelQueries are all queries of a dashboard, every variable at All.
func PanelQueries(file string) ([]PanelQuery, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var out []PanelQuery
	for _, p := range board.Panels {
		for _, t := range p.Targets {
			if elsewhere.MatchString(t.Expr) {
				continue
			}
			out = append(out, PanelQuery{p.Title, quiet.ReplaceAllString(variable.ReplaceAllString(t.Expr, ".*"), "")})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no queries", file)
	}
	return out, nil
}
