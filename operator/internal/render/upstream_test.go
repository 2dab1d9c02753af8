// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

// object of examples/sriov, as far as it is looked at.
type upstream struct {
	Kind     string
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Data map[string]string
	Spec struct {
		Config       string
		ResourceName string
		DeviceType   string
		Device       struct{ NetworkAttachment, ResourceName string }
	}
}

func upstreams(t *testing.T, file string) map[string]upstream {
	t.Helper()
	text, err := os.ReadFile("../../../examples/sriov/" + file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]upstream{}
	for _, part := range bytes.Split(text, []byte("\n---\n")) {
		var o upstream
		if err := yaml.Unmarshal(part, &o); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[o.Kind] = o
	}
	return out
}

// The three files of examples/sriov speak of one resource and one network, whichever way
// the functions are made; else a reader's pods would wait for ever.
func TestExamplesOfUpstreamsAgree(t *testing.T) {
	service, operator := upstreams(t, "service.yaml"), upstreams(t, "operator.yaml")
	var plugin struct {
		ResourceList []struct {
			ResourcePrefix, ResourceName string
			Selectors                    struct{ Drivers []string }
		}
	}
	if err := json.Unmarshal([]byte(upstreams(t, "device-plugin.yaml")["ConfigMap"].Data["config.json"]), &plugin); err != nil || len(plugin.ResourceList) != 1 {
		t.Fatalf("the device plugin's configuration: %v, %+v", err, plugin)
	}
	asked, definition, given := service["RpcService"].Spec.Device, service["NetworkAttachmentDefinition"], plugin.ResourceList[0]
	if asked.ResourceName != given.ResourcePrefix+"/"+given.ResourceName || definition.Metadata.Annotations["k8s.v1.cni.cncf.io/resourceName"] != asked.ResourceName {
		t.Errorf("asked for %s, defined with %v, given %+v", asked.ResourceName, definition.Metadata.Annotations, given)
	}
	if asked.NetworkAttachment != definition.Metadata.Name || !json.Valid([]byte(definition.Spec.Config)) {
		t.Errorf("network %s, definition %s: %s", asked.NetworkAttachment, definition.Metadata.Name, definition.Spec.Config)
	}
	if len(given.Selectors.Drivers) != 1 || given.Selectors.Drivers[0] != operator["SriovNetworkNodePolicy"].Spec.DeviceType {
		t.Errorf("drivers %v and %s", given.Selectors.Drivers, operator["SriovNetworkNodePolicy"].Spec.DeviceType)
	}
	for _, kind := range []string{"SriovNetworkNodePolicy", "SriovNetwork"} {
		if o := operator[kind]; o.Spec.ResourceName != given.ResourceName || kind == "SriovNetwork" && o.Metadata.Name != asked.NetworkAttachment {
			t.Errorf("%s %s has resource %s", kind, o.Metadata.Name, o.Spec.ResourceName)
		}
	}
}
