// SPDX-License-Identifier: Apache-2.0

package latencyexperiment

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// An experiment that a page or an example shows is one that is run: its loads can be judged within its limit, too,
// which the schema cannot know.
func TestExperimentsThatAreShown(t *testing.T) {
	shown := regexp.MustCompile("(?ms)^```yaml[^\n]*\n(.*?)^```")
	seen := 0
	for _, glob := range []string{"docs/*/*.md", "examples/*.yaml"} {
		files, err := filepath.Glob("../../../../" + glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", glob, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			blocks := []string{string(raw)}
			if strings.HasSuffix(file, ".md") {
				blocks = nil
				for _, m := range shown.FindAllStringSubmatch(string(raw), -1) {
					blocks = append(blocks, m[1])
				}
			}
			for _, text := range strings.Split(strings.Join(blocks, "\n---\n"), "\n---\n") {
				if strings.Contains(text, "\nkind: LatencyExperiment\n") {
					seen++
					runs(t, filepath.Base(file), text)
				}
			}
		}
	}
	if seen < 4 {
		t.Errorf("only %d experiments found: the search must be wrong", seen)
	}
}

func runs(t *testing.T, from, text string) {
	t.Helper()
	e := &v1alpha1.LatencyExperiment{}
	if err := yaml.UnmarshalStrict([]byte(text), e); err != nil {
		t.Errorf("%s: %v", from, err)
		return
	}
	if e.Spec.Workload.Protocol == "" {
		e.Spec.Workload.Protocol = v1alpha1.ExperimentR2P2 // the schema's defaults
	}
	if e.Spec.Percentile == "" {
		e.Spec.Percentile = "99"
	}
	target := &v1alpha1.RpcService{}
	if e.Spec.Workload.Protocol != v1alpha1.ExperimentR2P2 {
		target.Spec.Protocol, target.Spec.TCP = v1alpha1.ProtocolTCP, &v1alpha1.RpcServiceTCP{Port: 6379}
	}
	gaps := "1000 2000"
	if _, got := decideAccepted(e, surroundings{target: target, gaps: &gaps}); got.Status != metav1.ConditionTrue {
		t.Errorf("%s: %s is not accepted: %s: %s", from, e.Name, got.Reason, got.Message)
	}
}
