// SPDX-License-Identifier: Apache-2.0

package sidecar

// What a sidecar does beside a member of a ReplicationGroup: it reads the group's state
// for the operator, hands its commands to the member, and gives a new disk its name.

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

func (s *service) serveGroup(w http.ResponseWriter, r *http.Request) {
	out, err := ask(r.Context(), s.link, (*dataplane.Socket).Group)
	answer(w, out, err)
}

// serveChange is the one thing by which a sidecar changes anything: it stands on the
// listener alone that lets in nobody but the operator.
func (s *service) serveChange(w http.ResponseWriter, r *http.Request) {
	change, refused := dataplane.ReadChange(r.Body)
	if refused != nil {
		dataplane.WriteError(w, http.StatusBadRequest, refused)
		return
	}
	out, err := ask(r.Context(), s.link, func(d *dataplane.Socket, ctx context.Context) (*dataplane.GroupChanged, error) {
		return d.Change(ctx, change)
	})
	answer(w, out, err)
}

// memberName is what a pod can be called.
var memberName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$`)

func (o Options) checkName() error {
	if !memberName.MatchString(o.Member) {
		return fmt.Errorf("%w: --member: must be the name of a pod, of at most 52 characters; got %q", ErrUsage, o.Member)
	}
	return nil
}

// nameBytes are random: two disks of one pod never have the same name.
const nameBytes = 5

// giveName writes a name to a file that does not exist yet. The name lies on the disk
// whose member it names: a disk that was lost never comes back under its name, so nobody
// takes the empty one for it. A file is there whole or not at all.
func giveName(file, member string) error {
	if _, err := os.Stat(file); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var raw [nameBytes]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return fmt.Errorf("draw a name: %w", err)
	}
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("write a name: %w", err)
	}
	_, err = f.WriteString(member + "-" + hex.EncodeToString(raw[:]))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write a name: %w", err)
	}
	if err := os.Rename(part, file); err != nil {
		return fmt.Errorf("write a name: %w", err)
	}
	folder, err := os.Open(filepath.Dir(file))
	if err != nil {
		return fmt.Errorf("make a name durable: %w", err)
	}
	if err = errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("make a name durable: %w", err)
	}
	return nil
}
