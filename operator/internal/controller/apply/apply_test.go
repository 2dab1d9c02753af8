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

// at is a Service as it was read: of that resource version, or of that generation where it has one.
func at(version string, generation int64) *corev1.Service {
	s := service("1")
	s.ResourceVersion, s.Generation = version, generation
	return s
}

// An object that stands as it was written is written again only when what it should be has changed, when somebody
// changed it, when its owner is another, after a while, and always where reading it costs as much.
func TestWhatStandsIsNotWritten(t *testing.T) {
	labelled := func(s *corev1.Service) *corev1.Service { s.Labels["more"] = "x"; return s }
	for _, c := range []struct {
		name     string
		was, is  *corev1.Service // as it was written, as it is read
		wanted   *corev1.Service
		later    time.Duration
		uncached bool
		writes   int
	}{
		{name: "as it was", was: at("7", 0), is: at("7", 0), wanted: service("1")},
		{name: "somebody's change", was: at("7", 0), is: at("8", 0), wanted: service("1"), writes: 1},
		{name: "only its status moved", was: at("7", 3), is: at("8", 3), wanted: service("1")},
		{name: "its specification moved", was: at("7", 3), is: at("8", 4), wanted: service("1"), writes: 1},
		{name: "something else is wanted", was: at("7", 0), is: at("7", 0), wanted: labelled(service("1")), writes: 1},
		{name: "another owner", was: at("7", 0), is: at("7", 0), wanted: service("2"), writes: 1},
		{name: "just before it is due", was: at("7", 0), is: at("7", 0), wanted: service("1"), later: apply.Resync - 1},
		{name: "it is due", was: at("7", 0), is: at("7", 0), wanted: service("1"), later: apply.Resync, writes: 1},
		{name: "not from a cache", was: at("7", 0), is: at("7", 0), wanted: service("1"), uncached: true, writes: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			now, writes := when, 0
			world := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
					writes++
					said := o.(interface {
						SetResourceVersion(string)
						SetGeneration(int64)
					})
					said.SetResourceVersion(c.was.ResourceVersion)
					said.SetGeneration(c.was.Generation)
					return nil
				},
				Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
					c.is.DeepCopyInto(o.(*corev1.Service))
					return nil
				}}).Build()
			a := apply.New(world, world, "test", func() time.Time { return now })
			if err := a.Apply(t.Context(), service("1"), true); err != nil || writes != 1 || a.Written(service("1")) != apply.Version(c.was) {
				t.Fatalf("the first write: %d, %v, %s", writes, err, a.Written(service("1")))
			}
			now = now.Add(c.later)
			if err := a.Apply(t.Context(), c.wanted, !c.uncached); err != nil || writes != 1+c.writes {
				t.Errorf("written %d times more, %v; want %d", writes-1, err, c.writes)
			}
		})
	}
}

// What is remembered of a service goes with it, and of no other; a write that fails names its object and is remembered by nobody.
func TestWhatIsRemembered(t *testing.T) {
	writes := 0
	a := apply.New(holding(&writes), holding(&writes), "test", func() time.Time { return when })
	other := service("1")
	other.Labels["bobtail.dev/service"] = "echo-two"
	for _, s := range []*corev1.Service{service("1"), other} {
		if err := a.Apply(t.Context(), s, true); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		namespace, name string
		left            int
	}{{"demo", "ech", 2}, {"shop", "echo", 2}, {"demo", "echo", 1}, {"demo", "echo-two", 0}} {
		if a.Forget(types.NamespacedName{Namespace: c.namespace, Name: c.name}); a.Len() != c.left {
			t.Errorf("without %s/%s: %d are remembered, want %d", c.namespace, c.name, a.Len(), c.left)
		}
	}
	a.Client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return errors.New("full")
		}}).Build()
	if err := a.Apply(t.Context(), service("1"), false); err == nil || err.Error() != "apply Service echo: full" || a.Len() != 0 {
		t.Errorf("%v, %d are remembered", err, a.Len())
	}
}

type unplugged struct{}

func (unplugged) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("unplugged")
}

func (unplugged) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("unplugged")
}

// What was written for one owner is known of nobody else: a service of the same name that is made anew writes its object
// although the former one's still stands there.
func TestWhatAFormerOwnerWrote(t *testing.T) {
	writes := 0
	a := apply.New(holding(&writes), holding(&writes, service("1")), "test", func() time.Time { return when })
	for n, owner := range []types.UID{"1", "2"} {
		if err := a.Apply(t.Context(), service(owner), true); err != nil || writes != n+1 {
			t.Errorf("owner %s: %d writes, %v", owner, writes, err)
		}
	}
}
