// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/internal/crabwords"
)

// Names in configuration and status, by value.
var (
	policyNames    = crabwords.Policies
	stateNames     = []string{"Down", "UpPlain", "UpCRAB", "Draining"}
	placementNames = []string{"Uplink", "Pod", "PodAlone"}
	roleNames      = []string{"Client", "Balance", "StackFallback", "TrustedTier", "Tunnel", "KeepClient"}
)

func nameOf(names []string, value uint8) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("unknown(%d)", value)
}

func valueOf(names []string, what, name string) (uint8, error) {
	if i := slices.Index(names, name); i >= 0 {
		return uint8(i), nil
	}
	return 0, &FieldError{what, fmt.Sprintf("%q is none of %s", name, strings.Join(names, ", "))}
}

func (p Policy) String() string    { return nameOf(policyNames, uint8(p)) }
func (s State) String() string     { return nameOf(stateNames, uint8(s)) }
func (p Placement) String() string { return nameOf(placementNames, uint8(p)) }

// String lists the roles, joined by +.
func (r Role) String() string {
	var names []string
	for i, name := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

func (p Policy) MarshalText() ([]byte, error)    { return []byte(p.String()), nil }
func (s State) MarshalText() ([]byte, error)     { return []byte(s.String()), nil }
func (p Placement) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
func (r Role) MarshalText() ([]byte, error)      { return []byte(r.String()), nil }

func (p *Policy) UnmarshalText(b []byte) error {
	v, err := valueOf(policyNames, "policy", string(b))
	*p = Policy(v)
	return err
}

func (s *State) UnmarshalText(b []byte) error {
	v, err := valueOf(stateNames, "state", string(b))
	*s = State(v)
	return err
}

func (p *Placement) UnmarshalText(b []byte) error {
	v, err := valueOf(placementNames, "placement", string(b))
	*p = Placement(v)
	return err
}

func (r *Role) UnmarshalText(b []byte) error {
	*r = 0
	for _, name := range strings.Split(string(b), "+") {
		v, err := valueOf(roleNames, "roles", name)
		if err != nil {
			return err
		}
		*r |= 1 << v
	}
	return nil
}
