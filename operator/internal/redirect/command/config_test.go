// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Loads are counted for somebody; balancers are named with a key (C-64).
func TestConfigOfBalancers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	for text, want := range map[string]string{
		`{"watch":["10.0.0.1:80"]}`: "watch: loads are told to the peers of announce, or to balancers",
		`{"watch":["10.0.0.1:80"],"balancers":{"addresses":["10.0.0.20:8470","[fd00::20]:8470"],"keyDir":"/k"}}`: "",
		`{"balancers":{"addresses":[],"keyDir":"/k"}}`:                                                           "balancers.addresses: name at least one",
		`{"balancers":{"addresses":["10.0.0.20:8470"]}}`:                                                         "balancers.keyDir: name the folder",
		`{"balancers":{"addresses":["10.0.0.20:0"],"keyDir":"/k"}}`:                                              "balancers.addresses: 10.0.0.20:0 is not",
		`{"lives":{"idle":-1}}`:          "lives.idle: -1 is less than nothing",
		`{"balancers":{"keyFile":"/k"}}`: "unknown field",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readConfig(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
