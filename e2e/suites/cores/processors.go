// SPDX-License-Identifier: Apache-2.0

package cores

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// server is what is read of a server pod.
type server struct {
	Metadata struct{ Name, UID string }
	Status   struct {
		QOSClass          string
		ContainerStatuses []struct {
			Name         string
			RestartCount int
			Resources    struct{ Limits map[string]string }
		}
	}
}

// limit of CPU that is in force.
func (p server) limit() string {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == "server" {
			return c.Resources.Limits["cpu"]
		}
	}
	return ""
}

func (p server) restarts() (n int) {
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// server is the one pod of a service that is not being deleted.
func (s *Suite) server(ctx context.Context, service string) (server, error) {
	var list struct {
		Items []struct {
			server
			Metadata struct{ Name, UID, DeletionTimestamp string }
		}
	}
	err := s.Env.Get(ctx, &list, "-n", Namespace, "pods", "-l", "bobtail.dev/component=server,bobtail.dev/service="+service)
	var found []server
	for _, p := range list.Items {
		if p.Metadata.DeletionTimestamp == "" {
			p.server.Metadata.Name, p.server.Metadata.UID = p.Metadata.Name, p.Metadata.UID
			found = append(found, p.server)
		}
	}
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d server pods of %s, want one", len(found), service)
	}
	if err != nil {
		return server{}, err
	}
	return found[0], nil
}

// process is the program of that name in a pod.
func process(p server, name string) (int, error) {
	pids := harness.PodProcesses(p.Metadata.UID, name)
	if len(pids) != 1 {
		return 0, fmt.Errorf("%d processes %s in pod %s, want one", len(pids), name, p.Metadata.Name)
	}
	return pids[0], nil
}

// allowed are the processors that a process may use, as the kernel writes them.
func allowed(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", fmt.Errorf("process %d does not say which processors it may use", pid)
}

// cpusetFile is where the processors of a container stand, in control groups of either
// version, by the lines of /proc/PID/cgroup.
func cpusetFile(cgroup string) (string, error) {
	for line := range strings.Lines(cgroup) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[1] == "cpuset":
			return filepath.Join("/sys/fs/cgroup/cpuset", parts[2], "cpuset.cpus"), nil
		case parts[0] == "0" && parts[1] == "" && !strings.Contains(cgroup, ":cpuset:"):
			return filepath.Join("/sys/fs/cgroup", parts[2], "cpuset.cpus"), nil
		}
	}
	return "", errors.New("no control group with a cpuset")
}

// cpuset: the processors of a running server are taken away but for one, and given back.
func (s *Suite) cpuset(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the server's cpuset is cut to one processor, and made whole again", Cost: "20 s",
		Cause: "the server does not look at its processors: kubectl -n " + Namespace + " describe rpcsvc " + Service}, func(ctx context.Context) error {
		p, err := s.server(ctx, Service)
		if err != nil {
			return err
		}
		pid, err := process(p, "bobtail-serve")
		if err != nil {
			return err
		}
		cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			return err
		}
		file, err := cpusetFile(string(cgroup))
		if err != nil {
			return err
		}
		whole, err := allowed(pid)
		if err != nil {
			return err
		}
		return s.underLoad(ctx, "calm-cpuset", func(ctx context.Context) error {
			for _, one := range []struct {
				cpus, reason string
				cores        int64
			}{{"0", "FewerProcessors", 1}, {whole, "AsAsked", 2}} {
				if err := os.WriteFile(file, []byte(one.cpus), 0o600); err != nil {
					return err
				}
				err := s.until(ctx, Service, "so many cores may run: "+fmt.Sprint(one.cores), func(got says) bool { return got.AllowedCores == one.cores })
				if err != nil {
					return err
				}
				o, err := s.Env.Object(ctx, Namespace, "rpcsvc", Service)
				if c := o.Condition("CoresAsAsked"); err != nil || c.Reason != one.reason {
					return errors.Join(err, fmt.Errorf("CoresAsAsked says %s, want %s: %s", c.Reason, one.reason, c.Message))
				}
			}
			return nil
		})
	})
}

// exclusive: a pod that is Guaranteed has a processor which not even its sidecar may use.
func (s *Suite) exclusive(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a server with a processor for itself", Cost: "40 s",
		Cause: "the kubelet's CPU manager is not static, or the pod is not Guaranteed: kubectl -n " + Namespace + " describe pods"}, func(ctx context.Context) error {
		s.Got.Set("sched_exclusive_verified", 0)
		if err := s.Env.RemoveService(ctx, Namespace, Service); err != nil {
			return err
		}
		if err := s.Env.Apply(ctx, s.service(own, "serve", "{mode: WorkStealing, maxCores: 1, cpus: Exclusive}", "--service-time=fixed:1ms")); err != nil {
			return err
		}
		for _, wanted := range []string{"Ready=True", "CoresAsAsked=True"} {
			if err := s.Env.WaitCondition(ctx, patience, Namespace, kind, own, wanted); err != nil {
				return err
			}
		}
		if err := s.alone(ctx); err != nil {
			return err
		}
		s.Got.Set("sched_exclusive_verified", 1)
		return s.Env.RemoveService(ctx, Namespace, own)
	})
}

// alone says whether the server has one processor, and its sidecar others.
func (s *Suite) alone(ctx context.Context) error {
	p, err := s.server(ctx, own)
	if err != nil {
		return err
	}
	if p.Status.QOSClass != "Guaranteed" {
		return fmt.Errorf("pod %s is %s", p.Metadata.Name, p.Status.QOSClass)
	}
	var cpus [2]string
	for i, name := range []string{"bobtail-serve", "sidecar"} {
		pid, err := process(p, name)
		if err != nil {
			return err
		}
		// A pod that comes has its processors taken from the others within the kubelet's period.
		err = harness.Until(ctx, 30*time.Second, time.Second, func(context.Context) (bool, string, error) {
			var err error
			cpus[i], err = allowed(pid)
			return err == nil && !strings.ContainsAny(cpus[i], ",-") && (i == 0 || cpus[0] != cpus[1]), fmt.Sprintf("%s may use %v", name, cpus), err
		})
		if err != nil {
			return err
		}
	}
	s.Steps.Say("     the server has processor %s, everybody else %s", cpus[0], cpus[1])
	return nil
}
