// SPDX-License-Identifier: Apache-2.0

package cores

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/harness/schema"
)

// The cpuset of a container, in control groups of either version.
func TestCpusetFile(t *testing.T) {
	for text, want := range map[string]string{
		"12:memory:/a\n5:cpuset:/bobtail-x/a/pod1\n0::/elsewhere\n": "/sys/fs/cgroup/cpuset/bobtail-x/a/pod1/cpuset.cpus",
		"0::/kubepods/pod1/c\n":   "/sys/fs/cgroup/kubepods/pod1/c/cpuset.cpus",
		"12:memory:/a\n1:name:/b": "",
	} {
		got, err := cpusetFile(text)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// What is in force is read from the container's status, not from what was asked for.
func TestServerLimit(t *testing.T) {
	var p server
	text := `{"metadata":{"name":"s"},"spec":{"containers":[{"name":"server","resources":{"limits":{"cpu":"2"}}}]},
	 "status":{"qosClass":"Burstable","containerStatuses":[{"name":"other","resources":{"limits":{"cpu":"9"}}},{"name":"server","restartCount":3,"resources":{"limits":{"cpu":"1"}}}]}}`
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	if p.limit() != "1" || p.restarts() != 3 || p.Metadata.Name != "s" || p.Status.QOSClass != "Burstable" {
		t.Errorf("%+v", p)
	}
}

// Manifests are such as the API server admits.
func TestManifests(t *testing.T) {
	s := &Suite{Env: &harness.Env{Version: "0.0.0"}}
	example, err := os.ReadFile("../../../examples/tcp-afxdp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := schema.Read("../../../crds")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{s.flowService(), string(example),
		s.service(Service, "serve", "{mode: WorkStealing, minCores: 1, maxCores: 2, batchSize: 16}", "--service-time=fixed:1ms"),
		s.service(own, "serve", "{mode: WorkStealing, maxCores: 1, cpus: Exclusive}", "--service-time=fixed:1ms"),
		s.service(ignorant, "example", "{mode: WorkStealing, maxCores: 1}", "")} {
		if judged, refused, err := definitions.Refused(text); err != nil || judged != 1 || len(refused) > 0 {
			t.Errorf("%d judged, %v, %v in\n%s", judged, refused, err, text)
		}
	}
}
