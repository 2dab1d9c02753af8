// SPDX-License-Identifier: Apache-2.0

// Package latencyexperiment runs LatencyExperiments: it makes a Job of agents and
// one of a coordinator, waits for the latter, and writes what it said into the
// status. An experiment is run once.
package latencyexperiment

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/definition"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// +kubebuilder:rbac:groups=bobtail.dev,resources=latencyexperiments,verbs=get;list;watch
// +kubebuilder:rbac:groups=bobtail.dev,resources=latencyexperiments/status,verbs=patch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch

// fieldManager is the one owner of all fields this controller writes.
const fieldManager = "bobtail-latencyexperiment"

// Reconciler runs LatencyExperiments.
type Reconciler struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Events tells users when an experiment is over.
	Events events.EventRecorder
	// Now is the clock.
	Now func() time.Time
	// Registry and Version name the images of agent and coordinator.
	Registry, Version string
	// OTLPEndpoint is where spans go when an experiment says nothing else; "" is nowhere.
	OTLPEndpoint string
}

// Reconcile brings one experiment one step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	e := &v1alpha1.LatencyExperiment{}
	if err := r.Client.Get(ctx, req.NamespacedName, e); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if e.DeletionTimestamp != nil || over(e) {
		return ctrl.Result{}, nil
	}
	before := e.DeepCopy()
	begun, err := r.started(ctx, e)
	if err != nil {
		return ctrl.Result{}, err
	}
	accepted := verdict.Yes(v1alpha1.ReasonAccepted, "the experiment can be run")
	if !begun {
		if accepted, err = r.begin(ctx, e); err != nil {
			return ctrl.Result{}, err
		}
	}
	programmed := verdict.No(v1alpha1.ReasonNotAccepted, accepted.Message)
	var o outcome
	if accepted.Status == metav1.ConditionTrue {
		programmed = verdict.Yes(v1alpha1.ReasonProgrammed, "the Jobs of agents and coordinator are there")
		if o, err = r.outcome(ctx, e); err != nil {
			return ctrl.Result{}, err
		}
	}
	writeStatus(e, accepted, programmed, o, r.Now())
	return ctrl.Result{RequeueAfter: again(accepted)}, r.patchStatus(ctx, before, e)
}

// begin makes the objects of an experiment that can be run.
func (r *Reconciler) begin(ctx context.Context, e *v1alpha1.LatencyExperiment) (verdict.Verdict, error) {
	w := surroundings{otlp: r.OTLPEndpoint}
	var err error
	if w.target, err = r.target(ctx, e); err != nil {
		return verdict.Verdict{}, err
	}
	if w.gaps, err = r.gaps(ctx, e); err != nil {
		return verdict.Verdict{}, err
	}
	e.Status.Target = message.Bounded(strings.Join(addresses(e, w.target), " "), maxTarget)
	d, accepted := decideAccepted(e, w)
	if accepted.Status != metav1.ConditionTrue {
		return accepted, nil
	}
	err = r.run(ctx, e, d)
	var foreign foreignObject
	if errors.As(err, &foreign) {
		return verdict.No(v1alpha1.ReasonNameConflict, foreign.Error()), nil
	}
	return accepted, err
}

// again: an object in the way may be removed, or gaps be written, and nobody tells.
func again(accepted verdict.Verdict) time.Duration {
	if accepted.Reason == v1alpha1.ReasonNameConflict || accepted.Reason == v1alpha1.ReasonGapsNotFound {
		return 30 * time.Second
	}
	return 0
}

// foreignObject is an object in the way that is not of this experiment.
type foreignObject struct{ kind, name string }

func (f foreignObject) Error() string {
	return fmt.Sprintf("%s %s exists and is not of this experiment: remove it, or name the experiment otherwise", f.kind, f.name)
}

// over says that the result stands there: nothing is done twice, even when the
// Jobs have been cleared away.
func over(e *v1alpha1.LatencyExperiment) bool {
	c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionReady)
	return c != nil && (c.Reason == v1alpha1.ReasonFinished || c.Reason == v1alpha1.ReasonFailed)
}

// run makes the objects. Once the coordinator's Job, the last of them, exists they
// are left alone: a new operator must not change an experiment under way.
func (r *Reconciler) run(ctx context.Context, e *v1alpha1.LatencyExperiment, d definition.Definition) error {
	text, err := written(d)
	if err != nil {
		return fmt.Errorf("write the load definition: %w", err)
	}
	in := render.ExperimentInput{Experiment: e, Registry: r.Registry, Version: r.Version, Definition: text, Seconds: measuredSeconds(e, d)}
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
	if err := r.Client.Status().Patch(ctx, after, client.MergeFrom(before), client.FieldOwner(fieldManager)); client.IgnoreNotFound(err) != nil {
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

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("latencyexperiment").
		For(&v1alpha1.LatencyExperiment{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}).
		Watches(&v1alpha1.RpcService{}, handler.EnqueueRequestsFromMapFunc(r.experimentsOf),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the LatencyExperiment controller: %w", err)
	}
	return nil
}

// experimentsOf finds the experiments on a service.
func (r *Reconciler) experimentsOf(ctx context.Context, o client.Object) []reconcile.Request {
	list := &v1alpha1.LatencyExperimentList{}
	if err := r.Client.List(ctx, list, client.InNamespace(o.GetNamespace())); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if ref := list.Items[i].Spec.Target.TargetRef; ref != nil && ref.Name == o.GetName() {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}
