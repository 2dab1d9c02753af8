// SPDX-License-Identifier: Apache-2.0

// Package apply writes objects by server-side apply, sparing: an object is written when
// what should be there has changed, when somebody else has changed it, and now and then
// in any case.
package apply

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// Resync is the longest an object goes without being written. What others do to
// it is seen at once; this only mends what neither generation nor resource
// version can show. A service is a dozen objects, so a thousand services make
// 20 writes a second of it.
const Resync = 10 * time.Minute

// Applied remembers what was written. It is safe for concurrent use.
type Applied struct {
	// Client writes, and reads from the cache.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader

	owner string // of all fields that are written
	now   func() time.Time

	mu      sync.Mutex
	records map[string]record
}

type record struct {
	owner   types.UID
	hash    [sha256.Size]byte
	version string
	at      time.Time
}

// New remembers nothing yet. owner is the one field manager of a controller.
func New(c client.Client, live client.Reader, owner string, now func() time.Time) *Applied {
	return &Applied{Client: c, Live: live, owner: owner, now: now, records: map[string]record{}}
}

// Len is how many objects are remembered.
func (a *Applied) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.records)
}

// Apply writes the object unless it stands as it should. cached says that the
// client's reads of that kind come from the cache, which costs nothing. What somebody
// took over since it was written is left to him, with an error.
func (a *Applied) Apply(ctx context.Context, o render.Object, cached bool) error {
	u, hash, err := convert(o)
	if err != nil {
		return err
	}
	if cached && a.stands(ctx, o, hash) {
		return nil
	}
	if cached {
		if err := a.left(ctx, o); err != nil {
			return err
		}
	}
	if err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(a.owner), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.records[identity(o)] = record{owner: ownerUID(o), hash: hash, version: Version(u), at: a.now()}
	return nil
}

// Written is the version of an object as it was last written.
func (a *Applied) Written(o render.Object) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.records[identity(o)].version
}

// known is what was written of the object for its owner.
func (a *Applied) known(o render.Object) (record, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.records[identity(o)]
	return r, ok && r.owner == ownerUID(o)
}

// left says that an object that was written has left the cache because somebody took it
// over. Since the plan looked, sidecars were asked, which can take seconds: to write now
// would take the object back and hide that its name is taken.
func (a *Applied) left(ctx context.Context, o render.Object) error {
	if _, known := a.known(o); !known {
		return nil
	}
	if _, err := a.read(ctx, o); !apierrors.IsNotFound(err) {
		return nil
	}
	taken, err := Taken(ctx, a.Client, a.Live, o, ownerUID(o))
	if err == nil && taken {
		err = fmt.Errorf("%s %s was taken over by somebody else while its specification was carried out: it is not written",
			o.GetObjectKind().GroupVersionKind().Kind, o.GetName())
	}
	return err
}

// stands says that the object is known to be as it should.
func (a *Applied) stands(ctx context.Context, o render.Object, hash [sha256.Size]byte) bool {
	r, ok := a.known(o)
	if !ok || r.hash != hash || !a.now().Before(r.at.Add(Resync)) {
		return false
	}
	found, err := a.read(ctx, o)
	return err == nil && Version(found) == r.version
}

// read is the object as the cache has it.
func (a *Applied) read(ctx context.Context, o render.Object) (client.Object, error) {
	found, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is no API object", o.GetObjectKind().GroupVersionKind().Kind)
	}
	return found, a.Client.Get(ctx, client.ObjectKeyFromObject(found), found)
}

// Forget drops the records of a service that is gone, by its name.
func (a *Applied) Forget(service types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.records {
		if belongs(key, service) {
			delete(a.records, key)
		}
	}
}

// convert strips what a typed object says without meaning it.
func convert(o render.Object) (*unstructured.Unstructured, [sha256.Size]byte, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("convert %s: %w", o.GetName(), err)
	}
	delete(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(fields, "spec", "template", "metadata", "creationTimestamp")
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("encode %s: %w", o.GetName(), err)
	}
	return &unstructured.Unstructured{Object: fields}, sha256.Sum256(text), nil
}

// Version changes when somebody changes the specification. Where an object has
// a generation, that is the one: its resource version moves with every status.
func Version(o metav1.Object) string {
	if g := o.GetGeneration(); g > 0 {
		return "g" + strconv.FormatInt(g, 10)
	}
	return "r" + o.GetResourceVersion()
}

func identity(o render.Object) string {
	service := o.GetLabels()["bobtail.dev/service"]
	return o.GetNamespace() + "/" + service + "/" + o.GetObjectKind().GroupVersionKind().Kind + "/" + o.GetName()
}

func belongs(identity string, service types.NamespacedName) bool {
	prefix := service.Namespace + "/" + service.Name + "/"
	return len(identity) > len(prefix) && identity[:len(prefix)] == prefix
}

func ownerUID(o metav1.Object) types.UID {
	if owner := metav1.GetControllerOf(o); owner != nil {
		return owner.UID
	}
	return ""
}
