// SPDX-License-Identifier: Apache-2.0

package agentlink

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
)

// contract is the version of docs/reference/lancet-agent.md that is spoken here.
const contract = 2

// Bounds of the contract.
const (
	maxLine  = 1 << 20
	minToken = 16
)

// patience is how long an agent may take to answer what needs no waiting (L-12).
const patience = 10 * time.Second

// Link is the connection to one agent. Its calls are made one after the other.
type Link struct {
	Name string // its address, for people
	// OnTraced, when set before Measure, is told of every sample that carried a trace id.
	OnTraced func(Traced)

	mutex  sync.Mutex
	conn   net.Conn
	reader *bufio.Reader
	ready  configured
	latest lancet.Latency
	// loadOnly: samples tell when requests left, not when they were answered (L-1).
	loadOnly bool
	slots    int           // requests it can have under way
	lease    time.Duration // the agent takes us for dead when it hears nothing for so long
	quit     context.CancelFunc
	beating  sync.WaitGroup
	stop     func() error // ends the agent where it was started here
}

type greeting struct {
	Agent          string `json:"agent"`
	Version        string `json:"version"`
	Contract       int    `json:"contract"`
	Nonce          string `json:"nonce"`
	Authentication string `json:"authentication"`
	LeaseSeconds   int    `json:"leaseSeconds"`
}

// Dial connects to an agent: "unix:PATH", or "HOST:PORT" with the secret both know.
func Dial(ctx context.Context, address string, token []byte) (*Link, error) {
	network, where := "tcp", address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, where = "unix", path
	}
	dialer := net.Dialer{Timeout: patience}
	conn, err := dialer.DialContext(ctx, network, where)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w; is `bobtail-load --agent=%s` running?", address, err, address)
	}
	l := &Link{Name: address, conn: conn, reader: bufio.NewReaderSize(conn, 64<<10)}
	if err := l.greet(ctx, token); err != nil {
		return nil, errors.Join(fmt.Errorf("agent %s: %w", address, err), conn.Close())
	}
	life, quit := context.WithCancel(context.Background())
	l.quit = quit
	l.beating.Go(func() { l.beat(life) })
	return l, nil
}

// DialWithin dials until the agent can be reached or the time is over. An agent
// that was reached and refuses is not asked again.
func DialWithin(ctx context.Context, address string, token []byte, wait time.Duration) (*Link, error) {
	end := time.Now().Add(wait)
	for {
		l, err := Dial(ctx, address, token)
		var network *net.OpError
		if err == nil || !errors.As(err, &network) || network.Op != "dial" || time.Now().After(end) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// greet reads what the agent says first and, where it asks for one, proves the
// secret and has the agent prove it too.
func (l *Link) greet(ctx context.Context, token []byte) error {
	var hello greeting
	if err := l.answer(ctx, patience, &hello); err != nil {
		return err
	}
	if hello.Contract != contract {
		return fmt.Errorf("%s %s speaks contract %d, this program %d; use agents of the same release",
			hello.Agent, hello.Version, hello.Contract, contract)
	}
	if hello.LeaseSeconds < 1 || hello.LeaseSeconds > 86_400 {
		return fmt.Errorf("greeting: leaseSeconds: %d: must be between 1 and 86,400", hello.LeaseSeconds)
	}
	l.lease = time.Duration(hello.LeaseSeconds) * time.Second
	switch hello.Authentication {
	case "none":
		if l.conn.RemoteAddr().Network() != "unix" {
			return errors.New("asks for no token, which no agent on TCP does: it may be another program on that port")
		}
		return nil
	case "token":
	default:
		return fmt.Errorf("asks for authentication %q, which this program does not know", hello.Authentication)
	}
	if len(token) < minToken {
		return fmt.Errorf("asks for a token of at least %d bytes: give the file that `--agent-token-file` names there", minToken)
	}
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return fmt.Errorf("make a nonce: %w", err)
	}
	nonce := hex.EncodeToString(raw)
	var back struct {
		Proof string `json:"proof"`
	}
	err := l.call(ctx, patience, map[string]any{
		"op": "hello", "nonce": nonce, "proof": proof(token, "lancet-coordinator-1", hello.Nonce, nonce),
	}, &back)
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(back.Proof), []byte(proof(token, "lancet-agent-1", nonce, hello.Nonce))) {
		return errors.New("does not know the token: it may be another program on that port")
	}
	return nil
}

func proof(token []byte, role, first, second string) string {
	mac := hmac.New(sha256.New, token)
	_, _ = io.WriteString(mac, role+":"+first+":"+second) // a hash's Write never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// refusal is the agent's "no".
type refusal struct {
	Code    string `json:"code"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

func (r refusal) Error() string {
	if r.Field != "" {
		return fmt.Sprintf("%s: %s (%s)", r.Field, r.Message, r.Code)
	}
	return fmt.Sprintf("%s (%s)", r.Message, r.Code)
}

// call sends a request and reads its answer into out, which may be nil.
func (l *Link) call(ctx context.Context, wait time.Duration, request, out any) error {
	raw, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	defer l.within(ctx, wait)()
	if _, err := l.conn.Write(append(raw, '\n')); err != nil {
		return broken(ctx, err)
	}
	return l.answer(ctx, wait, out)
}

// within bounds what follows in time, and ends it when ctx does: an agent may take
// minutes to store its keys, and nobody who interrupts the program waits for that.
// The caller calls what is returned when it is done.
func (l *Link) within(ctx context.Context, wait time.Duration) func() bool {
	_ = l.conn.SetDeadline(time.Now().Add(wait)) // fails on a closed connection only, and so does what follows
	return context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Unix(1, 0)) })
}

// broken says why an exchange with the agent ended early.
func broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Errorf("connection to the agent: %w", err)
}

func (l *Link) answer(ctx context.Context, wait time.Duration, out any) error {
	defer l.within(ctx, wait)()
	line, err := readLine(l.reader)
	if err != nil {
		return broken(ctx, err)
	}
	return decodeAnswer(line, out)
}

// readLine reads to the newline, however the bytes arrive (L-12).
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("answer longer than %d bytes", maxLine)
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func decodeAnswer(line []byte, out any) error {
	var head struct {
		OK    *bool    `json:"ok"`
		Error *refusal `json:"error"`
	}
	if err := json.Unmarshal(line, &head); err != nil || head.OK == nil {
		return fmt.Errorf("answer is no JSON object with \"ok\": %.80q; is this a Lancet agent?", line)
	}
	if !*head.OK {
		if head.Error == nil {
			return errors.New("refused without a reason")
		}
		return *head.Error
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(line, out); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

// Close ends the connection, with it the load, and the agent itself where it was
// started here.
func (l *Link) Close() error {
	l.quit()
	err := l.conn.Close()
	l.beating.Wait()
	if l.stop != nil {
		err = errors.Join(err, l.stop())
	}
	return err
}
