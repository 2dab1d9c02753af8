// SPDX-License-Identifier: Apache-2.0

package cores

import (
	"encoding/json"
	"testing"
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
