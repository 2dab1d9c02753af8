// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/latencyexperiment"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/pki"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/redirection"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/rpcservice"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/slo"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/features"
)

// LeaseName is what replicas hold while they act. The chart creates the lease,
// so that it goes away with the chart.
const LeaseName = "bobtail-operator"

// Run runs the operator until the context ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	mgr, err := newManager(config, o)
	if err != nil {
		return err
	}
	if err := addControllers(mgr, o); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the operator: %w", err)
	}
	return nil
}

// Scheme knows every kind the operator touches.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("register the Kubernetes kinds: %w", err)
	}
	if err := v1alpha1.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("register the Bobtail kinds: %w", err)
	}
	return s, nil
}

func newManager(config *rest.Config, o Options) (ctrl.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	ours, err := labels.NewRequirement(v1alpha1.LabelService, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("select the operator's own objects: %w", err)
	}
	// A new service is a dozen objects at once; server-side fairness does the
	// rest.
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress:        o.ProbeAddress,
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              LeaseName,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		Cache:                         cacheOptions(labels.NewSelector().Add(*ours)),
		// Secrets are read one by one: caching them would need the right to
		// list all Secrets of the cluster.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return nil, fmt.Errorf("create the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("caches", cachesSynced(mgr.GetCache())); err != nil {
		return nil, fmt.Errorf("add the readiness check: %w", err)
	}
	return mgr, nil
}

// cacheOptions keeps only what carries our label, and nobody's managed fields.
func cacheOptions(ours labels.Selector) cache.Options {
	by := map[client.Object]cache.ByObject{&batchv1.Job{}: {Transform: onlyOurJobs}}
	for _, o := range []client.Object{
		&corev1.Pod{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.ServiceAccount{}, &appsv1.Deployment{}, &appsv1.StatefulSet{},
		&discoveryv1.EndpointSlice{}, &networkingv1.NetworkPolicy{}, &policyv1.PodDisruptionBudget{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	} {
		by[o] = cache.ByObject{Label: ours}
	}
	return cache.Options{ByObject: by, DefaultTransform: cache.TransformStripManagedFields()}
}

// onlyOurJobs keeps of a Job that is neither an experiment's nor a backup's what names it: of two labels, each of which
// makes a Job ours, no selector can be made.
func onlyOurJobs(o any) (any, error) {
	job, is := o.(*batchv1.Job)
	if !is {
		return o, nil
	}
	job.ManagedFields = nil
	if job.Labels[v1alpha1.LabelExperiment] == "" && job.Labels[v1alpha1.LabelBackupOf] == "" {
		*job = batchv1.Job{TypeMeta: job.TypeMeta, ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, UID: job.UID, ResourceVersion: job.ResourceVersion}}
	}
	return job, nil
}

func cachesSynced(c cache.Cache) healthz.Checker {
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return fmt.Errorf("caches have not been filled yet")
		}
		return nil
	}
}

func addControllers(mgr ctrl.Manager, o Options) error {
	store := &pki.Store{Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Namespace: o.Namespace, Now: time.Now}
	http := dataplane.NewClient(store.Credentials, 0)
	store.OnChange = http.CloseIdle
	sidecars, objectives, err := instrument(http, o.ImageVersion)
	if err != nil {
		return err
	}
	crab := &standing{port: o.AgentPort}
	services := &rpcservice.Reconciler{
		Redirection: crab.of(o),
		Client:      mgr.GetClient(), Live: mgr.GetAPIReader(), Sidecars: sidecars, Authority: store.Authority,
		Events: mgr.GetEventRecorder("bobtail-operator"), Now: time.Now,
		Registry: o.ImageRegistry, Version: o.ImageVersion, OperatorNamespace: o.Namespace, OTLPEndpoint: o.OTLPEndpoint,
		FastPath: o.FastPath,
	}
	watches, err := services.SetupWithManager(mgr)
	if err != nil {
		return err
	}
	devices, err := await(mgr, features.Devices, watches.Devices)
	if err != nil {
		return err
	}
	services.Devices = devices.Lacks
	if _, err := await(mgr, features.Switches, watches.Switches); err != nil {
		return err
	}
	board := switchboard.New()
	looksAfter, err := keeperOf(mgr, o)
	if err != nil {
		return err
	}
	slos := &slo.Reconciler{
		Client: mgr.GetClient(), Sidecars: sidecars, Agents: crab.agents(o), Events: mgr.GetEventRecorder("bobtail-operator"),
		Observe: objectives.observe, Now: time.Now, Refusals: looksAfter.refusals, Switches: looksAfter.measured,
	}
	if err := slos.SetupWithManager(mgr); err != nil {
		return err
	}
	experiments := &latencyexperiment.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("bobtail-operator"), Now: time.Now,
		Registry: o.ImageRegistry, Version: o.ImageVersion, OTLPEndpoint: o.OTLPEndpoint,
		Board: board, Counted: looksAfter.counted,
	}
	if _, err := await(mgr, features.Experiments, experiments.SetupWithManager); err != nil {
		return err
	}
	if err := addGroups(mgr, o, store, http, board); err != nil {
		return err
	}
	if err := addSwitches(mgr, o, looksAfter, board); err != nil || !o.CRAB {
		return err
	}
	return addCRAB(mgr, o, crab, store, board)
}

// addCRAB adds what an operator does that is told of CRAB.
func addCRAB(mgr ctrl.Manager, o Options, crab *standing, store *pki.Store, board *switchboard.Board) error {
	pool, err := crabplan.ParsePool(o.VIPPool)
	if err != nil {
		return fmt.Errorf("--crab-vip-pool: %w", err)
	}
	observe, err := instrumentPool()
	if err != nil {
		return err
	}
	if err := mgr.Add(&pki.Agents{Store: store, Client: mgr.GetClient()}); err != nil {
		return fmt.Errorf("look after the agents' certificate: %w", err)
	}
	redirected := &redirection.Reconciler{
		Observe: observe, Board: board,
		Writer: mgr.GetClient(), Live: mgr.GetAPIReader(), Pool: pool, Events: mgr.GetEventRecorder("bobtail-operator"), Now: time.Now,
	}
	crab.awaited, err = await(mgr, features.CRAB, func(mgr ctrl.Manager) error {
		if err := redirected.SetupWithManager(mgr); err != nil {
			return err
		}
		crab.by.Store(redirected)
		return nil
	})
	return err
}
