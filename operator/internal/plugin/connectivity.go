// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// paths is what `connectivity test` is asked for.
type paths struct {
	image       string
	pullSecrets []string
	nodes       []string
	most        int
	timeout     time.Duration
	every       time.Duration // between two looks at the pods
}

// mostNodes bounds the pairs of nodes: their number is the square of it.
const mostNodes = 8

func connectivityCommand(s streams, connect connector) *cobra.Command {
	cmd := &cobra.Command{Use: "connectivity", Short: "Whether R2P2 and CRAB get through, from each node to each other", Args: cobra.NoArgs}
	cmd.AddCommand(connectivityTestCommand(s, connect))
	return cmd
}

func connectivityTestCommand(s streams, connect connector) *cobra.Command {
	var f format
	p := paths{most: mostNodes, timeout: 3 * time.Minute, every: time.Second}
	cmd := &cobra.Command{
		Use: "test", Short: "A client and a server pod on each node; a verdict for each path between them", Args: takes(0, 0, "no argument"),
		Long: "Starts a server and a client pod on each node, in the namespace of -n, and a service with routers.\n" +
			"Clients send R2P2 to each server and through the routers, and open connections through CRAB, in every\n" +
			"family that the pods have. Everything is deleted afterwards, also when it is interrupted.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(f.check(), p.check()); err != nil {
				return err
			}
			c, err := connect()
			if err != nil {
				return err
			}
			verdicts, err := c.connectivity(cmd.Context(), s, p)
			if err != nil {
				return err
			}
			return answer(s, f, verdicts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&p.image, "image", "", "sidecar image; default: of the operator's registry and version")
	flags.StringSliceVar(&p.pullSecrets, "image-pull-secret", nil, "Secret for pulling it, in the namespace of the test")
	flags.StringSliceVar(&p.nodes, "node", nil, "nodes to test; default: those that are ready, by name")
	flags.IntVar(&p.most, "most-nodes", p.most, "how many of them")
	flags.DurationVar(&p.timeout, "timeout", p.timeout, "how long pods may take to become ready, and to end")
	f.flag(cmd)
	return cmd
}

func (p paths) check() error {
	switch {
	case p.most < 1 || p.most > 20:
		return fmt.Errorf("--most-nodes: must be 1 to 20; got %d", p.most)
	case p.timeout < time.Second || p.timeout > time.Hour:
		return fmt.Errorf("--timeout: must be 1s to 1h; got %s", p.timeout)
	}
	return nil
}

// trial is one run of the test: its objects share a label.
type trial struct {
	*cluster
	paths
	streams
	run   string // in the names of its objects
	nodes []string
	every time.Duration // between two looks
}

// labelTrial is on all objects of a test, with the test's name.
const labelTrial = "bobtail.dev/connectivity"

// connectivity is the whole test. An error is of the test itself; what does not get
// through is a verdict.
func (c *cluster) connectivity(ctx context.Context, s streams, p paths) (verdicts []verdict, err error) {
	t := &trial{cluster: c, paths: p, streams: s, run: "connectivity-" + rand.String(5), every: p.every}
	if err := c.exists(ctx, c.namespace); err != nil {
		return nil, fmt.Errorf("%w: kubectl create namespace %s, or -n ANOTHER", err, c.namespace)
	}
	if t.image == "" {
		if t.image, err = c.sidecarImage(ctx); err != nil {
			return nil, err
		}
	}
	var left []string
	if t.nodes, left, err = t.chosen(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.clear()) }()
	fmt.Fprintf(s.errs, "servers on %s\n", strings.Join(t.nodes, ", "))
	verdicts, err = t.play(ctx)
	if len(left) > 0 && err == nil {
		verdicts = append(verdicts, verdict{"nodes", warning, "not tried: " + strings.Join(left, ", "), "--node=NAME, or --most-nodes=N"})
	}
	return verdicts, err
}

// sidecarImage is the one beside the operator's.
func (c *cluster) sidecarImage(ctx context.Context) (string, error) {
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list, installed("operator")); err != nil {
		return "", fmt.Errorf("look for the operator's image: %w; --image gives the sidecar's", err)
	}
	for _, d := range list.Items {
		for _, container := range d.Spec.Template.Spec.Containers {
			image, _, _ := strings.Cut(container.Image, "@")
			if at := strings.LastIndex(image, "/bobtail/operator:"); at >= 0 {
				return strings.Replace(image, "/bobtail/operator:", "/bobtail/sidecar:", 1), nil
			}
		}
	}
	return "", errors.New("--image: must be given: no operator is installed that shows which registry and version to take")
}

// chosen are the nodes to test, and those that are left out.
func (t *trial) chosen(ctx context.Context) (names, left []string, err error) {
	list := &corev1.NodeList{}
	if err := t.List(ctx, list); err != nil {
		return nil, nil, fmt.Errorf("list the nodes: %w; --node=NAME does without", err)
	}
	usable := map[string]bool{}
	for _, n := range list.Items {
		if usable[n.Name] = readyNode(&n); !usable[n.Name] {
			left = append(left, n.Name)
		} else if len(t.paths.nodes) == 0 {
			names = append(names, n.Name)
		}
	}
	for _, name := range t.paths.nodes {
		if _, there := usable[name]; !there {
			return nil, nil, fmt.Errorf("--node: there is no node %q", name)
		}
		names = append(names, name)
	}
	if len(t.paths.nodes) > 0 {
		left = nil // the others were not asked for
	}
	if len(names) > t.most {
		names, left = names[:t.most], append(left, names[t.most:]...)
	}
	if len(names) == 0 {
		return nil, nil, fmt.Errorf("no node of %d is ready and runs Linux: kubectl get nodes", len(list.Items))
	}
	return names, left, nil
}

func readyNode(n *corev1.Node) bool {
	if os := n.Status.NodeInfo.OperatingSystem; n.Spec.Unschedulable || os != "" && os != "linux" {
		return false
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// put creates one object; where the namespace forbids it, the error says what to do.
func (t *trial) put(ctx context.Context, o client.Object) error {
	err := t.Create(ctx, o)
	if err == nil {
		return nil
	}
	kind := fmt.Sprintf("%T", o)
	what := fmt.Sprintf("namespace %s does not take %s %s", t.namespace, kind[strings.LastIndex(kind, ".")+1:], o.GetName())
	text := err.Error()
	switch {
	case strings.Contains(text, "exceeded quota") || strings.Contains(text, "failed quota"):
		return fmt.Errorf("%s, because of its ResourceQuota: %w; the test needs %s for each pod: kubectl -n %s describe quota, or -n ANOTHER", what, err, whatEachTakes(), t.namespace)
	case strings.Contains(text, "violates PodSecurity"):
		return fmt.Errorf("%s, because of its Pod Security labels: %w; these pods keep the restricted standard, so a policy of yours forbids more: -n ANOTHER", what, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w; ask for the right to create pods, services and rpcservices there, or -n ANOTHER", what, err)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return fmt.Errorf("%s: %w; use images and a plugin of one release", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// clear deletes everything, also after an interruption, and waits until it is gone.
func (t *trial) clear() error {
	ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
	defer done()
	mine := []client.ListOption{client.InNamespace(t.namespace), client.MatchingLabels{labelTrial: t.run}}
	services, plain, pods := &v1alpha1.RpcServiceList{}, &corev1.ServiceList{}, &corev1.PodList{}
	var errs []error
	for _, list := range []client.ObjectList{services, plain, pods} {
		if err := t.List(ctx, list, mine...); err != nil && !meta.IsNoMatchError(err) {
			errs = append(errs, err)
		}
	}
	remove := func(o client.Object) {
		errs = append(errs, client.IgnoreNotFound(t.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground))))
	}
	for i := range services.Items {
		remove(&services.Items[i])
	}
	for i := range plain.Items {
		remove(&plain.Items[i])
	}
	for i := range pods.Items {
		remove(&pods.Items[i])
	}
	errs = append(errs, wait.PollUntilContextCancel(ctx, t.every, true, func(ctx context.Context) (bool, error) {
		pods, err := t.left(ctx, mine)
		return pods == 0, err
	}))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("objects were left behind; `kubectl -n %s delete rpcsvc,svc,pods -l %s=%s` removes them: %w", t.namespace, labelTrial, t.run, err)
	}
	return nil
}

// left counts the pods of the test and of its service.
func (t *trial) left(ctx context.Context, mine []client.ListOption) (int, error) {
	own, served := &corev1.PodList{}, &corev1.PodList{}
	err := errors.Join(t.List(ctx, own, mine...),
		t.List(ctx, served, client.InNamespace(t.namespace), client.MatchingLabels{v1alpha1.LabelService: t.run}))
	return len(own.Items) + len(served.Items), err
}
