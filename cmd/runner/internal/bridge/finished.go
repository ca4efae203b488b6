package bridge

import "sync"

// maxKept is how many streams of all clients are kept after they were written: of each what is kept for one that
// resumes it.
const maxKept = 64

// finished are those streams, the oldest first. A client whose connection is dead has the end of its stream by resuming
// it, and it knows that later than the bridge has written it.
type finished struct {
	mu  sync.Mutex
	all []*stream
}

// keep keeps one more, and lets go of the oldest where there are too many.
func (f *finished) keep(s *stream) {
	f.mu.Lock()
	f.all = append(f.all, s)
	var oldest *stream
	if len(f.all) > maxKept {
		oldest, f.all = f.all[0], append([]*stream(nil), f.all[1:]...)
	}
	f.mu.Unlock()
	if oldest != nil {
		oldest.free()
	}
}

// isFreed reports whether nobody comes back to the stream.
func (s *stream) isFreed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freed
}
