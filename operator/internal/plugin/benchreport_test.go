// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// durations that users write, or may, at both ends of what bench accepts and between.
var durations = []string{"1s", "60s", "1m", "90s", "1m30s", "1h", "59m59s", "1500ms", "1.5s", "1001ms", "1h0m0s", "3599999999999ns", "1000001us"}

// K-24: whatever bench accepts, the load accepts: one number, one unit.
func TestBenchWritesDurationsThatTheLoadReads(t *testing.T) {
	single := regexp.MustCompile(`^--(duration|timeout)=[0-9]+(ns|us|ms|s)$`)
	for _, text := range durations {
		c, _ := aCluster(t, false)
		c.Client = jobController(c.Client, corev1.PodSucceeded)
		if _, _, err := execute(t, c, "bench", "rpcsvc/cart", "--rate=1", "--keep", "--duration="+text, "--timeout=60s"); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		jobs := &batchv1.JobList{}
		if err := c.List(t.Context(), jobs, client.InNamespace(ns)); err != nil || len(jobs.Items) != 1 {
			t.Fatalf("%d Jobs, %v", len(jobs.Items), err)
		}
		want, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, arg := range jobs.Items[0].Spec.Template.Spec.Containers[0].Args {
			name, value, _ := strings.Cut(arg, "=")
			if name != "--duration" && name != "--timeout" {
				continue
			}
			seen++
			if !single.MatchString(arg) {
				t.Errorf("--duration=%s: the load is asked for %s", text, arg)
			}
			if got, err := time.ParseDuration(value); err != nil || name == "--duration" && got != want {
				t.Errorf("--duration=%s becomes %s (%v)", text, arg, err)
			}
		}
		if seen != 2 {
			t.Errorf("%s: %d times in the arguments", text, seen)
		}
	}
}

// K-24: the load itself, where it is built, reads what bench writes.
func TestTheLoadReadsThem(t *testing.T) {
	program := needs.CProgram(t, "bobtail-load")
	for _, text := range durations {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		// An unknown option ends it after it has read the others.
		out, _ := exec.Command(program, "--duration="+singleUnit(d), "--timeout="+singleUnit(min(d, 10*time.Minute)), "--no-such-option").CombinedOutput()
		if !bytes.Contains(out, []byte("no-such-option")) || bytes.Contains(out, []byte("must be")) {
			t.Errorf("%s: %s", text, out)
		}
	}
}

// K-25: with --report=json stdout is one JSON document; what the load says besides is
// for people.
func TestJSONReportIsJSONAlone(t *testing.T) {
	var out, errs bytes.Buffer
	logs := "12:00:00 bobtail-load: MTU 1472 (auto)\n{\"offered\":10,\"histogram\":{\"buckets\":[]}}\n12:00:01 bobtail-load: {odd}\n"
	if err := printReport(streams{&out, &errs}, strings.NewReader(logs), "json"); err != nil {
		t.Fatal(err)
	}
	if out.String() != "{\"offered\":10,\"histogram\":{\"buckets\":[]}}\n" {
		t.Errorf("stdout: %q", out.String())
	}
	if !strings.Contains(errs.String(), "MTU 1472") || !strings.Contains(errs.String(), "{odd}") || strings.Contains(errs.String(), "offered") {
		t.Errorf("stderr: %q", errs.String())
	}
	out.Reset()
	if err := printReport(streams{&out, &errs}, strings.NewReader(logs), "table"); err != nil || out.String() != logs {
		t.Errorf("table: %v, %q", err, out.String())
	}
	// No report is a failure that says so, and stdout stays empty.
	c, _ := aCluster(t, false)
	c.Client = jobController(c.Client, corev1.PodSucceeded)
	text, said, err := execute(t, c, "bench", "rpcsvc/cart", "--rate=1", "--report=json")
	if err == nil || !strings.Contains(err.Error(), "no report") || text != "" || !strings.Contains(said, "fake logs") {
		t.Errorf("%v, stdout %q, stderr %q", err, text, said)
	}
}

// K-32: the load is pulled with the service's secrets, or with those that are given.
func TestBenchPullSecrets(t *testing.T) {
	service := aService()
	service.Spec.ImagePullSecrets = []v1alpha1.SecretReference{{Name: "of-the-service"}}
	for want, given := range map[string][]string{"of-the-service": nil, "given": {"given"}} {
		if s := (load{pullSecrets: given}).job(service).Spec.Template.Spec.ImagePullSecrets; len(s) != 1 || s[0].Name != want {
			t.Errorf("%v: %v, want %s", given, s, want)
		}
	}
}
