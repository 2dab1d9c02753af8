// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The RpcService listens where its clients dial.
func TestTCPService(t *testing.T) {
	var o struct {
		Spec struct {
			Server struct{ Args []string }
			TCP    struct{ Port int }
		}
	}
	if err := yaml.Unmarshal([]byte(tcpService()), &o); err != nil {
		t.Fatal(err)
	}
	if len(o.Spec.Server.Args) != 2 || o.Spec.Server.Args[1] != fmt.Sprintf(":%d", o.Spec.TCP.Port) || o.Spec.TCP.Port != httpPort {
		t.Errorf("%+v", o.Spec)
	}
}

// The manifest reads as it is meant: the servers listen on the port of the Service,
// and the redirected Service keeps kube-proxy from relaying.
func TestManifest(t *testing.T) {
	kinds := map[string]int{}
	refusedBy := map[string]string{}
	for _, part := range strings.Split(manifest(), "\n---\n") {
		var o struct {
			Kind string
			Spec struct {
				Ports                 []struct{ Port, TargetPort int }
				ExternalTrafficPolicy string
				LoadBalancerClass     string
			}
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		kinds[o.Kind]++
		if o.Kind == "Service" {
			refusedBy[o.Metadata.Name] = rule(t, part)
		}
		switch o.Metadata.Name + o.Kind {
		case "webService":
			if o.Spec.Ports[0].Port != port || o.Spec.LoadBalancerClass != "bobtail.dev/crab" {
				t.Errorf("%+v", o)
			}
		case "cornerService":
			if o.Spec.ExternalTrafficPolicy != "Local" || o.Spec.Ports[0].TargetPort != port {
				t.Errorf("%+v", o)
			}
		}
	}
	for _, u := range allUnserved {
		if refusedBy[u.name] != u.rule {
			t.Errorf("Service %s is refused by %q, want %s", u.name, refusedBy[u.name], u.rule)
		}
		delete(refusedBy, u.name)
	}
	for name, by := range refusedBy {
		if by != "" {
			t.Errorf("Service %s is refused by %s", name, by)
		}
	}
	if kinds["Service"] != 7 || kinds["Deployment"] != 2 || kinds["DaemonSet"] != 1 {
		t.Errorf("kinds %v", kinds)
	}
}

// rule is what a Service of class bobtail.dev/crab must be refused by.
func rule(t *testing.T, manifest string) string {
	t.Helper()
	var o corev1.Service
	if err := yaml.Unmarshal([]byte(manifest), &o); err != nil {
		t.Fatal(err)
	}
	p := o.Spec.Ports[0]
	switch {
	case o.Spec.LoadBalancerClass == nil:
		return ""
	case p.Protocol == corev1.ProtocolUDP:
		return "ProtocolNotTCP"
	case o.Spec.SessionAffinity == corev1.ServiceAffinityClientIP:
		return "SessionAffinity"
	case p.TargetPort.IntValue() != 0 && p.TargetPort.IntValue() != int(p.Port):
		return "PortTranslation"
	}
	return ""
}
