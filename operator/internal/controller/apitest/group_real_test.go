// SPDX-License-Identifier: Apache-2.0

//go:build linux

package apitest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/replica"
	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/hack/test/privileged"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
	sidecarprogram "github.com/bobtail-dev/bobtail/operator/internal/sidecar"
)

// realWorld is a group of real members: beside each pod of the API server runs the
// sidecar, with the rights that the operator gave it, and the member's program, on
// loopback addresses.
type realWorld struct {
	*groupWorld
	program, dir string

	behind sync.Mutex
	pods   map[int]*realPod
}

type realPod struct {
	ip   string
	proc *exec.Cmd
	stop func()
}

func memberProgram(t *testing.T) string {
	t.Helper()
	build := os.Getenv("BOBTAIL_BUILD")
	if build == "" {
		build = "../../../../build/dataplane"
	}
	path, err := filepath.Abs(filepath.Join(build, "apps/bobtail-replica/bobtail-replica"))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		privileged.Lacking(t, "no member's program: hack/dataplane build release apps/bobtail-replica/bobtail-replica: "+err.Error())
	}
	return path
}

func newRealWorld(t *testing.T, name string) *realWorld {
	t.Helper()
	program := memberProgram(t)
	operator(t)
	w := &realWorld{groupWorld: newGroupWorld(t, name), program: program, dir: t.TempDir(), pods: map[int]*realPod{}}
	w.spawn, w.despawn = w.spawnReal, w.despawnReal
	t.Cleanup(func() {
		for place := range 16 {
			w.despawnReal(place)
		}
	})
	return w
}

// files writes what a pod mounts, and returns how its sidecar reaches the API server.
func (w *realWorld) files() (keys, tls string, cluster sidecarprogram.Cluster) {
	keys, tls, token := filepath.Join(w.dir, "keys"), filepath.Join(w.dir, "tls"), filepath.Join(w.dir, "token")
	for folder, secret := range map[string]string{keys: w.name + "-keys", tls: w.name + "-tls"} {
		s := &corev1.Secret{}
		if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: secret}, s); err != nil {
			w.t.Error(err)
		}
		w.write(folder, s.Data)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name + "-sidecar"}}
	request := &authenticationv1.TokenRequest{}
	if err := direct.SubResource("token").Create(context.Background(), account, request); err != nil {
		w.t.Error(err)
	}
	w.write(token, map[string][]byte{"token": []byte(request.Status.Token), "ca.crt": config.CAData})
	host := config.Host
	if len(host) < 5 || host[:5] != "https" {
		host = "https://" + host
	}
	return keys, tls, sidecarprogram.Cluster{URL: host, TokenFile: filepath.Join(token, "token"), CAFile: filepath.Join(token, "ca.crt")}
}

func (w *realWorld) write(folder string, files map[string][]byte) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		w.t.Error(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			w.t.Error(err)
		}
	}
}

// disk is the volume of a place.
func (w *realWorld) disk(place int) string {
	return filepath.Join(w.dir, fmt.Sprintf("disk-%d", place))
}

func (w *realWorld) spawnReal(place int, ip, _ string) {
	keys, tls, cluster := w.files()
	run, err := os.MkdirTemp(w.dir, "run-") // what dies with a pod
	if err != nil {
		w.t.Error(err)
		return
	}
	disk, socket := w.disk(place), filepath.Join(run, "ctl.sock")
	w.write(disk, nil)
	name := filepath.Join(disk, "name")
	if code := sidecarprogram.Main(context.Background(), []string{"--name-file=" + name, fmt.Sprintf("--member=%s-member-%d", w.name, place)}, io.Discard, os.Stderr); code != 0 {
		w.t.Errorf("name of disk %d: exit code %d", place, code)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := sidecarprogram.Run(ctx, sidecarprogram.Options{
			Socket: socket, Namespace: w.ns, Name: w.name + "-dataplane", TLSDir: tls, Cluster: cluster,
			Listen: net.JoinHostPort(ip, "9443"), MetricsListen: net.JoinHostPort(ip, "9464"), Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			w.t.Errorf("sidecar %d: %v", place, err)
		}
	}()
	p := exec.Command(w.program, "--name=@"+name, "--address="+ip, "--data="+filepath.Join(disk, "data"), "--ctl="+socket, "--key-dir="+keys, "--config-cache="+filepath.Join(run, "config.json"))
	log, err := os.OpenFile(filepath.Join(w.dir, fmt.Sprintf("member-%d.log", place)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		p.Stderr = log
		defer log.Close()
	}
	if err := p.Start(); err != nil {
		w.t.Error(err)
		cancel()
		return
	}
	w.behind.Lock()
	defer w.behind.Unlock()
	w.pods[place] = &realPod{ip: ip, proc: p, stop: func() { cancel(); <-done }}
}

// despawnReal ends a pod as a kubelet does.
func (w *realWorld) despawnReal(place int) {
	w.behind.Lock()
	p := w.pods[place]
	delete(w.pods, place)
	w.behind.Unlock()
	if p == nil {
		return
	}
	_ = p.proc.Process.Signal(syscall.SIGTERM)
	ended := make(chan struct{})
	go func() { _ = p.proc.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		_ = p.proc.Process.Kill()
		<-ended
		w.t.Errorf("member %d did not end within 30 s", place)
	}
	p.stop()
}

// kill takes a member away without a word, and its pod with it.
func (w *realWorld) kill(place int) {
	w.t.Helper()
	w.behind.Lock()
	if p := w.pods[place]; p != nil {
		_ = p.proc.Process.Kill()
	}
	w.behind.Unlock()
	w.evicted(place)
}

func (w *realWorld) evicted(place int) {
	w.t.Helper()
	if err := direct.Delete(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: fmt.Sprintf("%s-member-%d", w.name, place)}}); err != nil {
		w.t.Error(err)
	}
}

func (w *realWorld) addresses() []string {
	w.behind.Lock()
	defer w.behind.Unlock()
	var out []string
	for _, p := range w.pods {
		out = append(out, net.JoinHostPort(p.ip, "8000"))
	}
	return out
}

// writer puts one key after the other, and remembers which were acknowledged.
type writer struct {
	w             *realWorld
	stop          chan struct{}
	done          sync.WaitGroup
	written       []string
	count, failed atomic.Int64
}

func request(op byte, key, value string) []byte {
	return append(append([]byte{op, byte(len(key))}, key...), value...)
}

func (w *realWorld) dial() *replica.Client {
	w.t.Helper()
	c, err := replica.Dial(context.Background(), replica.Config{Members: w.addresses(), Timeout: 10 * time.Second, Attempt: 200 * time.Millisecond, Local: netip.MustParseAddr("127.0.0.1")})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *realWorld) writing() *writer {
	w.t.Helper()
	r := &writer{w: w, stop: make(chan struct{})}
	r.done.Go(func() {
		for n := 0; ; n++ {
			c, err := replica.Dial(context.Background(), replica.Config{Members: w.addresses(), Timeout: 10 * time.Second, Attempt: 200 * time.Millisecond, Local: netip.MustParseAddr("127.0.0.1")})
			if err != nil {
				w.t.Error(err)
				return
			}
			for range 20 { // then ask who is there: pods come and go
				select {
				case <-r.stop:
					_ = c.Close()
					return
				default:
				}
				n++
				key := fmt.Sprintf("k%06d", n)
				reply, err := c.Write(context.Background(), request('P', key, key))
				r.count.Add(1)
				if err == nil && len(reply) > 0 && reply[0] == '+' {
					r.written = append(r.written, key)
				} else {
					r.failed.Add(1)
				}
				time.Sleep(2 * time.Millisecond)
			}
			_ = c.Close()
		}
	})
	return r
}

// end stops writing and reads back what was acknowledged.
func (r *writer) end() {
	r.w.t.Helper()
	close(r.stop)
	r.done.Wait()
	c := r.w.dial()
	defer c.Close()
	lost := 0
	for _, key := range r.written {
		reply, err := c.Read(context.Background(), request('G', key, ""))
		if err != nil || string(reply) != "+"+key {
			if lost++; lost < 5 {
				r.w.t.Errorf("acknowledged write %s: %q %v", key, reply, err)
			}
		}
	}
	r.w.t.Logf("writes %d, acknowledged %d, unanswered after 10 s %d, acknowledged and lost %d", r.count.Load(), len(r.written), r.failed.Load(), lost)
	if lost > 0 || r.failed.Load() > 0 || len(r.written) < 100 {
		r.w.t.Errorf("%d acknowledged writes of %d are lost, %d were not answered", lost, len(r.written), r.failed.Load())
	}
}

// loseDisk kills a member, and takes its pod and its disk away.
func (w *realWorld) loseDisk(place int) {
	w.t.Helper()
	w.behind.Lock()
	p := w.pods[place]
	w.behind.Unlock()
	_ = p.proc.Process.Kill()
	if err := os.RemoveAll(w.disk(place)); err != nil {
		w.t.Error(err)
	}
	w.evicted(place)
}

// G-1 to G-5 with real members, under writes: the leader's pod is killed, the group
// grows, shrinks, gets a new image, and loses a disk. Nothing that was acknowledged is
// lost.
func TestGroupOfRealMembers(t *testing.T) {
	needs.Time(t, "a group of real members; one whose members agree at once is tried in any case")
	w := newRealWorld(t, "kv")
	w.create(`{}`)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForMembers, "")
	w.keep(nil)
	g := w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "3 of 3")
	writes := w.writing()
	defer writes.end()
	some := func(what string) {
		t.Helper()
		before := writes.count.Load()
		eventually(t, "writes after "+what, func() (bool, string) {
			return writes.count.Load() > before+50, fmt.Sprint(writes.count.Load())
		})
		t.Logf("%s: %d writes, %d not answered", what, writes.count.Load(), writes.failed.Load())
	}
	some("the group has begun")

	leader, _ := render.MemberOrdinal(g, g.Status.Leader)
	w.kill(leader)
	eventually(t, "another leader", func() (bool, string) {
		now := w.group().Status
		return now.Leader != "" && now.Term > g.Status.Term, fmt.Sprintf("%s in term %d", now.Leader, now.Term)
	})
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "3 of 3")
	some("the leader was killed")

	w.scale(5)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "5 of 5")
	some("five members")
	w.scale(3)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "3 of 3")
	some("three members again")

	w.patch(&v1alpha1.ReplicationGroup{}, w.name, `{"spec":{"server":{"image":"registry.example/kv:2"}}}`)
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "3 of 3")
	some("a new image")

	w.loseDisk(1)
	eventually(t, "a member in place of the lost one", func() (bool, string) {
		g = w.group()
		for _, m := range g.Status.Members {
			if m.Pod == "kv-member-1" && m.Number > 5 && m.Role == v1alpha1.MemberVoter {
				return len(g.Status.Members) == 3, fmt.Sprintf("%+v", g.Status.Members)
			}
		}
		return false, fmt.Sprintf("%+v", g.Status.Members)
	})
	w.waitGroup(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "3 of 3")
	some("a disk was lost")
}
