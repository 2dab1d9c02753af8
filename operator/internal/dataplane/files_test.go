// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
)

// keyPair is a certificate and its key, as they stand in files.
func keyPair(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// The files of a certificate are read at every handshake. While they do not fit, what was good last serves on, and the log
// is told once a minute and not for each caller.
func TestCertificateFilesThatChange(t *testing.T) {
	var log bytes.Buffer
	i := &Identity{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil))}
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(i.Dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said := func() int {
		defer log.Reset()
		return strings.Count(log.String(), "level=WARN")
	}
	now := func() ([]byte, error) {
		c, err := i.ServerConfig().GetConfigForClient(nil)
		if err != nil {
			return nil, err
		}
		return c.Certificates[0].Certificate[0], nil
	}
	if err := i.Check(); err == nil || !strings.Contains(log.String(), "no handshake can succeed") {
		t.Errorf("without files: %v, %s", err, log.String())
	}
	if _, err := now(); err == nil || said() != 1 {
		t.Error("a caller finds no files, and the log is told again, or nothing is wrong")
	}
	first, firstKey := keyPair(t)
	second, secondKey := keyPair(t)
	write("tls.crt", first)
	write("tls.key", firstKey)
	write("ca.crt", []byte("none"))
	if err := i.Check(); err == nil || !strings.Contains(err.Error(), "ca.crt holds no certificate") {
		t.Errorf("an authority that is none: %v", err)
	}
	write("ca.crt", first)
	good, err := now()
	if err != nil || i.Check() != nil {
		t.Fatal(err)
	}
	i.said = time.Now().Add(-2 * sayEvery)
	write("tls.crt", second)
	if got, err := now(); err != nil || !bytes.Equal(got, good) || !strings.Contains(log.String(), "the last good ones serve on") {
		t.Errorf("between two files: %v, %s", err, log.String())
	}
	if got, err := now(); err != nil || !bytes.Equal(got, good) || said() != 1 {
		t.Error("a second caller fills the log, or is turned away")
	}
	write("tls.key", secondKey)
	if got, err := now(); err != nil || bytes.Equal(got, good) || said() != 0 {
		t.Errorf("the new ones are not taken: %v", err)
	}
}

// What did not change is not read anew, and a file that is away for a moment stands in nobody's way.
func TestCertificateFilesThatStay(t *testing.T) {
	i := &Identity{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	certificate, key := keyPair(t)
	for name, text := range map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": certificate} {
		if err := os.WriteFile(filepath.Join(i.Dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, err := i.current()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := i.current(); err != nil || one != again {
		t.Errorf("what did not change was read anew, %v", err)
	}
	if err := os.Remove(filepath.Join(i.Dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	if away, err := i.current(); err != nil || away != one {
		t.Errorf("a file is away for a moment: %v", err)
	}
}

// A command that breaks off is none, even where what came of it could be one.
func TestAChangeThatBreaksOff(t *testing.T) {
	const whole = `{"op":"remove","id":1}`
	for what, body := range map[string]io.Reader{
		"nothing came":     iotest.ErrReader(errors.New("gone")),
		"it looks whole":   io.MultiReader(strings.NewReader(whole), iotest.ErrReader(errors.New("gone"))),
		"its end is gone":  strings.NewReader(whole[:10]),
		"an end too early": io.MultiReader(strings.NewReader(whole), iotest.ErrReader(io.ErrUnexpectedEOF)),
	} {
		if _, refused := ReadChange(body); refused == nil || refused.Code != ctl.CodeInvalidRequest {
			t.Errorf("%s: %+v", what, refused)
		}
	}
	if c, refused := ReadChange(iotest.OneByteReader(strings.NewReader(whole))); refused != nil || c.ID != 1 {
		t.Errorf("byte by byte: %+v, %+v", c, refused)
	}
}

// A refusal is told in the sidecar's words where it has some, and by its status where it has none.
func TestWordsOfARefusal(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"code":"InvalidRequest","message":"no"}}`: "no", `{"error":null}`: "HTTP status 409", `{}`: "HTTP status 409", `{"error":{"message":"no"}`: "HTTP status 409", "": "HTTP status 409",
	} {
		e := refused(Target{}, http.StatusConflict, []byte(body))
		if e.Kind != Refused || e.Status != http.StatusConflict || e.Err == nil || !strings.Contains(e.Err.Error(), want) || (e.Refusal != nil) != (want == "no") {
			t.Errorf("%s: %+v", body, e)
		}
	}
}

// What a member says of its group and what became of a command are read from the sidecar beside it, the record of hours too.
func TestQuestionsToASidecar(t *testing.T) {
	var asked string
	c, target := sidecarThat(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.Path + " " + string(body)
		text(http.StatusOK, `{}`)(w, r)
	})
	if out, err := c.Group(t.Context(), target); err != nil || out == nil || asked != "GET "+GroupPath+" " {
		t.Errorf("%+v, %v, asked %s", out, err, asked)
	}
	out, err := c.Change(t.Context(), target, GroupChange{Op: "remove", ID: 3})
	if err != nil || out == nil || !strings.HasPrefix(asked, "POST "+GroupPath) || !strings.Contains(asked, `"id":3`) || !strings.Contains(asked, `"v":1`) {
		t.Errorf("%+v, %v, asked %s", out, err, asked)
	}
	var e *ReadError
	if out, err := c.History(t.Context(), target); err != nil || out == nil || !out.Started.IsZero() {
		t.Errorf("a record that has not begun: %+v, %v", out, err)
	}
	c, target = sidecarThat(t, time.Minute, text(http.StatusOK, `{"started":"2026-01-01T00:00:00Z"}`))
	if _, err := c.History(t.Context(), target); !errors.As(err, &e) || e.Kind != Garbled {
		t.Errorf("a record of nothing: %v", err)
	}
	c, target = sidecarThat(t, time.Minute, text(http.StatusConflict, ""))
	if _, err := c.Group(t.Context(), target); !errors.As(err, &e) || e.Kind != Refused {
		t.Errorf("%v", err)
	}
	if _, err := c.Change(t.Context(), target, GroupChange{}); !errors.As(err, &e) || e.Kind != Refused {
		t.Errorf("%v", err)
	}
	if _, err := c.History(t.Context(), target); !errors.As(err, &e) || e.Kind != Refused {
		t.Errorf("%v", err)
	}
}

// A sidecar that says nothing of its reading does not fail at it.
func TestFailingWatch(t *testing.T) {
	var none *WatchState
	if none.Failing() || (&WatchState{}).Failing() || !(&WatchState{Error: "no"}).Failing() {
		t.Error("what has no error fails, or what has one does not")
	}
}
