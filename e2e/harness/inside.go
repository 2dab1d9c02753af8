// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"path/filepath"

	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/proc"
)

// Process finds a process of the embedded cluster by its name there: control-plane and
// node-a hold the network namespaces of the control plane and of a node.
func (e *Env) Process(name string) (proc.Ref, error) {
	state, err := layout.OpenState(filepath.Dir(e.value("KUBECONFIG")))
	if err != nil {
		return proc.Ref{}, err
	}
	r, err := proc.Read(state.Pid(name))
	if err == nil && !r.Alive() {
		err = fmt.Errorf("%s does not run, see %s", name, state.Log(name))
	}
	return r, err
}
