// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

func bundleCommand(s streams, connect connector) *cobra.Command {
	path, system := "bobtail-support.tar.gz", "bobtail-system"
	cmd := &cobra.Command{
		Use: "support-bundle", Short: "Collect objects, status, counters and logs; secrets are left out", Args: takes(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect()
			if err != nil {
				return err
			}
			return writeBundle(cmd.Context(), s, c, path, system)
		},
	}
	cmd.Flags().StringVar(&path, "file", path, "where to write the archive")
	cmd.Flags().StringVar(&system, "operator-namespace", system, "namespace of the operator")
	return cmd
}

// bundle writes files into an archive. What could not be read becomes a line in
// errors.txt: a bundle of half a cluster is still worth sending.
type bundle struct {
	tar     *tar.Writer
	now     time.Time
	errors  []byte
	missing int // lines of them
	files   int
}

func writeBundle(ctx context.Context, s streams, c *cluster, path, system string) (err error) {
	if err := c.exists(ctx, c.namespace); err != nil {
		return fmt.Errorf("%w (-n)", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("--file: %w", err)
	}
	b, err := collect(ctx, c, f, system, time.Now())
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(path) // half an archive is of no use, and in the way of the next
		return fmt.Errorf("write %s: %w", path, err)
	}
	fmt.Fprintf(s.out, "%s: %d files; Secrets were not read; annotations, arguments and values of environment variables are hidden\n", path, b.files)
	fmt.Fprintln(s.out, "Logs are as the programs wrote them: look through those of your own servers before you send it.")
	if b.missing == 0 {
		return nil
	}
	fmt.Fprintf(s.errs, "Not everything could be read; errors.txt in the archive:\n%s", b.errors)
	if b.missing == 1 {
		return fmt.Errorf("%s was written, but one part is missing, named above", path)
	}
	return fmt.Errorf("%s was written, but %d parts are missing, named above", path, b.missing)
}

// exists fails for a namespace that is not there. Whoever may not ask for namespaces
// may still read what is in theirs.
func (c *cluster) exists(ctx context.Context, namespace string) error {
	err := c.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %q does not exist", namespace)
	}
	return nil
}

func collect(ctx context.Context, c *cluster, out io.Writer, system string, now time.Time) (*bundle, error) {
	z := gzip.NewWriter(out)
	b := &bundle{tar: tar.NewWriter(z), now: now}
	steps := []func(context.Context, *cluster) error{b.objects, b.measurements}
	for _, namespace := range []string{c.namespace, system} {
		steps = append(steps, func(ctx context.Context, c *cluster) error { return b.logs(ctx, c, namespace) })
	}
	steps = append(steps, func(ctx context.Context, c *cluster) error { return b.system(ctx, c, system) })
	for _, step := range steps {
		if err := ctx.Err(); err != nil { // interrupted: every error from here on would only say so
			return b, err
		}
		if err := step(ctx, c); err != nil {
			return b, err
		}
	}
	if len(b.errors) > 0 {
		if err := b.add("errors.txt", b.errors); err != nil {
			return b, err
		}
	}
	if err := b.tar.Close(); err != nil {
		return b, err
	}
	return b, z.Close()
}

func (b *bundle) add(name string, text []byte) error {
	b.files++
	h := &tar.Header{Name: "bobtail-support/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: b.now}
	if err := b.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err := b.tar.Write(text)
	return err
}

func (b *bundle) failed(what string, err error) {
	b.missing++
	b.errors = fmt.Appendf(b.errors, "%s: %v\n", what, err)
}

// list adds every object of a kind, each redacted.
func (b *bundle) list(ctx context.Context, c *cluster, name string, l client.ObjectList, options ...client.ListOption) error {
	if err := c.List(ctx, l, options...); err != nil {
		b.failed(name, err)
		return nil
	}
	return b.write(name, l)
}

// write adds a list, redacted.
func (b *bundle) write(name string, l client.ObjectList) error {
	if err := redact(l); err != nil {
		return err
	}
	text, err := yaml.Marshal(l)
	if err != nil {
		return err
	}
	return b.add(name+".yaml", text)
}

func (b *bundle) objects(ctx context.Context, c *cluster) error {
	here, ours, experiments := client.InNamespace(c.namespace), client.HasLabels{v1alpha1.LabelService}, client.HasLabels{v1alpha1.LabelExperiment}
	for _, kind := range []struct {
		name string
		list client.ObjectList
		opts []client.ListOption
	}{
		{"rpcservices", &v1alpha1.RpcServiceList{}, []client.ListOption{here}},
		{"servicelevelobjectives", &v1alpha1.ServiceLevelObjectiveList{}, []client.ListOption{here}},
		{"latencyexperiments", &v1alpha1.LatencyExperimentList{}, []client.ListOption{here}},
		{"experiments/jobs", &batchv1.JobList{}, []client.ListOption{here, experiments}},
		{"experiments/pods", &corev1.PodList{}, []client.ListOption{here, experiments}},
		{"nodedataplanes", &v1alpha1.NodeDataplaneList{}, nil},
		{"programmableswitches", &v1alpha1.ProgrammableSwitchList{}, nil},
		{"replicationgroups", &v1alpha1.ReplicationGroupList{}, []client.ListOption{here}},
		{"statefulsets", &appsv1.StatefulSetList{}, []client.ListOption{here, ours}},
		{"deployments", &appsv1.DeploymentList{}, []client.ListOption{here, ours}},
		{"pods", &corev1.PodList{}, []client.ListOption{here, ours}},
		{"services", &corev1.ServiceList{}, []client.ListOption{here, ours}},
		{"configmaps", &corev1.ConfigMapList{}, []client.ListOption{here, ours}},
		{"networkpolicies", &networkingv1.NetworkPolicyList{}, []client.ListOption{here}},
		{"events", &corev1.EventList{}, []client.ListOption{here}},
	} {
		if err := b.list(ctx, c, "objects/"+kind.name, kind.list, kind.opts...); err != nil {
			return err
		}
	}
	return b.crab(ctx, c)
}

// crab is the Services that CRAB serves and what is behind them: users made them,
// and no label says so. Their events are among those of the namespace.
func (b *bundle) crab(ctx context.Context, c *cluster) error {
	services, behind := &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}
	if err := c.List(ctx, services, client.InNamespace(c.namespace)); err != nil {
		b.failed("crab/services", err)
		return nil
	}
	if err := c.List(ctx, behind, client.InNamespace(c.namespace)); err != nil {
		b.failed("crab/endpointslices", err)
	}
	served := map[string]bool{}
	services.Items = only(services.Items, func(s *corev1.Service) bool {
		class := s.Spec.LoadBalancerClass
		served[s.Name] = class != nil && *class == v1alpha1.LoadBalancerClass || s.Annotations[v1alpha1.AnnotationRedirect] != ""
		return served[s.Name]
	})
	behind.Items = only(behind.Items, func(e *discoveryv1.EndpointSlice) bool { return served[e.Labels[discoveryv1.LabelServiceName]] })
	if err := b.write("objects/crab/services", services); err != nil {
		return err
	}
	return b.write("objects/crab/endpointslices", behind)
}

func only[T any](all []T, wanted func(*T) bool) (out []T) {
	for i := range all {
		if wanted(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out
}

// system is the operator and the node agents, with the events of their namespace
// and those of cluster-wide objects, which are kept in the namespace "default".
func (b *bundle) system(ctx context.Context, c *cluster, namespace string) error {
	here := client.InNamespace(namespace)
	b.operator(ctx, c, namespace)
	for _, kind := range []struct {
		name string
		list client.ObjectList
		opts []client.ListOption
	}{
		{"deployments", &appsv1.DeploymentList{}, []client.ListOption{here}},
		{"daemonsets", &appsv1.DaemonSetList{}, []client.ListOption{here}},
		{"pods", &corev1.PodList{}, []client.ListOption{here}},
		{"leases", &coordinationv1.LeaseList{}, []client.ListOption{here}},
		{"events", &corev1.EventList{}, []client.ListOption{here}},
		{"events-nodedataplanes", &corev1.EventList{}, []client.ListOption{client.InNamespace(metav1.NamespaceDefault),
			client.MatchingFields{"involvedObject.kind": "NodeDataplane"}}},
	} {
		if err := b.list(ctx, c, "operator/"+kind.name, kind.list, kind.opts...); err != nil {
			return err
		}
	}
	return nil
}

// operator says so when there is none: its log is what most questions are about, and
// one that is absent would not be missed.
func (b *bundle) operator(ctx context.Context, c *cluster, namespace string) {
	if err := c.exists(ctx, namespace); err != nil {
		b.failed("operator", fmt.Errorf("%w: --operator-namespace", err))
		return
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(render.OperatorLabels)); err != nil {
		b.failed("operator", err)
	} else if len(pods.Items) == 0 {
		b.failed("operator", fmt.Errorf("no pod of it in namespace %s: --operator-namespace", namespace))
	}
}

// belongs says whether a pod is of Bobtail. Before chart 0.3.0 those of operator and
// agents had no label part-of.
func belongs(p *corev1.Pod) bool {
	return p.Labels[v1alpha1.LabelService] != "" || p.Labels[v1alpha1.LabelExperiment] != "" ||
		p.Labels["app.kubernetes.io/part-of"] == "bobtail" || p.Labels["app.kubernetes.io/name"] == "bobtail"
}

// measurements are what every dataplane answers.
func (b *bundle) measurements(ctx context.Context, c *cluster) error {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(c.namespace), client.HasLabels{v1alpha1.LabelService}); err != nil {
		b.failed("measurements", err)
		return nil
	}
	services := &v1alpha1.RpcServiceList{}
	if err := c.List(ctx, services, client.InNamespace(c.namespace)); err != nil {
		b.failed("measurements", err)
	}
	silent := map[string]bool{} // services whose pods hold nothing of ours
	for i := range services.Items {
		silent[services.Items[i].Name] = overTCP(&services.Items[i])
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if silent[p.Labels[v1alpha1.LabelService]] {
			continue
		}
		for _, what := range []string{"v1/state", "v1/counters", "v1/histogram", "metrics"} {
			text, err := c.sidecars.get(ctx, p, what, nil)
			if err != nil {
				b.failed(p.Name+" "+what, err)
				continue
			}
			if err := b.add("measurements/"+p.Name+"/"+what, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// lines of each container's log: enough for hours of a program that writes when
// something happens. Lines may be long, so bytes are bounded, too.
const lines, logBytes = 5000, 16 << 20

func (b *bundle) logs(ctx context.Context, c *cluster, namespace string) error {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		b.failed("logs of "+namespace, err)
		return nil
	}
	for _, p := range pods.Items {
		if !belongs(&p) {
			continue
		}
		for _, container := range append(p.Spec.InitContainers, p.Spec.Containers...) {
			if err := b.log(ctx, c, &p, container.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// log is what a container wrote, and where it was restarted, what it wrote last.
func (b *bundle) log(ctx context.Context, c *cluster, p *corev1.Pod, container string) error {
	for _, previous := range []bool{false, true} {
		if previous && !restarted(p, container) {
			continue
		}
		name := p.Namespace + "/" + p.Name + "." + container
		if previous {
			name += ".previous"
		}
		options := &corev1.PodLogOptions{Container: container, Previous: previous, TailLines: new(int64(lines)), LimitBytes: new(int64(logBytes))}
		text, err := c.set.CoreV1().Pods(p.Namespace).GetLogs(p.Name, options).DoRaw(ctx)
		if err != nil {
			b.failed("log of "+name, err)
			continue
		}
		if err := b.add("logs/"+name+".log", text); err != nil {
			return err
		}
	}
	return nil
}

func restarted(p *corev1.Pod, container string) bool {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if s.Name == container && s.RestartCount > 0 {
			return true
		}
	}
	return false
}
