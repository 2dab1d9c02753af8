// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/suites/firsthour"
)

const (
	// cache is the group of docs/guides/redis.md, cached one that is made of its backup.
	cache  = "cache"
	cached = "cached"
	// pageTag is that of the page's shell blocks that are played here (hack/verify/docs.py).
	pageTag = "group"
)

// redis: the guide's commands as they stand there; then a leader's loss, snapshots by BGSAVE, a backup, and a group made
// of it, while clients write.
func (s *Suite) redis(ctx context.Context) error {
	s.plays = target{group: cache, clients: "clients-" + cache, speaks: "redis"}
	var v verdict
	defer func() {
		s.plays = first
		s.Got.Set("redis_writes", v.Writes)
	}()
	backup := ""
	for _, one := range []struct {
		harness.Step
		do func(context.Context) error
	}{
		{harness.Step{Name: "import the image of Redis into all nodes", Cost: "15 s", Cause: "`make images` did not finish"}, s.imageOfRedis},
		{harness.Step{Name: "docs/guides/redis.md, as it stands there", Cost: "90 s", Cause: "a command of the page fails, or sells a ticket twice: kubectl -n " + Namespace + " describe rg " + cache}, s.pageOfRedis},
		{harness.Step{Name: "the leader's Redis is deleted without grace; every member writes a snapshot by BGSAVE", Cost: "60 s",
			Cause: "a member does not find its group, or no snapshot is possible: kubectl -n " + Namespace + " logs -l bobtail.dev/service=" + cache + " -c member"},
			func(ctx context.Context) (err error) {
				v, err = s.under(ctx, cache, someWrites, s.savedWithout)
				return errors.Join(err, s.sameRedis(ctx))
			}},
		{harness.Step{Name: "kubectl bobtail backup " + cache + " --to-claim=backups", Cost: "40 s", Cause: "the copy does not open: kubectl -n " + Namespace + " logs -l bobtail.dev/backup-of=" + cache},
			func(ctx context.Context) error {
				more, err := s.under(ctx, "saved", someWrites/2, func(ctx context.Context) (err error) {
					backup, err = s.backup(ctx)
					return err
				})
				v.Writes += more.Writes
				return err
			}},
		{harness.Step{Name: "a ReplicationGroup of Redis with spec.restore of it", Cost: "60 s", Cause: "kubectl -n " + Namespace + " describe rg " + cached},
			func(ctx context.Context) error { return s.restoredRedis(ctx, backup) }},
		{harness.Step{Name: "kubectl delete rg " + cache + " " + cached, Cost: "20 s", Cause: "a pod does not end: kubectl -n " + Namespace + " get pods"}, s.withoutRedis},
	} {
		if err := s.Steps.Do(ctx, one.Step, one.do); err != nil {
			return errors.Join(err, s.describe(ctx)) // of this group: Run describes the first one
		}
	}
	return nil
}

func (s *Suite) imageOfRedis(ctx context.Context) error {
	return LoadImages(ctx, s.Env, "redis", "example")
}

// pageOfRedis types what the guide has its reader type, in this suite's namespace, and starts the clients.
func (s *Suite) pageOfRedis(ctx context.Context) error {
	blocks, err := firsthour.ReadPage(filepath.Join(s.Env.Root, "docs", "guides", "redis.md"))
	if err != nil {
		return err
	}
	var said strings.Builder
	for _, b := range blocks {
		if b.Language != "sh" || !slices.Contains(b.Tags, pageTag) {
			continue
		}
		out, err := s.Env.Run(ctx, s.here()+b.Body, "bash", "-euo", "pipefail")
		s.Steps.Say("\n%s     %s", b.Body, strings.ReplaceAll(strings.TrimSpace(out), "\n", "\n     "))
		if err != nil {
			return fmt.Errorf("line %d of the page: %w", b.Line, err)
		}
		said.WriteString(out)
	}
	if err := judgePage(said.String()); err != nil {
		return err
	}
	return s.peer(ctx, s.plays.clients, cache)
}

// here begins a script whose kubectl works in the suite's namespace.
func (s *Suite) here() string {
	config := filepath.Join(s.Env.Root, "build", "kubeconfig-"+Namespace)
	return fmt.Sprintf("cp \"$KUBECONFIG\" %q; export KUBECONFIG=%q; kubectl config set-context --current --namespace=%s >/dev/null\n", config, config, Namespace)
}

// judgePage reads what the page's commands printed: a server that refuses a write at its own port, and tickets.
func judgePage(said string) error {
	if !strings.Contains(said, "READONLY bobtail:") {
		return errors.New("a write at a member's own port was not refused")
	}
	sold, err := scanLine(said, "%d sold, %d not, %d unknown", 3)
	if err != nil {
		return err
	}
	there, err := scanLine(said, "%d tickets, %d buyers", 2)
	if err != nil {
		return err
	}
	if there[0] != there[1] || there[0] < sold[0] || there[0] > sold[0]+sold[2] {
		return fmt.Errorf("%d tickets and %d buyers are there; %d were sold, and of %d nobody knows", there[0], there[1], sold[0], sold[2])
	}
	return nil
}

// scanLine is the n numbers of the first line of that form.
func scanLine(text, form string, n int) ([]int, error) {
	for line := range strings.Lines(text) {
		got, into := make([]int, n), make([]any, n)
		for i := range got {
			into[i] = &got[i]
		}
		if found, _ := fmt.Sscanf(strings.TrimSpace(line), form, into...); found == n {
			return got, nil
		}
	}
	return nil, fmt.Errorf("no line like %q in %q", form, text)
}

// savedWithout waits until all members have saved once, and loses the leader then: it starts with its snapshot.
func (s *Suite) savedWithout(ctx context.Context) error {
	g, err := s.read(ctx)
	if err != nil {
		return err
	}
	for _, m := range g.Status.Members {
		if err := s.saved(ctx, m.Pod); err != nil {
			return err
		}
	}
	if g, err = s.read(ctx); err != nil {
		return err
	}
	if err := s.deletePod(ctx, g.Status.Leader, "--grace-period=0", "--force"); err != nil {
		return err
	}
	return s.wholeWithout(ctx, g)
}

// saved waits until Redis itself says that a BGSAVE ended well.
func (s *Suite) saved(ctx context.Context, pod string) error {
	return harness.Until(ctx, settles, pause, func(ctx context.Context) (bool, string, error) {
		info, err := s.inRedis(ctx, pod, "redis-cli INFO persistence")
		never := !strings.Contains(info, "rdb_saves:") || strings.Contains(info, "rdb_saves:0\r")
		return !never && strings.Contains(info, "rdb_last_bgsave_status:ok"), pod + " has not saved yet", err
	})
}

// inRedis runs a script in the container of a member's Redis.
func (s *Suite) inRedis(ctx context.Context, pod, script string) (string, error) {
	return s.Env.Kubectl(ctx, "-n", Namespace, "exec", pod, "-c", "member", "--", "sh", "-c", script)
}

// wholeRedis prints a digest of all that a server holds: every string, and the list of the page.
const wholeRedis = `(redis-cli KEYS '*' | sort | sed 's/.*/GET "&"/' | redis-cli; redis-cli LRANGE buyers 0 -1) | sha256sum`

// sameRedis waits until all servers hold the same, when nobody writes any more.
func (s *Suite) sameRedis(ctx context.Context) error {
	g, err := s.read(ctx)
	if err != nil {
		return err
	}
	return harness.Until(ctx, settles, pause, func(ctx context.Context) (bool, string, error) {
		holds := map[string][]string{}
		for _, m := range g.Status.Members {
			digest, err := s.inRedis(ctx, m.Pod, wholeRedis)
			if err != nil {
				return false, "", err
			}
			holds[digest] = append(holds[digest], m.Pod)
		}
		return len(holds) == 1, fmt.Sprintf("servers differ: %v", holds), nil
	})
}

// restoredRedis: the group of the backup has what was written before it, and a buyer for every ticket.
func (s *Suite) restoredRedis(ctx context.Context, backup string) error {
	err := s.Env.Apply(ctx, fmt.Sprintf(`{apiVersion: bobtail.dev/v1alpha1, kind: ReplicationGroup, metadata: {name: %s, namespace: %s}, spec: {members: 3,
  server: {image: "localhost/bobtail/redis:%s", resources: {requests: {cpu: 20m, memory: 64Mi}}}, storage: {policy: Always, sizeMebibytes: 1024},
  restore: {claimName: backups, path: %s}}}`, cached, Namespace, s.Env.Version, backup))
	if err != nil {
		return err
	}
	if err := s.has(ctx, cached); err != nil {
		return err
	}
	if err := s.sameIn(ctx, cached); err != nil {
		return err
	}
	out, err := s.inRedis(ctx, cached+"-member-0", "redis-cli GET tickets; redis-cli LLEN buyers")
	if words := strings.Fields(out); err == nil && (len(words) != 2 || words[0] != words[1] || words[0] == "0") {
		err = fmt.Errorf("tickets and buyers of the restored group: %q", words)
	}
	return err
}

// sameIn is sameRedis of another group.
func (s *Suite) sameIn(ctx context.Context, group string) error {
	defer func(t target) { s.plays = t }(s.plays)
	s.plays.group = group
	return s.sameRedis(ctx)
}

func (s *Suite) withoutRedis(ctx context.Context) error {
	if err := s.clear(ctx, []string{cached}, "pod/reader-"+cached, "pod/seller", "pod/count", "rg/"+cached); err != nil {
		return err
	}
	return s.away(ctx)
}
