// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// sidecar stands in for the sidecar of one pod: it listens on the pod's own
// loopback address with the certificate the operator made, lets in only the
// operator, and answers what the test says.
type sidecar struct {
	world  *world
	pod    string
	ip     string
	role   string
	server *http.Server

	mu       sync.Mutex
	applied  func(hash string) string // what the dataplane runs, given the ConfigMap's hash
	refusal  *dataplane.ApplyError
	unjoined bool
	measured *dataplane.HistogramReply
	service  *dataplane.HistogramReply
	history  *dataplane.History
}

// world is one service with its pods.
type world struct {
	t        *testing.T
	api      client.Client
	ns, name string
	nextIP   int
	sidecars map[string]*sidecar
	template map[string]string // annotations of pods, besides their workers
}

var (
	octets   int
	octetsMu sync.Mutex
)

func newWorld(t *testing.T, name string) *world {
	t.Helper()
	needs.APIServer(t)
	return worldOf(t, direct, name)
}

// worldOf is a service at an API server of its own.
func worldOf(t *testing.T, api client.Client, name string) *world {
	t.Helper()
	octetsMu.Lock()
	defer octetsMu.Unlock()
	octets++
	return &world{t: t, api: api, ns: namespaceOf(t, api), name: name, nextIP: octets << 8, sidecars: map[string]*sidecar{}}
}

// pod makes a running pod with a sidecar. The address is on the loopback
// network, so that the operator really connects.
func (w *world) pod(component string, workers int) *sidecar {
	w.t.Helper()
	w.nextIP++
	ip := fmt.Sprintf("127.88.%d.%d", w.nextIP>>8, w.nextIP&255)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.ns, Name: fmt.Sprintf("%s-%s-%d", w.name, component, w.nextIP&255),
			Labels:      render.Selector(w.name, component),
			Annotations: map[string]string{render.AnnotationWorkers: fmt.Sprint(workers)},
		},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: component, Image: "none"}},
			TerminationGracePeriodSeconds: new(int64),
		},
	}
	maps.Copy(p.Annotations, w.template)
	if err := w.api.Create(context.Background(), p); err != nil {
		w.t.Fatal(err)
	}
	if err := say(w.api, p, runsAt(ip)); err != nil {
		w.t.Fatal(err)
	}
	s := &sidecar{world: w, pod: p.Name, ip: ip, role: component, applied: func(string) string { return "" }}
	s.listen()
	w.sidecars[p.Name] = s
	return s
}

// setReady does what a kubelet does.
func (s *sidecar) setReady() {
	s.world.t.Helper()
	p := s.world.getPod(s.pod)
	before := p.DeepCopy()
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
	})
	if err := s.world.api.Status().Patch(context.Background(), p, client.StrategicMergeFrom(before)); err != nil {
		s.world.t.Fatal(err)
	}
}

func (w *world) getPod(name string) *corev1.Pod {
	w.t.Helper()
	p := &corev1.Pod{}
	if err := w.api.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: name}, p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// runsLatest makes the dataplane run whatever the ConfigMap says.
func (s *sidecar) runsLatest() {
	s.set(func() { s.applied = func(hash string) string { return hash } })
}

func (s *sidecar) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *sidecar) listen() {
	s.world.t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(s.ip, "9443"))
	if err != nil {
		s.world.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/state", func(w http.ResponseWriter, _ *http.Request) { respond(w, s.state()) })
	mux.HandleFunc("GET /v1/histogram", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.URL.Query().Get("name") == "service" {
			respond(w, s.service)
			return
		}
		respond(w, s.measured)
	})
	mux.HandleFunc("GET /v1/history", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		respond(w, s.history)
	})
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, GetConfigForClient: s.handshake,
	}}
	go func() { _ = s.server.ServeTLS(listener, "", "") }()
	s.world.t.Cleanup(func() { _ = s.server.Close() })
}

// handshake uses the Secret of the service, as the mounted files would be.
func (s *sidecar) handshake(*tls.ClientHelloInfo) (*tls.Config, error) {
	secret := &corev1.Secret{}
	err := s.world.api.Get(context.Background(), types.NamespacedName{Namespace: s.world.ns, Name: s.world.name + "-tls"}, secret)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(secret.Data["ca.crt"])
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert,
		VerifyPeerCertificate: func(_ [][]byte, chains [][]*x509.Certificate) error {
			if name := chains[0][0].Subject.CommonName; name != dataplane.OperatorCommonName {
				return fmt.Errorf("unexpected client %q", name)
			}
			return nil
		},
	}, nil
}

func (s *sidecar) state() *dataplane.SidecarState {
	s.mu.Lock()
	defer s.mu.Unlock()
	doc, hash := s.world.config()
	state := &dataplane.SidecarState{Role: s.role, AppliedHash: s.applied(hash), LastError: s.refusal, SidecarVersion: "test"}
	state.Dataplane = &dataplane.State{Hash: state.AppliedHash}
	if s.role == v1alpha1.ComponentRouter && state.AppliedHash != "" && doc != nil {
		for _, m := range doc.Members {
			for i := range m.Workers {
				state.Dataplane.Members = append(state.Dataplane.Members, dataplane.WorkerState{
					Address: m.Address, Port: m.FirstPort + i, Joined: !s.unjoined, Eligible: !s.unjoined,
				})
			}
		}
	}
	return state
}

// config is the configuration in the ConfigMap.
func (w *world) config() (*dataplane.Config, string) {
	cm := &corev1.ConfigMap{}
	if w.api.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: w.name + "-dataplane"}, cm) != nil {
		return nil, ""
	}
	doc, err := dataplane.ParseConfig([]byte(cm.Data[dataplane.ConfigMapKeyConfig]))
	if err != nil {
		w.t.Errorf("the ConfigMap holds a document that cannot be read: %v", err)
	}
	return doc, cm.Data[dataplane.ConfigMapKeyHash]
}

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (w *world) service() *v1alpha1.RpcService {
	w.t.Helper()
	s := &v1alpha1.RpcService{}
	if err := w.api.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: w.name}, s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// waitCondition waits for a condition that speaks of the present generation.
func (w *world) waitCondition(kind string, status metav1.ConditionStatus, reason string) *v1alpha1.RpcService {
	w.t.Helper()
	var s *v1alpha1.RpcService
	eventually(w.t, fmt.Sprintf("%s=%s (%s)", kind, status, reason), func() (bool, string) {
		s = w.service()
		c := meta.FindStatusCondition(s.Status.Conditions, kind)
		if c == nil {
			return false, "absent"
		}
		ok := c.Status == status && c.Reason == reason && c.ObservedGeneration == s.Generation
		return ok, fmt.Sprintf("%s (%s: %s) generation %d of %d", c.Status, c.Reason, c.Message, c.ObservedGeneration, s.Generation)
	})
	return s
}

// limit is generous: it matters only to tests that fail, and to machines that
// do many other things at once.
const limit = 3 * time.Minute

// eventually polls; controllers poll sidecars once a second.
func eventually(t *testing.T, what string, check func() (ok bool, seen string)) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		ok, seen := check()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in %s: %s; last seen: %s", limit, what, seen)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
