// SPDX-License-Identifier: Apache-2.0

// Package latencyexperiment runs LatencyExperiments: it makes a Job of agents and
// one of a coordinator, waits for the latter, and writes what it said into the
// status. An experiment is run once.
package latencyexperiment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
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
	// Board is where switches are asked to make load, and Counted says what one has counted of an experiment's; false:
	// nothing yet.
	Board   *switchboard.Board
	Counted func(name, experiment string) (Reading, bool)

	mu   sync.Mutex
	runs map[string]progress
}

// Reconcile brings one experiment one step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	e := &v1alpha1.LatencyExperiment{}
	if err := r.Client.Get(ctx, req.NamespacedName, e); err != nil {
		r.withdraw(req.String())
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if e.DeletionTimestamp != nil || over(e) {
		r.withdraw(req.String())
		return ctrl.Result{}, nil
	}
	if onSwitch(e) {
		return r.reconcileOnSwitch(ctx, e)
	}
	after := e.DeepCopy()
	begun, err := r.started(ctx, e)
	if err != nil {
		return ctrl.Result{}, err
	}
	accepted := verdict.Yes(v1alpha1.ReasonAccepted, "the experiment can be run")
	if !begun {
		if accepted, after.Status.Target, err = r.begin(ctx, e); err != nil {
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
	writeStatus(after, accepted, programmed, o, r.Now())
	err = r.patchStatus(ctx, e, after)
	if apierrors.IsConflict(err) { // what was read is older than what was written last: nothing is told twice
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{RequeueAfter: again(accepted)}, err
}

// onSwitchAgain is how often a switch's counters are looked at: it is read every five seconds.
const onSwitchAgain = 2 * time.Second

// reconcileOnSwitch has a switch make the load, until its result stands there.
func (r *Reconciler) reconcileOnSwitch(ctx context.Context, e *v1alpha1.LatencyExperiment) (ctrl.Result, error) {
	after := e.DeepCopy()
	run, accepted := runOf(e)
	after.Status.Target = message.Bounded(strings.Join(e.Spec.Target.Addresses, " "), maxTarget)
	programmed := verdict.No(v1alpha1.ReasonNotAccepted, accepted.Message)
	var o outcome
	if accepted.OK() {
		r.Board.AskRun(run)
		answer, found, there := r.Board.Answered(run.Switch, e.Namespace, e.Name)
		if accepted, programmed = decideAtSwitch(e, answer, found, there); programmed.OK() {
			o = r.look(e, run.Switch)
		}
	}
	writeStatus(after, accepted, programmed, o, r.Now())
	err := r.patchStatus(ctx, e, after)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if err == nil && o.over {
		r.withdraw(run.Key())
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: onSwitchAgain}, err
}

// look reads what the switch has counted.
func (r *Reconciler) look(e *v1alpha1.LatencyExperiment, name string) outcome {
	now, counted := r.Counted(name, keyOf(e))
	if !counted {
		return outcome{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs == nil {
		r.runs = map[string]progress{}
	}
	p := r.runs[keyOf(e)].next(now)
	r.runs[keyOf(e)] = p
	return decideRun(e, p)
}

func (r *Reconciler) withdraw(key string) {
	r.Board.WithdrawRun(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.runs, key)
}

// begin makes the objects of an experiment that can be run, and says what it loads.
func (r *Reconciler) begin(ctx context.Context, e *v1alpha1.LatencyExperiment) (accepted verdict.Verdict, target string, err error) {
	w := surroundings{otlp: r.OTLPEndpoint}
	if w.target, err = r.target(ctx, e); err != nil {
		return accepted, "", err
	}
	if w.gaps, err = r.gaps(ctx, e); err != nil {
		return accepted, "", err
	}
	target = message.Bounded(strings.Join(addresses(e, w.target), " "), maxTarget)
	d, accepted := decideAccepted(e, w)
	if !accepted.OK() {
		return accepted, target, nil
	}
	err = r.run(ctx, e, d, w.target)
	var foreign foreignObject
	if errors.As(err, &foreign) {
		return verdict.No(v1alpha1.ReasonNameConflict, foreign.Error()), target, nil
	}
	return accepted, target, err
}

// again: an object in the way may be removed, or gaps be written, and nobody tells.
func again(accepted verdict.Verdict) time.Duration {
	if accepted.Reason == v1alpha1.ReasonNameConflict || accepted.Reason == v1alpha1.ReasonGapsNotFound {
		return 30 * time.Second
	}
	return 0
}

// over says that the result stands there: nothing is done twice, even when the
// Jobs have been cleared away.
func over(e *v1alpha1.LatencyExperiment) bool {
	c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionReady)
	return c != nil && (c.Reason == v1alpha1.ReasonFinished || c.Reason == v1alpha1.ReasonFailed)
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
