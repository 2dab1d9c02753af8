// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
	"github.com/bobtail-dev/bobtail/hack/p4/stf"
)

// Cases replays every STF file of a folder with a fresh switch each.
func Cases(folder string, p *model.Program) (run int, failed []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.stf"))
	if err != nil || len(files) == 0 {
		return 0, nil, fmt.Errorf("no STF files in %s", folder)
	}
	sort.Strings(files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return run, failed, err
		}
		m := model.NewMachine(p)
		r, err := stf.Replay(filepath.Base(file), string(text), m)
		run++
		if err != nil {
			failed = append(failed, err.Error())
			continue
		}
		failed = append(failed, r.Failed...)
		if odd := m.Odd(); odd > 0 {
			failed = append(failed, fmt.Sprintf("%s: %d things that should not be, last of %s", file, odd, m.LastOdd))
		}
	}
	return run, failed, nil
}
