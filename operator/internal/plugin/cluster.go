// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// sidecars reads what a pod's dataplane measured. Every answer may be old by
// the time it is printed; none is cached.
type sidecars interface {
	get(ctx context.Context, pod *corev1.Pod, path string, params map[string]string) ([]byte, error)
}

// cluster is what the commands work on.
type cluster struct {
	client.Client
	sidecars  sidecars
	set       kubernetes.Interface
	namespace string
}

// connector opens the cluster when a command runs, not when it is built.
type connector func() (*cluster, error)

// newScheme knows the kinds the plugin reads.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("register the Kubernetes kinds: %w", err)
	}
	if err := v1alpha1.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("register the Bobtail kinds: %w", err)
	}
	return s, nil
}

// errKubeconfig is said of whatever keeps it from naming a cluster.
var errKubeconfig = errors.New("read the kubeconfig")

func connect(flags clientcmd.ClientConfig) (*cluster, error) {
	config, err := flags.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errKubeconfig, err)
	}
	namespace, _, err := flags.Namespace()
	if err != nil {
		return nil, fmt.Errorf("read the namespace of the kubeconfig: %w", err)
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &cluster{Client: c, sidecars: proxy{set}, set: set, namespace: namespace}, nil
}

// proxy reads through the API server: `get` on pods/proxy is all it needs.
type proxy struct{ set kubernetes.Interface }

// patience is what one read may take: a node that is gone must not hold up what
// the others say.
const patience = 10 * time.Second

func (p proxy) get(ctx context.Context, pod *corev1.Pod, path string, params map[string]string) ([]byte, error) {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	text, err := p.set.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, strconv.Itoa(dataplane.SidecarMetricsPort), path, params).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read pod %s: %w", pod.Name, err)
	}
	return text, nil
}

func read[T any](ctx context.Context, c *cluster, pod *corev1.Pod, path string, params map[string]string) (*T, error) {
	text, err := c.sidecars.get(ctx, pod, path, params)
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("pod %s: decode %s: %w; use images and a plugin of one release", pod.Name, path, err)
	}
	return out, nil
}

// pods of one component of a service that run, sorted by name.
func (c *cluster) pods(ctx context.Context, service *v1alpha1.RpcService, component string) ([]corev1.Pod, error) {
	all, err := c.allPods(ctx, service, component)
	return running(all), err
}

func running(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
}

// allPods of a component by name, running or not.
func (c *cluster) allPods(ctx context.Context, service *v1alpha1.RpcService, component string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := c.List(ctx, list, client.InNamespace(service.Namespace), client.MatchingLabels{
		v1alpha1.LabelService: service.Name, v1alpha1.LabelComponent: component,
	})
	if err != nil {
		return nil, fmt.Errorf("list the %s pods of %s: %w", component, service.Name, err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// service reads one RpcService.
func (c *cluster) service(ctx context.Context, name string) (*v1alpha1.RpcService, error) {
	out := &v1alpha1.RpcService{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, out); err != nil {
		return nil, fmt.Errorf("read RpcService %s in namespace %s: %w", name, c.namespace, err)
	}
	return out, nil
}
