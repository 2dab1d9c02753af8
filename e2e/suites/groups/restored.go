// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// Groups that are made of the first one's data.
const (
	again = "again" // of a backup
	anew  = "anew"  // of the one disk of again that is left

	// atItsTime is the Job that a CronJob would have made.
	atItsTime = "orders-backup-at-its-time"
)

const claimOfBackups = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: backups, namespace: ` + Namespace + `},
  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 256Mi}}}}`

// restored: a backup while clients write, a group made of it, and a group made of the one disk that is left of that.
func (s *Suite) restored(ctx context.Context) error {
	backup := ""
	_, err := s.play(ctx, "backup", someWrites, harness.Step{Name: "kubectl bobtail backup " + Group + " --to-claim=backups", Cost: "30 s",
		Cause: "the copy does not open: kubectl -n " + Namespace + " logs -l bobtail.dev/backup-of=" + Group}, func(ctx context.Context) (err error) {
		backup, err = s.backup(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for _, one := range []struct {
		harness.Step
		do func(context.Context) error
	}{
		{harness.Step{Name: "kubectl bobtail backup " + Group + " --schedule --keep=1; its CronJob copies, and removes the copy of before", Cost: "20 s", Cause: "kubectl -n " + Namespace + " describe cronjob " + Group + "-backup"},
			func(ctx context.Context) (err error) {
				backup, err = s.scheduled(ctx)
				return err
			}},
		{harness.Step{Name: "a ReplicationGroup with spec.restore of it", Cost: "60 s", Cause: "kubectl -n " + Namespace + " describe rg " + again},
			func(ctx context.Context) error { return s.restore(ctx, backup) }},
		{harness.Step{Name: "two of its disks are lost; kubectl bobtail recover " + again + " --force-new-quorum", Cost: "90 s", Cause: "kubectl -n " + Namespace + " describe rg " + anew},
			s.forced},
	} {
		if err := s.Steps.Do(ctx, one.Step, one.do); err != nil {
			return err
		}
	}
	return s.clear(ctx, []string{again, anew}, "pod/reader-"+again, "pod/reader-"+anew, "rg/"+anew)
}

// clear removes objects, the backups, and the disks of groups that are gone.
func (s *Suite) clear(ctx context.Context, groups []string, objects ...string) error {
	remove := func(what ...string) error {
		_, err := s.Env.Kubectl(ctx, append([]string{"-n", Namespace, "delete", "--wait=true", "--timeout=60s"}, what...)...)
		return err
	}
	// The pods of finished jobs hold the claim, too.
	jobs := remove("jobs", "-l", "bobtail.dev/backup-of", "--cascade=foreground")
	return errors.Join(jobs, remove(append(objects, "pvc/backups")...), remove("pvc", "-l", "bobtail.dev/service in ("+strings.Join(groups, ",")+")"))
}

func (s *Suite) plugin(ctx context.Context, stdin string, args ...string) (string, error) {
	out, err := s.Env.Run(ctx, stdin, filepath.Join(s.Env.Root, "build", "bin", "kubectl-bobtail"), append([]string{"-n", Namespace}, args...)...)
	s.Steps.Say("\n$ kubectl bobtail %s\n%s", strings.Join(args, " "), out)
	return out, err
}

// backup makes one, and says in which folder it is.
func (s *Suite) backup(ctx context.Context) (string, error) {
	var done string
	if err := s.order(ctx, &done, "put", "kept", "for-ever"); err != nil {
		return "", err
	}
	if err := s.Env.Apply(ctx, claimOfBackups); err != nil {
		return "", err
	}
	group := s.plays.group
	if _, err := s.plugin(ctx, "", "backup", group, "--to-claim=backups"); err != nil {
		return "", err
	}
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "wait", "--for=condition=Complete", "job", "-l", "bobtail.dev/backup-of="+group, "--timeout=120s"); err != nil {
		return "", err
	}
	pod, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "bobtail.dev/backup-of="+group, "--field-selector=status.phase=Succeeded", "-o", "jsonpath={.items[0].metadata.name}")
	if err != nil {
		return "", err
	}
	logs, err := s.Env.Kubectl(ctx, "-n", Namespace, "logs", pod)
	s.Steps.Say("     %s", strings.TrimSpace(logs))
	return pod, err
}

// scheduled has the CronJob of a schedule copy now, as it would at its time, and says in which folder.
func (s *Suite) scheduled(ctx context.Context) (string, error) {
	if _, err := s.plugin(ctx, "", "backup", Group, "--to-claim=backups", "--schedule=0 3 * * *", "--keep=1"); err != nil {
		return "", err
	}
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "create", "job", "--from=cronjob/"+Group+"-backup", atItsTime); err != nil {
		return "", err
	}
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "wait", "--for=condition=Complete", "job/"+atItsTime, "--timeout=120s"); err != nil {
		return "", err
	}
	logs, err := s.Env.Kubectl(ctx, "-n", Namespace, "logs", "job/"+atItsTime)
	if err == nil && !strings.Contains(logs, "1 older copies removed; the 1 newest stay") {
		err = fmt.Errorf("the copy of before was not removed: %s", logs)
	}
	if err != nil {
		return "", err
	}
	if err := harness.Until(ctx, settles, pause, func(ctx context.Context) (bool, string, error) {
		at, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "rg", Group, "-o", "jsonpath={.status.lastBackupTime}")
		return at != "", "status.lastBackupTime is not there", err
	}); err != nil {
		return "", err
	}
	_, deleted := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "cronjob", Group+"-backup", "--cascade=orphan")
	pod, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "batch.kubernetes.io/job-name="+atItsTime, "-o", "jsonpath={.items[0].metadata.name}")
	return pod, errors.Join(deleted, err)
}

func (s *Suite) restore(ctx context.Context, backup string) error {
	err := s.Env.Apply(ctx, fmt.Sprintf(`{apiVersion: bobtail.dev/v1alpha1, kind: ReplicationGroup, metadata: {name: %s, namespace: %s}, spec: {members: 3,
  server: {image: "localhost/bobtail/replica:%s", resources: {requests: {cpu: 20m, memory: 64Mi}}}, storage: {policy: Always, sizeMebibytes: 1024},
  restore: {claimName: backups, path: %s}}}`, again, Namespace, s.Env.Version, backup))
	if err != nil {
		return err
	}
	return s.has(ctx, again)
}

// has waits until a group is ready and has what was written before the backup.
func (s *Suite) has(ctx context.Context, name string) error {
	if err := s.Env.WaitCondition(ctx, settles, Namespace, "replicationgroups.bobtail.dev", name, "Ready=True"); err != nil {
		return err
	}
	if err := s.show(ctx); err != nil {
		return err
	}
	reader := "reader-" + name
	if err := s.peer(ctx, reader, name); err != nil {
		return err
	}
	return harness.Until(ctx, time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		out, err := s.Env.Kubectl(ctx, "-n", Namespace, "exec", reader, "--", "/grouppeer", "get", "kept")
		if err != nil {
			return false, "", err
		}
		var value string
		err = json.Unmarshal([]byte(out), &value)
		return value == "for-ever", "kept is " + value, err
	})
}

// forced: a majority of disks is lost, and one is all there is.
func (s *Suite) forced(ctx context.Context) error {
	lost := []string{again + "-member-0", again + "-member-1"}
	for _, pod := range lost {
		if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "pvc", "data-"+pod, "--wait=false"); err != nil {
			return err
		}
	}
	if _, err := s.Env.Kubectl(ctx, append([]string{"-n", Namespace, "delete", "pod", "--wait=false", "--grace-period=0", "--force"}, lost...)...); err != nil {
		return err
	}
	err := harness.Until(ctx, settles, time.Second, func(ctx context.Context) (bool, string, error) {
		o, err := s.Env.Object(ctx, Namespace, "replicationgroups.bobtail.dev", again)
		c := o.Condition("Ready")
		return c.Reason == "NoQuorum", fmt.Sprintf("Ready is %s: %s", c.Reason, c.Message), err
	})
	if err != nil {
		return err
	}
	if _, err := s.plugin(ctx, "something else\n", "recover", again, "--force-new-quorum", "--from-member="+again+"-member-2", "--into="+anew); err == nil {
		return errors.New("a group was ended though its name was not typed")
	}
	if _, err := s.plugin(ctx, again+"\n", "recover", again, "--force-new-quorum", "--from-member="+again+"-member-2", "--into="+anew); err != nil {
		return err
	}
	return s.has(ctx, anew)
}
