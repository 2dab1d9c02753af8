// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// apiServer is as much of an API server as a sidecar's Role lets it see: get
// and watch of one ConfigMap by name. Everything else is forbidden, as RBAC
// would have it.
type apiServer struct {
	*httptest.Server
	mu      sync.Mutex
	data    map[string]string // nil: no such ConfigMap
	version int
	changed chan struct{}
	down    bool
	revoked bool // the token is taken no more
	denied  []string
	gets    int
}

const token = "the-token"

func newAPIServer(t *testing.T) (*apiServer, Cluster) {
	a := &apiServer{changed: make(chan struct{}), version: 10}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(a.handle))
	t.Cleanup(func() { a.CloseClientConnections(); a.Close() })
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	write(t, filepath.Join(dir, "ca.crt"), ca)
	write(t, filepath.Join(dir, "token"), []byte(token+"\n"))
	return a, Cluster{URL: a.URL, TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.crt")}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (a *apiServer) set(data map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.data = data
	a.version++
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *apiServer) outage(down bool) {
	a.mu.Lock()
	a.down = down
	a.mu.Unlock()
	if down {
		a.CloseClientConnections()
	}
}

// revoke ends the life of the token, as when its ServiceAccount is deleted, and the
// watches that live on.
func (a *apiServer) revoke(revoked bool) {
	a.mu.Lock()
	a.revoked = revoked
	a.mu.Unlock()
	if revoked {
		a.CloseClientConnections()
	}
}

func (a *apiServer) object() ([]byte, int, chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.data == nil {
		return nil, a.version, a.changed
	}
	text, _ := json.Marshal(map[string]any{
		"metadata": map[string]string{"name": "echo-dataplane", "resourceVersion": strconv.Itoa(a.version)},
		"data":     a.data,
	})
	return text, a.version, a.changed
}

func (a *apiServer) handle(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	down, revoked := a.down, a.revoked
	a.mu.Unlock()
	q := r.URL.Query()
	switch {
	case down:
		http.Error(w, `{"message":"etcd is away"}`, http.StatusInternalServerError)
	case revoked || r.Header.Get("Authorization") != "Bearer "+token:
		http.Error(w, `{"message":"who are you"}`, http.StatusUnauthorized)
	case r.URL.Path == "/api/v1/namespaces/demo/configmaps/echo-dataplane" && len(q) == 0:
		a.mu.Lock()
		a.gets++
		a.mu.Unlock()
		text, _, _ := a.object()
		if text == nil {
			http.Error(w, `{"message":"not found"}`, http.StatusNotFound)
			return
		}
		_, _ = w.Write(text)
	case r.URL.Path == "/api/v1/namespaces/demo/configmaps" && q.Get("watch") == "1" && q.Get("fieldSelector") == "metadata.name=echo-dataplane":
		a.watch(w, r, q.Get("resourceVersion"))
	default:
		a.mu.Lock()
		a.denied = append(a.denied, r.URL.String())
		a.mu.Unlock()
		http.Error(w, `{"message":"forbidden"}`, http.StatusForbidden)
	}
}

func (a *apiServer) watch(w http.ResponseWriter, r *http.Request, from string) {
	seen, _ := strconv.Atoi(from)
	existed := from != ""
	for {
		text, version, changed := a.object()
		if version > seen {
			seen = version
			switch {
			case text != nil:
				fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", text)
			case existed:
				fmt.Fprintln(w, `{"type":"DELETED","object":{}}`)
			}
			existed = text != nil
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-time.After(20 * time.Second):
			return
		}
	}
}

// plane is a dataplane that forgets everything when it is restarted.
type plane struct {
	mu          sync.Mutex
	hash        string
	incarnation uint64
	applies     int
	refuse      *ctl.Error
	second      uint64
	slices      map[uint64]int // values per second of the clock
	busy        bool           // a value comes in after each answer
}

func (p *plane) Hello() ctl.Hello {
	p.mu.Lock()
	defer p.mu.Unlock()
	return ctl.Hello{Role: ctl.RoleRouter, Version: "0.2.0", Incarnation: p.incarnation, PID: 1}
}

func (p *plane) Apply(_ *config.Document, _ []byte, hash string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applies++
	if p.refuse != nil {
		return false, p.refuse
	}
	same := hash == p.hash
	p.hash = hash
	return same, nil
}

func (p *plane) State() ctl.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return ctl.State{Hash: p.hash, UptimeSeconds: 1.5, Queue: &ctl.QueueState{Held: 2, Limit: 9}, Members: []ctl.WorkerState{
		{Address: "10.0.0.1", Port: 8000, Joined: true, Eligible: true, N: 3, Outstanding: 2, Sent: 10, Done: 8, FeedbackAgeMilliseconds: 4},
	}}
}

func (p *plane) Counters() ctl.Counters {
	return ctl.Counters{
		Counters: []ctl.Sample{{Name: "router_dropped_total", Labels: map[string]string{"reason": `queue"full`}, Value: 3},
			{Name: "router_admission_arrived_total", Labels: map[string]string{"class": "4"}, Value: 1},
			{Name: "router_admission_arrived_total", Labels: map[string]string{"class": "5"}, Value: 1}},
		Gauges: []ctl.Sample{{Name: "router.pairs", Value: 7}, {Name: "router_oldest_held_nanoseconds", Value: 1.5e9}},
	}
}

func (p *plane) Histogram(name string, window int, end uint64) (ctl.Histogram, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name == "class5" {
		h := &ll7.Histogram{}
		h.Record(3_000_000)
		return ctl.Histogram{Name: name, Source: ctl.SourceRouter, Histogram: h}, nil
	}
	if name != ctl.HistogramLatency {
		return ctl.Histogram{}, &ctl.Error{Code: ctl.CodeUnknownHistogram, Field: "name", Message: "must be latency"}
	}
	if end == 0 {
		end = p.second
	}
	h := &ll7.Histogram{}
	for s := end; s > 0 && s+uint64(window) > end; s-- {
		for range p.slices[s] {
			h.Record(2_000_000)
		}
	}
	if p.busy {
		p.slices[p.second]++
	}
	return ctl.Histogram{
		Name: name, Source: ctl.SourceRouter, WindowSeconds: window, CoveredSeconds: int(min(uint64(window), end)), Histogram: h, Second: p.second,
		Requests: 10 * h.Total(), Rejected: 3 * h.Total(),
	}, nil
}

func (p *plane) Leave() {}

func (p *plane) set(f func(*plane)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

func (p *plane) now() (hash string, applies int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hash, p.applies
}

// authority is an operator's CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bobtail-ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	return &authority{cert, key}
}

func (a *authority) issue(t *testing.T, cn string, usage x509.ExtKeyUsage, names ...string) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: cn}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, _ := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func (a *authority) writeServing(t *testing.T, dir, name string) {
	t.Helper()
	cert, key := a.issue(t, name, x509.ExtKeyUsageServerAuth, name)
	write(t, filepath.Join(dir, "tls.crt"), cert)
	write(t, filepath.Join(dir, "tls.key"), key)
	write(t, filepath.Join(dir, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

func (a *authority) client(t *testing.T, cn string) *dataplane.Client {
	t.Helper()
	certPEM, keyPEM := a.issue(t, cn, x509.ExtKeyUsageClientAuth)
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return dataplane.NewClient(func() (dataplane.Credentials, error) {
		return dataplane.Credentials{Certificate: cert, Roots: roots}, nil
	}, time.Minute)
}
