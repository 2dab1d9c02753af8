// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// notes are what helm prints after an installation.
func notes(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(needs.Tool(t, "helm"), append([]string{"install", "rel", "bobtail", "--namespace", "ns", "--dry-run=client"}, args...)...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG=/dev/null")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	_, text, ok := strings.Cut(string(out), "\nNOTES:\n")
	if !ok {
		t.Fatalf("no notes in:\n%s", out)
	}
	return text
}

// K-9: who installs anew elsewhere is first told how to keep every service; the e2e of
// the main job runs that very command. Helm reads the annotations it names.
func TestNotesNameTheSafeWayFirst(t *testing.T) {
	text := notes(t)
	safe, harsh := strings.Index(text, handOver), strings.Index(text, "kubectl delete")
	if safe < 0 || harsh < 0 || safe > harsh {
		t.Errorf("the way that keeps services is at %d, the one that deletes them at %d, in:\n%s", safe, harsh, text)
	}
	if !strings.Contains(text, "every RpcService and its pods") {
		t.Errorf("what is lost is not said:\n%s", text)
	}
	page, err := os.ReadFile("../docs/guides/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), handOver) {
		t.Error("docs/guides/operations.md does not name it")
	}
}

// handOver is the beginning of the command that gives the CRDs to another release.
const handOver = "kubectl annotate crd -l app.kubernetes.io/part-of=bobtail --overwrite"

// K-8: null sections do not break the notes either.
func TestNotesOfNullSections(t *testing.T) {
	for section := range values(t) {
		notes(t, "--set", section+"=null")
	}
}

// K-39: the service that the notes deploy is one that the installed values can pull, and
// the page for a program of one's own is named.
func TestK39NotesFitTheInstalledValues(t *testing.T) {
	for registry, args := range map[string][]string{
		"localhost":             nil,
		"registry.example/team": {"--set", "image.registry=registry.example/team,imagePullSecrets={pull}"},
	} {
		text := notes(t, args...)
		_, rest, _ := strings.Cut(text, "echo '")
		manifest, command, _ := strings.Cut(rest, "'")
		service := v1alpha1.RpcService{}
		if err := yaml.UnmarshalStrict([]byte(manifest), &service); err != nil || !strings.HasPrefix(command, " | kubectl apply -f -\n") {
			t.Fatalf("%v: %s", err, text)
		}
		if got, want := service.Spec.Server.Image, registry+"/bobtail/serve:0.2.0"; got != want || service.Name != "hello" {
			t.Errorf("%s with image %s, want %s", service.Name, got, want)
		}
		if local := registry == "localhost"; strings.Contains(text, "localhost") != local || len(service.Spec.ImagePullSecrets) != len(args)/2 {
			t.Errorf("%s: %v in\n%s", registry, service.Spec.ImagePullSecrets, text)
		}
		if !strings.Contains(text, "docs/start/your-own-service.md") {
			t.Errorf("no way to a program of one's own:\n%s", text)
		}
	}
}
