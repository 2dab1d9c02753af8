// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// table asks for what `kubectl get` prints.
func table(t *testing.T, ns, resource, name string) *metav1.Table {
	t.Helper()
	c := rest.CopyConfig(config)
	c.GroupVersion, c.APIPath = &schema.GroupVersion{Group: "bobtail.dev", Version: "v1alpha1"}, "/apis"
	c.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	r, err := rest.RESTClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	out := &metav1.Table{}
	err = r.Get().NamespaceIfScoped(ns, ns != "").Resource(resource).Name(name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(context.Background()).Into(out)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// shown is the header and the only row, as kubectl prints them without -o wide.
func shown(t *testing.T, table *metav1.Table) (header, row string) {
	t.Helper()
	if len(table.Rows) != 1 {
		t.Fatalf("%d rows", len(table.Rows))
	}
	var names, cells []string
	for i, c := range table.ColumnDefinitions {
		if c.Priority == 0 {
			names = append(names, strings.ToUpper(c.Name))
			cells = append(cells, fmt.Sprint(table.Rows[0].Cells[i]))
		}
	}
	return strings.Join(names, " "), strings.Join(cells, " ")
}

// wide is a cell of the only row that -o wide adds.
func wide(table *metav1.Table, column string) string {
	for i, c := range table.ColumnDefinitions {
		if c.Name == column && c.Priority > 0 {
			return fmt.Sprint(table.Rows[0].Cells[i])
		}
	}
	return ""
}

func TestPrinterColumns(t *testing.T) {
	t.Parallel()
	w, _, routers := serving(t, "cols", `{}`)
	header, row := shown(t, table(t, w.ns, "rpcservices", "cols"))
	if header != "NAME READY PROGRAMMED WORKERS POLICY DEVICE AGE" {
		t.Errorf("rpcsvc columns: %s", header)
	}
	if !strings.HasPrefix(row, "cols True True 2/2 JBSQ Kernel ") {
		t.Errorf("rpcsvc row: %s", row)
	}
	for _, r := range routers {
		r.measures(1000, 300, 0)
	}
	w.objective(`{}`)
	slo := w.waitMet(metav1.ConditionTrue, v1alpha1.ReasonObjectiveMet)
	header, row = shown(t, table(t, w.ns, "servicelevelobjectives", "echo-p99"))
	if header != "NAME TARGET P OBJECTIVE OBSERVED RPS REJECTED MET AGE" {
		t.Errorf("slo columns: %s", header)
	}
	if !strings.HasPrefix(row, "echo-p99 cols 99 500us "+slo.Status.Observed+" 400 0.0% True ") {
		t.Errorf("slo row: %s", row)
	}
	if got := wide(table(t, w.ns, "servicelevelobjectives", "echo-p99"), "Interval"); got == "" || got != slo.Status.ObservedRange {
		t.Errorf("slo -o wide shows the interval %q of %q", got, slo.Status.ObservedRange)
	}
}

func TestNamesForKubectl(t *testing.T) {
	needs.APIServer(t)
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	list, err := d.ServerResourcesForGroupVersion("bobtail.dev/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	short := map[string]string{"rpcservices": "rpcsvc", "servicelevelobjectives": "slo", "latencyexperiments": "lexp", "nodedataplanes": "ndp", "programmableswitches": "psw"}
	for _, r := range list.APIResources {
		want, ok := short[r.Name]
		if !ok {
			continue
		}
		delete(short, r.Name)
		if len(r.ShortNames) != 1 || r.ShortNames[0] != want || len(r.Categories) != 1 || r.Categories[0] != "bobtail" || r.Namespaced == (r.Name == "nodedataplanes" || r.Name == "programmableswitches") {
			t.Errorf("%s: short names %v, categories %v", r.Name, r.ShortNames, r.Categories)
		}
	}
	if len(short) > 0 {
		t.Errorf("not served: %v", short)
	}
}

// The scale subresource drives spec.replicas, and shows pods and their selector
// to autoscalers.
func TestScale(t *testing.T) {
	t.Parallel()
	w, _, _ := serving(t, "scaled", `{}`)
	scale := &autoscalingv1.Scale{}
	if err := direct.SubResource("scale").Get(context.Background(), w.service(), scale); err != nil {
		t.Fatal(err)
	}
	if scale.Spec.Replicas != 2 || scale.Status.Replicas != 2 || scale.Status.Selector != "bobtail.dev/component=server,bobtail.dev/service=scaled" {
		t.Errorf("scale %+v %+v", scale.Spec, scale.Status)
	}
	scale.Spec.Replicas = 0
	if err := direct.SubResource("scale").Update(context.Background(), w.service(), client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonScaledToZero)
}

// Users are told by events what conditions say.
func TestEvents(t *testing.T) {
	t.Parallel()
	w, _, _ := serving(t, "told", `{}`)
	eventually(t, "events of the conditions", func() (bool, string) {
		list := &eventsv1.EventList{}
		if err := direct.List(context.Background(), list, client.InNamespace(w.ns)); err != nil {
			return false, err.Error()
		}
		seen := map[string]bool{}
		for _, e := range list.Items {
			if e.Regarding.Kind == "RpcService" && e.Regarding.Name == "told" {
				seen[e.Reason] = true
			}
		}
		return seen[v1alpha1.ReasonAccepted] && seen[v1alpha1.ReasonProgrammed] && seen[v1alpha1.ReasonReady], fmt.Sprint(seen)
	})
}
