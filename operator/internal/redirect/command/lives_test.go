// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// A life of nothing takes the default; less than nothing is refused by its name, each for itself.
func TestLivesOfTheFile(t *testing.T) {
	if err := checkLives(redirect.Lives{}); err != nil {
		t.Error(err)
	}
	if err := checkLives(redirect.Lives{Idle: 1, Ended: 1, Pending: 1, Echo: 1, Crowded: 1}); err != nil {
		t.Error(err)
	}
	for field, l := range map[string]redirect.Lives{"idle": {Idle: -1}, "ended": {Ended: -1}, "pending": {Pending: -1}, "echo": {Echo: -1}, "crowded": {Crowded: -1}} {
		var wrong *redirect.FieldError
		if err := checkLives(l); !errors.As(err, &wrong) || wrong.Field != "lives."+field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Whom to tell needs an address and a key, and loads that are counted need somebody to tell.
func TestWhoIsTold(t *testing.T) {
	at := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.20:8470")}
	for name, c := range map[string]struct {
		b     *Balancers
		field string
	}{
		"nobody": {nil, ""}, "one": {&Balancers{at, "d"}, ""}, "no address": {&Balancers{nil, "d"}, "balancers.addresses"}, "no key": {&Balancers{at, ""}, "balancers.keyDir"},
	} {
		var wrong *redirect.FieldError
		if err := c.b.check(); (err == nil) != (c.field == "") || err != nil && (!errors.As(err, &wrong) || wrong.Field != c.field) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for text, want := range map[string]string{
		`{"watch": ["10.0.0.1:80"]}`: "watch", `{"watch": ["10.0.0.1:80"], "announce": {}}`: "", `{"watch": ["10.0.0.1:80"], "balancers": {"addresses": ["10.0.0.20:8470"], "keyDir": "d"}}`: "",
		`{"watch": []}`: "", `{"lives": {"Idle": -1}}`: "lives.idle", `{"nonsense": 1}`: "nonsense",
	} {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readConfig(path); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
		if modified(path).IsZero() || !modified(path+"-not").Equal(time.Time{}) {
			t.Errorf("%s: when it was written", text)
		}
	}
}

// A device that is not there is named, and hides none that is.
func TestDevicesThatAreMissing(t *testing.T) {
	s, missing := Config{Devices: []Device{{Name: "bobtail-nosuch"}, {Name: "lo"}}, VIPs: []redirect.VIP{{VIPKey: redirect.VIPKey{Addr: netip.MustParseAddr("192.0.2.1")}}}}.state()
	if len(s.Devices) != 1 || s.Devices[0].Name != "lo" || s.IPv6 || missing == nil || !strings.Contains(missing.Error(), "device bobtail-nosuch") {
		t.Errorf("%+v, %v", s, missing)
	}
	s, missing = Config{VIPs: []redirect.VIP{{VIPKey: redirect.VIPKey{Addr: netip.MustParseAddr("192.0.2.1")}}, {VIPKey: redirect.VIPKey{Addr: netip.MustParseAddr("2001:db8::1")}}}}.state()
	if missing != nil || !s.IPv6 {
		t.Errorf("%+v, %v", s, missing)
	}
}
