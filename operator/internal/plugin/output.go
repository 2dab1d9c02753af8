// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// format is how a command answers: as text for people, or the same facts as JSON or
// YAML for programs.
type format string

const (
	asText format = ""
	asJSON format = "json"
	asYAML format = "yaml"
)

func (f *format) flag(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(f), "output", "o", "", "json or yaml; left out: text for people")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{string(asJSON), string(asYAML)}, cobra.ShellCompDirectiveNoFileComp))
}

func (f format) check() error {
	if !slices.Contains([]format{asText, asJSON, asYAML}, f) {
		return fmt.Errorf("--output: must be json or yaml; got %q", string(f))
	}
	return nil
}

// print answers with facts, or with what text prints.
func (f format) print(s streams, facts any, text func() error) error {
	if f == asText {
		return text()
	}
	out, err := json.MarshalIndent(facts, "", "  ")
	if err == nil && f == asYAML {
		out, err = yaml.JSONToYAML(out)
	}
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	_, err = fmt.Fprintf(s.out, "%s\n", out)
	return err
}
