// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/internal/controller/apply"
)

var when = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// service is one of the RpcService with that UID; none: nobody's.
func service(owner types.UID) *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "echo", Labels: map[string]string{"bobtail.dev/service": "echo"}},
	}
	if owner != "" {
		s.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "bobtail.dev/v1alpha1", Kind: "RpcService", Name: "echo", UID: owner, Controller: ptr.To(true),
		}}
	}
	return s
}

// holding is a client that reads these objects and counts what is applied.
func holding(writes *int, objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			*writes++
			return nil
		},
	}).Build()
}

// Between plan and act sidecars are asked, which can take seconds. What was written and
// has left the cache since is written again only if nobody took it over: the cache holds
// what carries our label, so to lose the label and to be deleted look alike there.
func TestWhatIsTakenOverMeanwhileIsLeft(t *testing.T) {
	for _, c := range []struct {
		name           string
		cached, live   []client.Object
		silent, before bool // the API server does not answer; the object was written before
		writes         int
		said           string
	}{
		{name: "never written", live: []client.Object{service("2")}, writes: 1},
		{name: "deleted", before: true, writes: 1},
		{name: "the cache is late", before: true, live: []client.Object{service("1")}, writes: 1},
		{name: "still in the cache", before: true, cached: []client.Object{service("")}, live: []client.Object{service("")}, writes: 1},
		{name: "nobody's now", before: true, live: []client.Object{service("")}, said: "Service echo was taken over by somebody else"},
		{name: "another's now", before: true, live: []client.Object{service("2")}, said: "Service echo was taken over by somebody else"},
		{name: "no answer", before: true, silent: true, said: "look whether Service echo is free: unplugged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			writes := 0
			a := apply.New(holding(&writes), holding(&writes), "test", func() time.Time { return when })
			if c.before {
				if err := a.Apply(t.Context(), service("1"), true); err != nil || writes != 1 {
					t.Fatalf("the first write: %d, %v", writes, err)
				}
			}
			writes = 0
			a.Client, a.Live = holding(&writes, c.cached...), holding(&writes, c.live...)
			if c.silent {
				a.Live = unplugged{}
			}
			err := a.Apply(t.Context(), service("1"), true)
			if writes != c.writes || (err == nil) != (c.said == "") || err != nil && !strings.Contains(err.Error(), c.said) {
				t.Errorf("written %d times, %v; want %d and %q", writes, err, c.writes, c.said)
			}
		})
	}
}

type unplugged struct{}

func (unplugged) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("unplugged")
}

func (unplugged) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("unplugged")
}
