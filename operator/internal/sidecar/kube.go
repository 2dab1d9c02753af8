// SPDX-License-Identifier: Apache-2.0

package sidecar

// A sidecar reads one ConfigMap with get and watch. That needs two HTTP
// requests, and every pod pays for what the sidecar links: so it speaks to the
// API server with net/http, not with a client library of several tens of MB.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Cluster says how to reach the API server.
type Cluster struct {
	// URL of the API server, for instance https://10.96.0.1:443.
	URL string
	// TokenFile is read at every request, because the kubelet rotates it.
	TokenFile string
	// CAFile signs the API server's certificate.
	CAFile string
}

// serviceAccountDir is where the kubelet mounts a pod's credentials.
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// InCluster is the cluster this pod runs in.
func InCluster() (Cluster, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return Cluster{}, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; run this program in a pod")
	}
	return Cluster{
		URL:       "https://" + net.JoinHostPort(host, port),
		TokenFile: filepath.Join(serviceAccountDir, "token"),
		CAFile:    filepath.Join(serviceAccountDir, "ca.crt"),
	}, nil
}

// configMap is the part of a ConfigMap the sidecar reads.
type configMap struct {
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Data map[string]string `json:"data"`
}

type watchEvent struct {
	Type   string          `json:"type"` // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
	Object json.RawMessage `json:"object"`
}

// statusError is a refusal by the API server.
type statusError struct {
	Code    int
	Message string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("API server: %d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
}

func hasStatus(err error, code int) bool {
	var s *statusError
	return errors.As(err, &s) && s.Code == code
}

type kubeClient struct {
	cluster   Cluster
	namespace string
	name      string
	http      *http.Client
}

// maxObject is above the 1 MiB an object may have in etcd, JSON escapes included.
const maxObject = 8 << 20

func newKubeClient(c Cluster, namespace, name string) (*kubeClient, error) {
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the cluster's CA file %s holds no certificate", c.CAFile)
	}
	// The pings end a watch whose API server vanished without a FIN; without
	// them the sidecar would wait for changes on a dead connection.
	transport := &http.Transport{
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
	return &kubeClient{cluster: c, namespace: namespace, name: name, http: &http.Client{Transport: transport}}, nil
}

func (k *kubeClient) do(ctx context.Context, path string, q url.Values) (*http.Response, error) {
	u := strings.TrimSuffix(k.cluster.URL, "/") + path
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "bobtail-sidecar/"+Version())
	token, err := os.ReadFile(k.cluster.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read the service account token: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := k.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readStatus(resp.StatusCode, resp.Body)
}

func readStatus(code int, body io.Reader) error {
	var s struct {
		Message string `json:"message"`
	}
	text, _ := io.ReadAll(io.LimitReader(body, 64<<10))
	if json.Unmarshal(text, &s) != nil || s.Message == "" {
		s.Message = strings.TrimSpace(string(text))
	}
	return &statusError{code, s.Message}
}

func (k *kubeClient) collection() string {
	return "/api/v1/namespaces/" + url.PathEscape(k.namespace) + "/configmaps"
}

func (k *kubeClient) get(ctx context.Context) (*configMap, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	resp, err := k.do(ctx, k.collection()+"/"+url.PathEscape(k.name), nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := &configMap{}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxObject)).Decode(out); err != nil {
		return nil, fmt.Errorf("API server: decode ConfigMap %s/%s: %w", k.namespace, k.name, err)
	}
	return out, nil
}

// watchSeconds is how long one watch request lives; the server ends it.
const watchSeconds = 300

// watch calls each for every event after resourceVersion until the server ends
// the request. RBAC grants it by name, because the authorizer reads the name
// from the field selector.
func (k *kubeClient) watch(ctx context.Context, resourceVersion string, each func(watchEvent) error) error {
	ctx, cancel := context.WithTimeout(ctx, (watchSeconds+30)*time.Second)
	defer cancel()
	q := url.Values{
		"watch":               {"1"},
		"fieldSelector":       {"metadata.name=" + k.name},
		"timeoutSeconds":      {fmt.Sprint(watchSeconds)},
		"allowWatchBookmarks": {"true"},
	}
	if resourceVersion != "" {
		q.Set("resourceVersion", resourceVersion)
	}
	resp, err := k.do(ctx, k.collection(), q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	d := json.NewDecoder(resp.Body)
	for {
		var e watchEvent
		if err := d.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("API server: watch: %w", err)
		}
		if err := each(e); err != nil {
			return err
		}
	}
}
