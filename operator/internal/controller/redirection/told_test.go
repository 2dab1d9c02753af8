// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
)

// told are the events that were made, sorted.
func told(r *events.FakeRecorder) (out []string) {
	for {
		select {
		case text := <-r.Events:
			out = append(out, text)
		default:
			slices.Sort(out)
			return out
		}
	}
}

// An answer that changed is told once, and so is a new address of one that wants some; what waits for agents is no warning yet.
func TestAnswersAreTold(t *testing.T) {
	with := func(address string, conditions ...metav1.Condition) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Status.Conditions = conditions
			if address != "" {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address, IPMode: ptr(corev1.LoadBalancerIPModeProxy)}}
			}
		}
	}
	is := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "why " + reason}
	}
	const accepted, programmed = v1alpha1.ServiceConditionAccepted, v1alpha1.ServiceConditionProgrammed
	yes, waits := is(accepted, "True", v1alpha1.ReasonAccepted), is(programmed, "False", v1alpha1.ReasonReconciling)
	for name, c := range map[string]struct {
		before, after func(*corev1.Service)
		want          []string
	}{
		"nothing changed":     {with("", yes, waits), with("", yes, waits), nil},
		"the first answers":   {with(""), with("", yes, waits), []string{"Normal Accepted why Accepted", "Normal Reconciling why Reconciling"}},
		"another reason":      {with("", yes), with("", is(accepted, "True", v1alpha1.ReasonEndpointsExcluded)), []string{"Warning EndpointsExcluded why EndpointsExcluded"}},
		"another status":      {with("", yes), with("", is(accepted, "False", v1alpha1.ReasonAccepted)), []string{"Warning Accepted why Accepted"}},
		"not accepted":        {with("", waits), with("", is(programmed, "False", v1alpha1.ReasonNotAccepted)), []string{"Normal NotAccepted why NotAccepted"}},
		"another's condition": {with(""), with("", is("other.dev/Told", "False", "Bad")), nil},
		"an address":          {with(""), with("192.0.2.1"), []string{"Normal AddressGiven the Service has the address 192.0.2.1 of the pool 192.0.2.1-192.0.2.4"}},
		"the same address":    {with("192.0.2.1"), with("192.0.2.1"), nil},
		"no address wanted":   {with(""), func(s *corev1.Service) { with("192.0.2.1")(s); nobodys(s) }, nil},
	} {
		recorder := events.NewFakeRecorder(10)
		r := &Reconciler{Events: recorder, Pool: pool(t, "192.0.2.1-192.0.2.4")}
		before, after := service("a", 1, "", c.before), service("a", 1, "", c.after)
		r.announce(&before, &after)
		if got := told(recorder); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A status that changed is written, and told once it is; a Service that went meanwhile is nobody's trouble, any other failure names it.
func TestStatusesAreWritten(t *testing.T) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, "a")
	for name, c := range map[string]struct {
		answers error
		settled bool
		writes  int
		told    int
		says    string
	}{
		"written":      {nil, false, 1, 2, ""},
		"as it stands": {nil, true, 0, 0, ""},
		"gone":         {gone, false, 1, 0, ""},
		"refused":      {errors.New("not now"), false, 1, 0, "write the status of Service shop/a: not now"},
	} {
		t.Run(name, func(t *testing.T) {
			before := service("a", 1, "", nil)
			d := decision{service: before.DeepCopy(), accepted: verdict.Yes(v1alpha1.ReasonAccepted, "yes"), programmed: verdict.No(v1alpha1.ReasonReconciling, "wait")}
			if c.settled {
				writeStatus(&before, d, noon)
			}
			writes := 0
			world := fake.NewClientBuilder().WithScheme(s).WithObjects(&before).WithStatusSubresource(&corev1.Service{}).WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
					writes++
					if c.answers != nil {
						return c.answers
					}
					return w.SubResource(sub).Patch(ctx, o, p, opts...)
				}}).Build()
			recorder := events.NewFakeRecorder(10)
			r := &Reconciler{Writer: world, Events: recorder, Now: func() time.Time { return noon }}
			err := r.patchStatus(t.Context(), &before, d)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if got := told(recorder); writes != c.writes || len(got) != c.told {
				t.Errorf("written %d times, told %q", writes, got)
			}
		})
	}
}
