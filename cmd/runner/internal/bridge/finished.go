package bridge

import (
	"slices"
	"sync"

	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// maxKept is how many streams of all clients are kept after they were written: of each what is kept for one that
// resumes it. One caller has half of them.
const maxKept = 64

// finished are those streams, the oldest first. A client whose connection is dead has the end of its stream by resuming
// it, and it knows that later than the bridge has written it.
type finished struct {
	mu  sync.Mutex
	all []*stream
}

// keep keeps one more, and lets go of the oldest where there are too many, of all or of its caller.
func (f *finished) keep(s *stream) {
	if over := f.add(s); over != nil {
		over.free()
	}
}

// add adds one, and returns the one that is kept no more, nil for none.
func (f *finished) add(s *stream) (over *stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, s)
	oldest, own := 0, 0
	for i, kept := range slices.Backward(f.all) {
		if caller := s.unread.caller; caller != "" && kept.unread.caller == caller {
			if own++; own > share.Half(maxKept) {
				oldest = i
			}
		}
	}
	if len(f.all) <= maxKept && own <= share.Half(maxKept) {
		return nil
	}
	over = f.all[oldest]
	f.all = slices.Delete(f.all, oldest, oldest+1)
	return over
}

// isFreed reports whether nobody comes back to the stream.
func (s *stream) isFreed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freed
}
