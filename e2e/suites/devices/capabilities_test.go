// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"encoding/json"
	"strings"
	"testing"
)

const aPod = `{"metadata":{"name":"s-1","namespace":"n","labels":{"bobtail.dev/service":"s"},"ownerReferences":[{"name":"rs"}],
 "annotations":{"k8s.v1.cni.cncf.io/networks":"data","k8s.v1.cni.cncf.io/network-status":"[]"}},
 "spec":{"nodeName":"node-a","readinessGates":[{"conditionType":"x"}],"restartPolicy":"Always","containers":[
  {"name":"server","securityContext":{"capabilities":{"add":["NET_RAW","BPF"],"drop":["ALL"]}}}]},"status":{"phase":"Running"}}`

// A copy belongs to no service and has one capability fewer; the pod it was made from keeps its own.
func TestACopyHasOneCapabilityFewer(t *testing.T) {
	var pod Object
	if err := json.Unmarshal([]byte(aPod), &pod); err != nil {
		t.Fatal(err)
	}
	for missing, want := range map[string]string{"": `"add":["NET_RAW","BPF"]`, "NET_RAW": `"add":["BPF"]`, "BPF": `"add":["NET_RAW"]`} {
		made, err := CopyWithout(pod, copyName(missing), missing)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(made)
		if err != nil {
			t.Fatal(err)
		}
		got := string(text)
		if !strings.Contains(got, want) || !strings.Contains(got, `"k8s.v1.cni.cncf.io/networks":"data"`) || !strings.Contains(got, `"restartPolicy":"Never"`) {
			t.Errorf("without %q: %s", missing, got)
		}
		for _, not := range []string{"network-status", "nodeName", "readinessGates", "ownerReferences", "bobtail.dev/service", "Running"} {
			if strings.Contains(got, not) {
				t.Errorf("without %q it still has %s: %s", missing, not, got)
			}
		}
	}
	if _, err := CopyWithout(pod, "x", "SYS_ADMIN"); err == nil || !strings.Contains(err.Error(), "SYS_ADMIN") {
		t.Errorf("a capability that nobody has can be taken away: %v", err)
	}
	if _, err := CapabilitiesOf(Object{"containers": []any{Object{}}}); err == nil {
		t.Error("a container without capabilities has some")
	}
}
