// SPDX-License-Identifier: Apache-2.0

package dataplane

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
	"slices"
	"strconv"
	"time"
)

// Target is one sidecar, or the agent of one node.
type Target struct {
	// Address is "podIP:9443".
	Address string
	// ServerName is the name its certificate carries,
	// `<service>.<namespace>.sidecar.bobtail.dev`.
	ServerName string
}

// NewTarget is the sidecar of a pod of a service.
func NewTarget(podIP, service, namespace string) Target {
	return Target{
		Address:    net.JoinHostPort(podIP, strconv.Itoa(SidecarPort)),
		ServerName: SidecarServerName(service, namespace),
	}
}

// SidecarServerName is the subject alternative name in `<service>-tls`.
func SidecarServerName(service, namespace string) string {
	return service + "." + namespace + ".sidecar.bobtail.dev"
}

// Reader reads one sidecar. Every error is a *ReadError.
type Reader interface {
	State(ctx context.Context, t Target) (*SidecarState, error)
	// Histogram reads the named histogram over the last windowSeconds (1..600).
	Histogram(ctx context.Context, t Target, name string, windowSeconds int) (*HistogramReply, error)
	// Parts reads the same together with its `parts` equal stretches
	// (HistogramReply.Parts). A sidecar older than this program leaves them out.
	Parts(ctx context.Context, t Target, name string, windowSeconds, parts int) (*HistogramReply, error)
	// History reads the record of up to a day.
	History(ctx context.Context, t Target) (*History, error)
	Counters(ctx context.Context, t Target) (*Counters, error)
	// Connects reads an agent: how long clients of its node waited for connections
	// to a Service.
	Connects(ctx context.Context, t Target, namespace, service string, windowSeconds, parts int) (*Connects, error)
}

// ReadKind tells a caller what a failed read means.
type ReadKind string

const (
	// Unreachable: no TCP connection, or no answer in time. The pod may be starting.
	Unreachable ReadKind = "Unreachable"
	// Untrusted: the TLS handshake failed on either side; the CA was rotated
	// or the certificate names another service.
	Untrusted ReadKind = "Untrusted"
	// Refused: the sidecar answered with an error, its text in Refusal.
	Refused ReadKind = "Refused"
	// Garbled: the answer is not what this version understands.
	Garbled ReadKind = "Garbled"
)

// ReadError is a failed read of one sidecar.
type ReadError struct {
	Kind    ReadKind
	Target  Target
	Status  int       // HTTP status when Kind is Refused
	Refusal *CtlError // what the sidecar said, when it said something
	Err     error
}

func (e *ReadError) Error() string {
	return fmt.Sprintf("sidecar %s (%s): %s: %v", e.Target.Address, e.Target.ServerName, e.Kind, e.Err)
}

func (e *ReadError) Unwrap() error { return e.Err }

// Credentials are what a Client presents and trusts.
type Credentials struct {
	Certificate tls.Certificate // common name bobtail-operator
	Roots       *x509.CertPool  // the operator's CA
}

// CredentialSource returns the present credentials; it is asked at every new
// connection, so that a rotated CA needs no restart.
type CredentialSource func() (Credentials, error)

// Client reads sidecars over mTLS. It is safe for concurrent use.
type Client struct {
	http    *http.Client
	timeout time.Duration
}

var _ Reader = (*Client)(nil)

// maxAnswer bounds what a compromised pod can make the operator hold: 1,024
// workers need about 300 KiB.
const maxAnswer = 4 << 20

// NewClient returns a client whose every read ends within timeout
// (0 means 2 s), connection included.
func NewClient(source CredentialSource, timeout time.Duration) *Client {
	if timeout <= 0 {
		timeout = 2 * time.Second
	}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dialTLS(ctx, network, addr, source)
	}
	return &Client{
		timeout: timeout,
		http: &http.Client{
			Transport: &http.Transport{
				DialTLSContext:      dial,
				MaxIdleConnsPerHost: 1,
				IdleConnTimeout:     15 * time.Second,
				MaxConnsPerHost:     2,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// CloseIdle drops pooled connections, for instance after a CA rotation.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

type serverNameKey struct{}

// errTrust marks a failed handshake, whichever side refused.
var errTrust = errors.New("TLS handshake failed")

// dialTLS connects to the pod's address but verifies the service's name, which
// no DNS knows.
func dialTLS(ctx context.Context, network, addr string, source CredentialSource) (net.Conn, error) {
	name, _ := ctx.Value(serverNameKey{}).(string)
	cred, err := source()
	if err != nil {
		return nil, fmt.Errorf("%w: load the operator's credentials: %w", errTrust, err)
	}
	var d net.Dialer
	raw, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, &tls.Config{
		ServerName:   name,
		RootCAs:      cred.Roots,
		Certificates: []tls.Certificate{cred.Certificate},
		MinVersion:   tls.VersionTLS13,
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errTrust, err)
	}
	return conn, nil
}

// State reads what the dataplane behind one sidecar runs.
func (c *Client) State(ctx context.Context, t Target) (*SidecarState, error) {
	out := &SidecarState{}
	if err := c.get(ctx, t, "/v1/state", nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Histogram reads one histogram; merge the Histograms of all routers before
// asking for a percentile.
func (c *Client) Histogram(ctx context.Context, t Target, name string, windowSeconds int) (*HistogramReply, error) {
	return c.histogram(ctx, t, url.Values{"name": {name}, "windowSeconds": {strconv.Itoa(windowSeconds)}})
}

// Parts reads one histogram and its stretches.
func (c *Client) Parts(ctx context.Context, t Target, name string, windowSeconds, parts int) (*HistogramReply, error) {
	return c.histogram(ctx, t, url.Values{
		"name": {name}, "windowSeconds": {strconv.Itoa(windowSeconds)}, "parts": {strconv.Itoa(parts)},
	})
}

func (c *Client) histogram(ctx context.Context, t Target, q url.Values) (*HistogramReply, error) {
	out := &HistogramReply{}
	if err := c.get(ctx, t, "/v1/histogram", q, out); err != nil {
		return nil, err
	}
	if out.Histogram == nil {
		return nil, &ReadError{Kind: Garbled, Target: t, Err: errors.New("the answer holds no histogram")}
	}
	if slices.Contains(out.Parts, nil) {
		return nil, &ReadError{Kind: Garbled, Target: t, Err: errors.New("a part of the window holds no histogram")}
	}
	return out, nil
}

// Counters reads every counter and gauge.
func (c *Client) Counters(ctx context.Context, t Target) (*Counters, error) {
	out := &Counters{}
	if err := c.get(ctx, t, "/v1/counters", nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Client) get(ctx context.Context, t Target, path string, q url.Values, out any) error {
	return c.send(ctx, t, question{method: http.MethodGet, path: path, query: q}, out)
}

// question is what a sidecar or an agent is asked.
type question struct {
	method, path string
	query        url.Values
	content      io.Reader
}

func (c *Client) send(ctx context.Context, t Target, q question, out any) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, serverNameKey{}, t.ServerName), c.timeout)
	defer cancel()
	u := url.URL{Scheme: "https", Host: t.Address, Path: q.path, RawQuery: q.query.Encode()}
	req, err := http.NewRequestWithContext(ctx, q.method, u.String(), q.content)
	if err != nil {
		return &ReadError{Kind: Unreachable, Target: t, Err: err}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return &ReadError{Kind: kindOf(err), Target: t, Err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return &ReadError{Kind: kindOf(err), Target: t, Err: err}
	}
	if len(body) > maxAnswer {
		return &ReadError{Kind: Garbled, Target: t, Err: fmt.Errorf("the answer is longer than %d bytes", maxAnswer)}
	}
	if resp.StatusCode != http.StatusOK {
		return refused(t, resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, out); err != nil {
		return &ReadError{Kind: Garbled, Target: t, Err: fmt.Errorf("decode %s: %w", q.path, err)}
	}
	return nil
}

func refused(t Target, status int, body []byte) *ReadError {
	e := &ReadError{Kind: Refused, Target: t, Status: status}
	var reply struct {
		Error *CtlError `json:"error"`
	}
	if json.Unmarshal(body, &reply) == nil && reply.Error != nil {
		e.Refusal, e.Err = reply.Error, reply.Error
		return e
	}
	e.Err = fmt.Errorf("HTTP status %d", status)
	return e
}

// kindOf sorts a transport error. In TLS 1.3 the server judges the client's
// certificate after the handshake, so its alert surfaces on the first read.
func kindOf(err error) ReadKind {
	var op *net.OpError
	if errors.Is(err, errTrust) || errors.As(err, &op) && op.Op == "remote error" {
		return Untrusted
	}
	return Unreachable
}
