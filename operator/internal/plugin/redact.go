// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// hidden stands where a value was.
const hidden = "(hidden)"

// redact takes out what may be a secret. Secrets themselves are never read. The
// values of all environment variables, arguments and commands go: no list of
// suspicious names would be complete. Annotations but Bobtail's own go as well,
// as the applied manifest is in one of them, and what a program said when it ended,
// which may be the end of its log.
func redact(list client.ObjectList) error {
	return meta.EachListItem(list, func(o runtime.Object) error {
		m, err := meta.Accessor(o)
		if err != nil {
			return err
		}
		redactMeta(m)
		switch o := o.(type) {
		case *v1alpha1.RpcService:
			redactServer(&o.Spec.Server)
		case *v1alpha1.ReplicationGroup:
			redactServer(&o.Spec.Server)
		case *appsv1.StatefulSet:
			redactMeta(&o.Spec.Template.ObjectMeta)
			redactPod(&o.Spec.Template.Spec)
		case *appsv1.Deployment:
			redactMeta(&o.Spec.Template.ObjectMeta)
			redactPod(&o.Spec.Template.Spec)
		case *appsv1.DaemonSet:
			redactMeta(&o.Spec.Template.ObjectMeta)
			redactPod(&o.Spec.Template.Spec)
		case *batchv1.Job:
			redactMeta(&o.Spec.Template.ObjectMeta)
			redactPod(&o.Spec.Template.Spec)
		case *v1alpha1.LatencyExperiment: // a path may carry a key
			if o.Spec.Workload.Path != "" {
				o.Spec.Workload.Path = hidden
			}
		case *corev1.Pod:
			redactPod(&o.Spec)
			redactLastWords(&o.Status)
		}
		return nil
	})
}

// ours is how Bobtail's own annotations begin: what they say is configuration.
const ours = "bobtail.dev/"

func redactMeta(m metav1.Object) {
	m.SetManagedFields(nil)
	for k := range m.GetAnnotations() {
		if !strings.HasPrefix(k, ours) {
			m.GetAnnotations()[k] = hidden
		}
	}
}

func redactServer(s *v1alpha1.RpcServiceServer) {
	hide(s.Args)
	hide(s.Command)
	for i := range s.Env {
		s.Env[i].Value = hidden
	}
}

func redactPod(p *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{p.InitContainers, p.Containers} {
		for i := range containers {
			redactContainer(&containers[i])
		}
	}
	for i := range p.EphemeralContainers {
		c := corev1.Container(p.EphemeralContainers[i].EphemeralContainerCommon)
		redactContainer(&c)
		p.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(c)
	}
}

func redactContainer(c *corev1.Container) {
	hide(c.Args)
	hide(c.Command)
	for i := range c.Env {
		if c.Env[i].Value != "" {
			c.Env[i].Value = hidden
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil {
			redactCall(p.Exec, p.HTTPGet)
		}
	}
	if c.Lifecycle == nil {
		return
	}
	for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if h != nil {
			redactCall(h.Exec, h.HTTPGet)
		}
	}
}

// redactCall hides what a probe or a hook runs or sends.
func redactCall(exec *corev1.ExecAction, get *corev1.HTTPGetAction) {
	if exec != nil {
		hide(exec.Command)
	}
	if get != nil {
		for i := range get.HTTPHeaders {
			get.HTTPHeaders[i].Value = hidden
		}
	}
}

func redactLastWords(s *corev1.PodStatus) {
	for _, containers := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range containers {
			for _, t := range []*corev1.ContainerStateTerminated{containers[i].State.Terminated, containers[i].LastTerminationState.Terminated} {
				if t != nil && t.Message != "" {
					t.Message = hidden
				}
			}
		}
	}
}

func hide(texts []string) {
	for i := range texts {
		texts[i] = hidden
	}
}
