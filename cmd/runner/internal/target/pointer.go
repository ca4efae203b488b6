package target

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// pointerFile is the file, in the directory of the state, with the pointer that was read last.
const pointerFile = "active.json"

// pointer is which content gets the calls of a server, and which others there are. A container that starts again while
// the API server is away goes by it, and does not guess (docs/adr/0064-a-proxy-waits-for-the-pointer.md).
type pointer struct {
	ServerUID string                    `json:"serverUID"`
	Active    *v1alpha1.BackendContent  `json:"active"`
	Others    []v1alpha1.BackendContent `json:"others,omitempty"`
}

// read is the pointer that a process of this pod has kept of a server, empty where there is none that can be read.
func (s *slots) read(uid string) pointer {
	if s.file == "" {
		return pointer{}
	}
	data, err := os.ReadFile(s.file)
	var last pointer
	if err == nil {
		err = json.Unmarshal(data, &last)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("it is not known where calls went last", "error", err)
	}
	if err != nil || last.ServerUID != uid {
		return pointer{}
	}
	return last
}

// restored has the first status that is read replace what the file says, also one of a lower generation: the cluster
// may have been restored from a backup.
func (s *slots) restored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation = 0
}

// keep writes a pointer that is another one than was written last. Without it a proxy serves as well, until it starts
// again.
func (s *slots) keep(now pointer) {
	if reflect.DeepEqual(now, s.now) {
		return
	}
	if s.now = now; s.file == "" {
		return
	}
	if err := s.write(now); err != nil && s.log != nil {
		s.log.Warn("where calls go is not kept for the next start of the container", "error", err)
	}
}

// write replaces the file as a whole.
func (s *slots) write(now pointer) error {
	data, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encoding the pointer: %w", err)
	}
	return replace(s.file, data)
}

// replace writes a file of the state as a whole.
func replace(file string, data []byte) error {
	next := file + ".next"
	err := os.WriteFile(next, data, 0o600)
	if err == nil {
		err = os.Rename(next, file)
	}
	if err != nil { // what is older must not be believed
		if gone := os.Remove(file); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}
