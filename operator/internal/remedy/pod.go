// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Stuck is a container that does not start, or ends and is started again.
type Stuck struct {
	Namespace, Pod, Container string
	Reason, Message           string // the kubelet's: CrashLoopBackOff, ImagePullBackOff, ...
	Exit                      *int32 // of the run before, where there was one
}

// starting are reasons for waiting that pass by themselves.
var starting = []string{"PodInitializing", "ContainerCreating"}

// OfPod finds the first container that is stuck, init containers first; nil: none is.
func OfPod(pod *corev1.Pod) *Stuck {
	if pod == nil {
		return nil
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting, ended, before := c.State.Waiting, c.State.Terminated, c.LastTerminationState.Terminated
		out := &Stuck{Namespace: pod.Namespace, Pod: pod.Name, Container: c.Name}
		switch {
		case waiting != nil && !slices.Contains(starting, waiting.Reason):
			out.Reason, out.Message = waiting.Reason, waiting.Message
			if before != nil {
				out.Exit = &before.ExitCode
			}
			return out
		case ended != nil && ended.ExitCode != 0:
			out.Reason, out.Message, out.Exit = ended.Reason, ended.Message, &ended.ExitCode
			return out
		}
	}
	return nil
}

// Short names the container, the reason and the exit code. It leaves out the kubelet's message, which counts seconds: a
// condition that held it would change all the time.
func (s *Stuck) Short() string {
	out := fmt.Sprintf("container %s: %s", s.Container, s.Reason)
	if s.Exit != nil {
		out += fmt.Sprintf(", exit code %d", *s.Exit)
	}
	return out
}

// Says is the evidence for a reader: Short, and the kubelet's message.
func (s *Stuck) Says() string {
	return strings.TrimSuffix(s.Short()+": "+strings.TrimSpace(s.Message), ": ")
}

// Next is the command that tells more: the log of the run that ended, or what the kubelet lacks to begin one.
func (s *Stuck) Next() string {
	switch {
	case s.Reason == "CrashLoopBackOff":
		return fmt.Sprintf("kubectl -n %s logs %s -c %s --previous", s.Namespace, s.Pod, s.Container)
	case s.Exit != nil:
		return fmt.Sprintf("kubectl -n %s logs %s -c %s", s.Namespace, s.Pod, s.Container)
	}
	return fmt.Sprintf("kubectl -n %s describe pod %s", s.Namespace, s.Pod)
}
