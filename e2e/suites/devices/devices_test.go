// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// partsOf are the names of what a suite would play.
func partsOf(t *testing.T, only ...string) (names []string, scenes int) {
	t.Helper()
	chosen, err := (&Suite{Only: only}).chosen()
	if err != nil {
		t.Fatal(err)
	}
	for _, sc := range chosen {
		for _, p := range sc.parts {
			names = append(names, p.Name)
		}
	}
	return names, len(chosen)
}

// A scene is played only when one of its parts is wanted; a name that is no part's is refused.
func TestPartsAreChosenByScene(t *testing.T) {
	all, scenes := partsOf(t)
	if scenes != 4 || len(all) != 12 {
		t.Errorf("all: %v in %d scenes", all, scenes)
	}
	if got, scenes := partsOf(t, "claims", "edited"); scenes != 2 || !slices.Equal(got, []string{"edited", "claims"}) {
		t.Errorf("two: %v in %d scenes", got, scenes)
	}
	if err := (&Suite{Only: []string{"kernel"}}).Judge(); err == nil || !strings.Contains(err.Error(), `got "kernel"`) {
		t.Errorf("an unknown part: %v", err)
	}
}

// Each goal that belongs to a part names one that there is: of a run of parts it would never be asked for else.
func TestGoalsNameParts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "measure", "goals", "e2e-devices.json"))
	if err != nil {
		t.Fatal(err)
	}
	var goals []struct{ Name, Part string }
	if err := json.Unmarshal(text, &goals); err != nil {
		t.Fatal(err)
	}
	all, _ := partsOf(t)
	for _, g := range goals {
		if g.Part != "" && !slices.Contains(all, g.Part) {
			t.Errorf("%s is of part %q, which the suite has not", g.Name, g.Part)
		}
	}
}
