// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/apply"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/pki"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/secrets"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// bench is a reconciler with a clock to turn and an API server that fails on
// request.
type bench struct {
	*Reconciler
	t      *testing.T
	now    time.Time
	refuse error // what applying one of a kind answers
	kind   string
	events *events.FakeRecorder

	mu       sync.Mutex
	lagged   bool // peers run nothing new
	last     string
	named    []int                    // keys of that document
	fastPath *dataplane.FastPathState // what every peer says of it
}

var key = types.NamespacedName{Namespace: "demo", Name: "echo"}

// oneAuthority serves all benches: to make one takes longer than a test.
var oneAuthority = sync.OnceValues(func() (*pki.Authority, error) { return pki.NewAuthority(start, nil) })

func newBench(t *testing.T) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	service := aService()
	server, router := aPod("s1", "10.0.0.1", "rRJ"), aPod("r1", "10.0.1.1", "rR")
	server.CreationTimestamp, router.CreationTimestamp = metav1.NewTime(start), metav1.NewTime(start)
	server.Namespace, server.Labels = "demo", render.Selector("echo", v1alpha1.ComponentServer)
	router.Namespace, router.Labels = "demo", render.Selector("echo", v1alpha1.ComponentRouter)
	b := &bench{t: t, now: start, kind: "Deployment", events: events.NewFakeRecorder(1000)}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(service, server, router, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}).
		WithStatusSubresource(&v1alpha1.RpcService{}, &corev1.Pod{}).
		WithInterceptorFuncs(interceptor.Funcs{Apply: b.apply}).Build()
	authority, err := oneAuthority()
	if err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return b.now }
	b.Reconciler = &Reconciler{
		Client: c, Live: c, Sidecars: b, Events: b.events, Now: clock,
		Authority: func(context.Context) (*pki.Authority, error) { return authority, nil },
		Registry:  "r", Version: "1", OperatorNamespace: "sys", applied: apply.New(c, c, fieldManager, clock),
	}
	return b
}

// apply replaces the object: the fake client's own server-side apply cannot
// merge every kind, and merging is tested against the real API server.
func (b *bench) apply(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		return err
	}
	if u.GetKind() == b.kind && b.refuse != nil {
		return b.refuse
	}
	old := &unstructured.Unstructured{}
	old.SetGroupVersionKind(u.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(u), old); apierrors.IsNotFound(err) {
		u.SetUID(uuid.NewUUID())
		u.SetCreationTimestamp(metav1.NewTime(b.now))
		err = c.Create(ctx, u)
		o.(interface{ SetResourceVersion(string) }).SetResourceVersion(u.GetResourceVersion())
		return err
	}
	u.SetResourceVersion(old.GetResourceVersion())
	u.SetUID(old.GetUID())
	u.SetCreationTimestamp(old.GetCreationTimestamp())
	err = c.Update(ctx, u)
	o.(interface{ SetResourceVersion(string) }).SetResourceVersion(u.GetResourceVersion())
	return err
}

// State makes every peer run what the ConfigMap holds.
func (b *bench) State(ctx context.Context, _ dataplane.Target) (*dataplane.SidecarState, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	cm := &corev1.ConfigMap{}
	err := b.Live.Get(ctx, types.NamespacedName{Namespace: "demo", Name: "echo-dataplane"}, cm)
	if err != nil && b.last == "" {
		return &dataplane.SidecarState{}, nil
	}
	if err == nil && !b.lagged {
		b.last, b.named = cm.Data[dataplane.ConfigMapKeyHash], readLive(cm).keyIDs()
	}
	a := runs(b.last, "10.0.0.1")
	a.Reply.KeyIDs = b.named
	a.Reply.Dataplane.FastPath = b.fastPath
	return a.Reply, nil
}

// Parts are those of a router that has not been asked anything yet.
func (b *bench) Parts(context.Context, dataplane.Target, string, int, int) (*dataplane.HistogramReply, error) {
	return &dataplane.HistogramReply{Histogram: &dataplane.Histogram{}}, nil
}

// reconcile runs as often as it takes to settle.
func (b *bench) reconcile(times int) error {
	b.t.Helper()
	var err error
	for range times {
		_, err = b.Reconcile(context.Background(), ctrl.Request{NamespacedName: key})
	}
	return err
}

func (b *bench) must(times int) {
	b.t.Helper()
	if err := b.reconcile(times); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) secret(name string) *corev1.Secret {
	b.t.Helper()
	s := &corev1.Secret{}
	if err := b.Live.Get(context.Background(), types.NamespacedName{Namespace: "demo", Name: name}, s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bench) keyIDs() []int {
	b.t.Helper()
	cm := &corev1.ConfigMap{}
	if err := b.Live.Get(context.Background(), types.NamespacedName{Namespace: "demo", Name: "echo-dataplane"}, cm); err != nil {
		b.t.Fatal(err)
	}
	return readLive(cm).doc.KeyIDs
}

func (b *bench) condition(kind string) metav1.Condition {
	b.t.Helper()
	s := &v1alpha1.RpcService{}
	if err := b.Client.Get(context.Background(), key, s); err != nil {
		b.t.Fatal(err)
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// The whole rotation through the reconciler: the annotation starts it, and it
// waits for peers that lag.
func TestReconcileRotatesKeys(t *testing.T) {
	b := newBench(t)
	b.must(3)
	first := string(b.secret("echo-keys").Data["1"])
	s := &v1alpha1.RpcService{}
	if err := b.Client.Get(context.Background(), key, s); err != nil {
		t.Fatal(err)
	}
	s.Annotations = map[string]string{v1alpha1.AnnotationRotateKeys: "now"}
	if err := b.Client.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	b.must(2)
	if data := b.secret("echo-keys").Data; len(data) != 2 || string(data["1"]) != first || len(b.keyIDs()) != 1 {
		t.Fatalf("distributing: %d keys in the Secret, %v named", len(data), b.keyIDs())
	}
	b.now = b.now.Add(distribution)
	b.must(1)
	b.lagged = true
	b.now = b.now.Add(time.Hour)
	b.must(3)
	if ids := b.keyIDs(); len(ids) != 2 {
		t.Fatalf("overlapping, a peer lags: %v named", ids)
	}
	b.lagged = false
	for range 6 {
		b.now = b.now.Add(settle)
		b.must(1)
	}
	data := b.secret("echo-keys").Data
	if ids := b.keyIDs(); len(data) != 1 || len(ids) != 1 || ids[0] != 2 || len(data["2"]) != 32 || string(data["2"]) == first {
		t.Errorf("at the end %d keys in the Secret, %v named", len(data), ids)
	}
}

func TestReconcileRenewsTheCertificate(t *testing.T) {
	b := newBench(t)
	b.must(2)
	first := string(b.secret("echo-tls").Data[pki.KeyCertificate])
	b.now = b.now.Add(30 * 24 * time.Hour)
	b.must(2)
	if string(b.secret("echo-tls").Data[pki.KeyCertificate]) != first {
		t.Error("renewed too early")
	}
	b.now = b.now.Add(31 * 24 * time.Hour)
	b.must(2)
	if string(b.secret("echo-tls").Data[pki.KeyCertificate]) == first {
		t.Error("not renewed when a third of its life is left")
	}
	if !b.told("CertificateRenewed") {
		t.Error("nobody was told")
	}
}

// told says whether an event with that reason was recorded.
func (b *bench) told(reason string) bool {
	for {
		select {
		case e := <-b.events.Events:
			if strings.Contains(e, reason) {
				return true
			}
		default:
			return false
		}
	}
}

// A refusal becomes the user's to mend; an error that may pass is tried again
// and says nothing about the specification.
func TestReconcileTellsRefusalFromTrouble(t *testing.T) {
	b := newBench(t)
	b.refuse = apierrors.NewForbidden(corev1.Resource("deployments"), "echo-server", errors.New("exceeded quota"))
	if err := b.reconcile(1); err != nil {
		t.Errorf("a refusal is retried at once: %v", err)
	}
	if c := b.condition(v1alpha1.ConditionAccepted); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonApplyFailed || !strings.Contains(c.Message, "exceeded quota") {
		t.Errorf("refused: %+v", c)
	}
	b.refuse = apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "patch", corev1.Resource("deployments"), "x", "down", 1, false)
	if err := b.reconcile(1); err == nil {
		t.Error("trouble is not tried again")
	}
	if c := b.condition(v1alpha1.ConditionAccepted); c.Status != metav1.ConditionTrue {
		t.Errorf("trouble: %+v", c)
	}
	b.refuse = nil
	b.must(2)
	if c := b.condition(v1alpha1.ConditionProgrammed); c.Status != metav1.ConditionTrue {
		t.Errorf("afterwards: %+v", c)
	}
}

// When nothing changes nothing is written: a thousand services must not keep
// the API server busy.
func TestReconcileIsQuiet(t *testing.T) {
	b := newBench(t)
	b.must(4)
	writes := 0
	c := interceptor.NewClient(b.Client.(client.WithWatch), interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			writes++
			return c.Apply(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	b.Client, b.applied.Client = c, c
	for range 10 {
		b.now = b.now.Add(steady)
		b.must(1)
	}
	if writes != 0 {
		t.Errorf("%d writes in 50 s in which nothing changed", writes)
	}
	b.now = b.now.Add(apply.Resync)
	b.must(1)
	if writes == 0 {
		t.Error("not even a resync writes")
	}
}

func TestReconcileForgetsWhatIsGone(t *testing.T) {
	b := newBench(t)
	b.must(2)
	if b.applied.Len() == 0 {
		t.Fatal("nothing was remembered")
	}
	if err := b.Client.Delete(context.Background(), aService()); err != nil {
		t.Fatal(err)
	}
	b.must(1)
	if n := b.applied.Len(); n != 0 {
		t.Errorf("%d records of a service that is gone", n)
	}
}

// A Secret of somebody else is left as it is, even when a configuration made
// earlier is being kept up to date.
func TestReconcileLeavesForeignSecrets(t *testing.T) {
	for _, name := range []string{"echo-keys", "echo-tls"} {
		b := newBench(t)
		b.must(2)
		if err := b.Client.Delete(context.Background(), b.secret(name)); err != nil {
			t.Fatal(err)
		}
		foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Data: map[string][]byte{"mine": []byte("x")}}
		if err := b.Client.Create(context.Background(), foreign); err != nil {
			t.Fatal(err)
		}
		b.now = b.now.Add(secrets.Believed)
		b.must(2)
		if c := b.condition(v1alpha1.ConditionAccepted); c.Reason != v1alpha1.ReasonNameConflict || !strings.Contains(c.Message, "Secret "+name) {
			t.Errorf("%s: %+v", name, c)
		}
		if s := b.secret(name); len(s.Data) != 1 || len(s.OwnerReferences) != 0 {
			t.Errorf("%s was taken over: %v, owners %v", name, s.Data, s.OwnerReferences)
		}
	}
}

// Running pods hold the keys of a deleted Secret. A new value under an old
// number would part pods that start from pods that run, for good.
func TestReconcileNeverReusesAKeyNumber(t *testing.T) {
	b := newBench(t)
	b.must(2)
	first := b.secret("echo-keys")
	if err := b.Client.Delete(context.Background(), first); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(secrets.Believed)
	b.must(2)
	data := b.secret("echo-keys").Data
	if _, reused := data["1"]; reused || len(data["2"]) != 32 {
		t.Errorf("%d keys, number 1 reused: %v", len(data), reused)
	}
	if ids := b.keyIDs(); len(ids) != 1 || ids[0] != 1 {
		t.Errorf("named %v before the new key can have reached anybody", ids)
	}
	b.now = b.now.Add(distribution)
	b.must(2)
	if ids := b.keyIDs(); len(ids) != 1 || ids[0] != 2 {
		t.Errorf("named %v afterwards", ids)
	}
}

// While the API server refuses an object of a specification, routers and
// servers must not hear of the rest of it.
func TestReconcileKeepsARefusedSpecificationFromTheDataplane(t *testing.T) {
	b := newBench(t)
	b.must(2)
	s := &v1alpha1.RpcService{}
	if err := b.Client.Get(context.Background(), key, s); err != nil {
		t.Fatal(err)
	}
	s.Generation, s.Spec.Router.WorkerQueueDepth = s.Generation+1, 9
	if err := b.Client.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(apply.Resync) // whatever has been written is written again
	b.refuse = apierrors.NewForbidden(corev1.Resource("deployments"), "echo-server", errors.New("exceeded quota"))
	b.must(2)
	if n := b.depth(); n != 3 {
		t.Errorf("workerQueueDepth is %d although the specification was refused", n)
	}
	b.refuse = nil
	b.must(2)
	if n := b.depth(); n != 9 {
		t.Errorf("workerQueueDepth is %d after the refusal", n)
	}
}

func (b *bench) depth() int {
	b.t.Helper()
	cm := &corev1.ConfigMap{}
	if err := b.Live.Get(context.Background(), types.NamespacedName{Namespace: "demo", Name: "echo-dataplane"}, cm); err != nil {
		b.t.Fatal(err)
	}
	return readLive(cm).doc.Service.WorkerQueueDepth
}

// A settled service costs a Secret read now and then, not at every look.
func TestReconcileReadsSecretsSparingly(t *testing.T) {
	b := newBench(t)
	b.must(4)
	reads := 0
	b.Live = interceptor.NewClient(b.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, secret := o.(*corev1.Secret); secret {
				reads++
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	for range 12 {
		b.now = b.now.Add(steady)
		b.must(1)
	}
	if reads < 2 || reads > 4 {
		t.Errorf("%d reads of 2 Secrets in 60 s, want one each in %s", reads, secrets.Believed)
	}
}

// a document that names keys is not handed out before they are there.
func TestNoDocumentWithoutItsKeys(t *testing.T) {
	b := newBench(t)
	b.kind, b.refuse = "Secret", errors.New("the API server is busy")
	cm := types.NamespacedName{Namespace: "demo", Name: "echo-dataplane"}
	if err := b.reconcile(2); err == nil {
		t.Fatal("Secrets are refused, and nothing is tried again")
	}
	if err := b.Live.Get(t.Context(), cm, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("the document is there: %v", err)
	}
	b.refuse = nil
	b.must(2)
	if err := b.Live.Get(t.Context(), cm, &corev1.ConfigMap{}); err != nil {
		t.Error(err)
	}
}
