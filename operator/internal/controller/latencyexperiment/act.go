// SPDX-License-Identifier: Apache-2.0

// Act makes the objects of an experiment, and writes its status.
package latencyexperiment

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/definition"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// foreignObject is an object in the way that is not of this experiment.
type foreignObject struct{ kind, name string }

func (f foreignObject) Error() string {
	return fmt.Sprintf("%s %s exists and is not of this experiment: remove it, or name the experiment otherwise", f.kind, f.name)
}

// run makes the objects. Once the coordinator's Job, the last of them, exists they
// are left alone: a new operator must not change an experiment under way.
func (r *Reconciler) run(ctx context.Context, e *v1alpha1.LatencyExperiment, d definition.Definition, target *v1alpha1.RpcService) error {
	text, err := written(d)
	if err != nil {
		return fmt.Errorf("write the load definition: %w", err)
	}
	in := render.ExperimentInput{Experiment: e, Registry: r.Registry, Version: r.Version, Definition: text, Seconds: measuredSeconds(e, d)}
	if target != nil {
		in.Network = render.InterfaceNetwork(target)
	}
	if err := r.token(ctx, in); err != nil {
		return err
	}
	for _, o := range render.ExperimentObjects(in) {
		if err := r.apply(ctx, e, o); err != nil {
			return err
		}
	}
	return nil
}

// written is the definition for people, or, with recorded gaps, without a line for
// each, which would not fit into a ConfigMap.
func written(d definition.Definition) ([]byte, error) {
	if len(d.Interarrival.GapsNanoseconds) > 0 {
		return json.Marshal(d)
	}
	return yaml.Marshal(d)
}

// token makes the secret that agents and coordinator share, once.
func (r *Reconciler) token(ctx context.Context, in render.ExperimentInput) error {
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return fmt.Errorf("make a token: %w", err)
	}
	secret := render.ExperimentToken(in, []byte(hex.EncodeToString(raw)))
	err := r.Client.Create(ctx, secret, client.FieldOwner(fieldManager))
	if apierrors.IsAlreadyExists(err) {
		return r.ours(ctx, in.Experiment, secret)
	}
	if err != nil {
		return fmt.Errorf("create the token: %w", err)
	}
	return nil
}

// apply writes an object unless somebody else has one of that name.
func (r *Reconciler) apply(ctx context.Context, e *v1alpha1.LatencyExperiment, o render.Object) error {
	if err := r.ours(ctx, e, o); client.IgnoreNotFound(err) != nil {
		return err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("convert %s: %w", o.GetName(), err)
	}
	delete(fields, "status")
	u := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields})
	if err := r.Client.Apply(ctx, u, client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s %s: %w", o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), err)
	}
	return nil
}

// ours fails when an object of that name exists and is not this experiment's.
func (r *Reconciler) ours(ctx context.Context, e *v1alpha1.LatencyExperiment, o render.Object) error {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetName()}, found); err != nil {
		return fmt.Errorf("read %s: %w", o.GetName(), err)
	}
	if !metav1.IsControlledBy(found, e) {
		return foreignObject{found.Kind, found.Name}
	}
	return nil
}

func (r *Reconciler) patchStatus(ctx context.Context, before, after *v1alpha1.LatencyExperiment) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	old := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionReady)
	if c := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionReady); c != nil && (old == nil || old.Reason != c.Reason) {
		level := corev1.EventTypeNormal
		if c.Reason == v1alpha1.ReasonFailed || c.Reason == v1alpha1.ReasonNotAccepted {
			level = corev1.EventTypeWarning
		}
		r.Events.Eventf(after, nil, level, c.Reason, v1alpha1.ConditionReady, "%s", message.Bounded(c.Message, 1000))
	}
	return nil
}
