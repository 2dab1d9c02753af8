// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// load is what bench asks of bobtail-load.
type load struct {
	rate          float64
	duration      time.Duration
	timeout       time.Duration
	connections   int
	requestBytes  int
	image, output string
	pullSecrets   []string
	keep          bool
}

func benchCommand(s streams, connect connector) *cobra.Command {
	l := load{duration: 10 * time.Second, timeout: time.Second, connections: 16, requestBytes: 64, output: "table"}
	cmd := &cobra.Command{
		Use: "bench rpcsvc/NAME --rate=RPS", Short: "Offer load to a service from inside the cluster and print what it measured", Args: takes(1, 1, "rpcsvc/NAME"),
		ValidArgsFunction: serviceNames(connect),
		Long:              "Runs the load image as a Job beside the service: open loop, Poisson arrivals, latency counted\nfrom the times the arrivals should have left. The Job is deleted afterwards.",
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, _ := strings.Cut(args[0], "/")
			if name == "" || kind != "rpcsvc" && kind != "rpcservice" && kind != "rpcservices" {
				return fmt.Errorf("must be rpcsvc/NAME; got %q", args[0])
			}
			if err := l.check(); err != nil {
				return err
			}
			c, err := connect()
			if err != nil {
				return err
			}
			return bench(cmd.Context(), s, c, name, l)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&l.rate, "rate", 0, "requests a second offered (required)")
	f.DurationVar(&l.duration, "duration", l.duration, "measured time")
	f.DurationVar(&l.timeout, "timeout", l.timeout, "a request unanswered for so long is lost")
	f.IntVar(&l.connections, "connections", l.connections, "sockets to spread over")
	f.IntVar(&l.requestBytes, "request-bytes", l.requestBytes, "size of a request")
	f.StringVar(&l.image, "image", "", "load image; default: from the registry and of the version of the service's routers")
	f.StringSliceVar(&l.pullSecrets, "image-pull-secret", nil, "Secret for pulling it, in the service's namespace; default: those of the service")
	f.StringVar(&l.output, "report", l.output, "table or json")
	f.BoolVar(&l.keep, "keep", false, "leave the Job behind")
	return cmd
}

func (l load) check() error {
	switch {
	case !(l.rate > 0) || math.IsInf(l.rate, 1):
		return errors.New("--rate: must be above 0 requests a second, and finite")
	case l.duration < time.Second || l.duration > time.Hour:
		return fmt.Errorf("--duration: must be 1s to 1h; got %s", l.duration)
	case l.timeout < time.Millisecond || l.timeout > 10*time.Minute:
		return fmt.Errorf("--timeout: must be 1ms to 10m; got %s", l.timeout)
	case l.connections < 1 || l.connections > 16384:
		return fmt.Errorf("--connections: must be 1 to 16384; got %d", l.connections)
	case l.requestBytes < 0:
		return fmt.Errorf("--request-bytes: must not be below 0; got %d", l.requestBytes)
	case l.output != "table" && l.output != "json":
		return fmt.Errorf("--report: must be table or json; got %q", l.output)
	}
	return nil
}

func bench(ctx context.Context, s streams, c *cluster, name string, l load) error {
	service, err := c.service(ctx, name)
	if err != nil {
		return err
	}
	if overTCP(service) {
		return fmt.Errorf("RpcService %s speaks TCP, and bench R2P2: make a LatencyExperiment with `target.targetRef` %s and `workload.protocol` HTTP, Redis or what else its servers speak", name, name)
	}
	if service.Status.Address == "" {
		return fmt.Errorf("RpcService %s has no address yet: kubectl describe rpcsvc %s", name, name)
	}
	if l.image == "" {
		if l.image, err = c.loadImage(ctx, service); err != nil {
			return err
		}
	}
	job := l.job(service)
	if err := c.warnOfIsolation(ctx, s, service, job); err != nil {
		return err
	}
	if err := c.Create(ctx, job); err != nil {
		return fmt.Errorf("create the load Job: %w", err)
	}
	if !l.keep {
		defer c.remove(job, s)
	}
	fmt.Fprintf(s.errs, "Job %s: %.0f requests/s for %s to %s\n", job.Name, l.rate, l.duration, service.Status.Address)
	pod, err := c.finished(ctx, job, l.duration+l.timeout+2*time.Minute)
	if err != nil {
		return err
	}
	logs, err := c.set.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("read the log of pod %s: %w", pod.Name, err)
	}
	defer logs.Close()
	err = printReport(s, logs, l.output)
	if pod.Status.Phase == corev1.PodFailed {
		return errors.New("the load failed; its log stands above")
	}
	if err != nil {
		return fmt.Errorf("read the log of pod %s: %w", pod.Name, err)
	}
	return nil
}

// loadImage is the load image of the release the service's routers (or sidecars)
// run.
func (c *cluster) loadImage(ctx context.Context, service *v1alpha1.RpcService) (string, error) {
	for _, component := range []string{v1alpha1.ComponentRouter, v1alpha1.ComponentServer} {
		pods, err := c.pods(ctx, service, component)
		if err != nil {
			return "", err
		}
		for _, p := range pods {
			for _, container := range append(p.Spec.InitContainers, p.Spec.Containers...) {
				if at := strings.LastIndex(container.Image, "/bobtail/sidecar:"); at >= 0 {
					return strings.Replace(container.Image, "/bobtail/sidecar:", "/bobtail/load:", 1), nil
				}
			}
		}
	}
	return "", errors.New("--image: must be given: no running pod of the service shows which registry and version to take")
}

// job runs under the restricted pod security standard.
func (l load) job(service *v1alpha1.RpcService) *batchv1.Job {
	yes, no, user, never, ttl := true, false, int64(65532), int32(0), int32(600)
	seconds := int64((l.duration + l.timeout + time.Minute) / time.Second)
	labels := map[string]string{"app.kubernetes.io/name": "bobtail-load", "app.kubernetes.io/part-of": "bobtail", "app.kubernetes.io/managed-by": "kubectl-bobtail"}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: service.Name + "-bench-", Namespace: service.Namespace, Labels: labels},
		Spec: batchv1.JobSpec{
			BackoffLimit: &never, TTLSecondsAfterFinished: &ttl, ActiveDeadlineSeconds: &seconds,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
					ImagePullSecrets: l.secrets(service),
					SecurityContext:  &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
					Containers: []corev1.Container{{
						Name: "load", Image: l.image, ImagePullPolicy: corev1.PullIfNotPresent,
						Resources:       corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("64Mi")}},
						SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
						Args: []string{
							"--target=" + service.Status.Address, fmt.Sprintf("--rate=%g", l.rate), "--duration=" + singleUnit(l.duration), "--timeout=" + singleUnit(l.timeout),
							fmt.Sprintf("--connections=%d", l.connections), fmt.Sprintf("--request-bytes=%d", l.requestBytes), "--progress=0s", "--output=" + l.output,
						},
					}},
				},
			},
		},
	}
}

// secrets are those that were asked for, else the service's own: its images come from
// the same registry as a rule.
func (l load) secrets(service *v1alpha1.RpcService) []corev1.LocalObjectReference {
	of := service.Spec.ImagePullSecrets
	if len(l.pullSecrets) > 0 {
		of = nil
		for _, name := range l.pullSecrets {
			of = append(of, v1alpha1.SecretReference{Name: name})
		}
	}
	return render.PullSecrets(of)
}

// finished waits for the end of the Job's only pod.
func (c *cluster) finished(ctx context.Context, job *batchv1.Job, limit time.Duration) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := wait.PollUntilContextTimeout(ctx, time.Second, limit, true, func(ctx context.Context) (bool, error) {
		list := &corev1.PodList{}
		if err := c.List(ctx, list, client.InNamespace(job.Namespace), client.MatchingLabels{"job-name": job.Name}); err != nil {
			return false, err
		}
		if len(list.Items) == 0 {
			return false, nil
		}
		pod = &list.Items[0]
		if why := stuck(pod); why != "" {
			return false, errors.New(why)
		}
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed, nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for Job %s (%s): %w; with --keep it stays, for kubectl describe job", job.Name, standing(pod), err)
	}
	return pod, nil
}

// standing is how far the pod has come, for people.
func standing(pod *corev1.Pod) string {
	if pod.Name == "" {
		return "no pod was made: a quota or an admission policy?"
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("its pod is not scheduled: %s", c.Message)
		}
	}
	return fmt.Sprintf("its pod is %q", pod.Status.Phase)
}

// hopeless are the reasons of a waiting container that time does not mend.
var hopeless = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError"}

func stuck(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && slices.Contains(hopeless, w.Reason) {
			return fmt.Sprintf("%s of image %s: %s", w.Reason, pod.Spec.Containers[0].Image, w.Message)
		}
	}
	return ""
}

// warnOfIsolation: where a policy isolates the load's pod, every reply is lost, and
// the service would look dead.
func (c *cluster) warnOfIsolation(ctx context.Context, s streams, service *v1alpha1.RpcService, job *batchv1.Job) error {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.GenerateName, Labels: job.Spec.Template.Labels}}
	found, err := c.blockedPods(ctx, service, job.Namespace, []corev1.Pod{pod})
	for _, f := range found {
		fmt.Fprintf(s.errs, "Careful: %s; %s\n", f.Evidence, f.Advice)
	}
	return err
}

// remove works also after the command was interrupted.
func (c *cluster) remove(job *batchv1.Job, s streams) {
	ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	if err := c.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		fmt.Fprintf(s.errs, "Job %s was left behind: %v\n", job.Name, err)
	}
}
