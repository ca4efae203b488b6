package era

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// room is what an answer has of the memory while it is long, until nobody needs it any more.
type room struct {
	memory *budget.Budget
	// who is for whom it counts.
	who string

	mu    sync.Mutex
	lease *share.Lease // nil while the answer is short
	has   int64
	over  bool
}

// expected is how long an answer may become of which there are so many bytes.
func expected(header http.Header, streamed bool, size int) int64 {
	most := int64(maxAnswer)
	if n, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); !streamed && err == nil && n >= 0 && n < most {
		most = n
	}
	return max(most, int64(size))
}

// grow waits for the room that an answer may need, before it becomes long. What the backend sends meanwhile waits for
// that.
func (r *room) grow(ctx context.Context, size int, expected int64) error {
	if size <= budget.Long || r.holds(r.memory.AnswerRoom(int64(size))) {
		return nil
	}
	r.giveBack()
	n := r.memory.AnswerRoom(expected)
	lease, err := r.memory.Answers.Lease(ctx, r.who, n)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		lease.Leave()
		return context.Canceled
	}
	r.lease, r.has = lease, n
	return nil
}

// holds reports whether there is so much room already. It may be left meanwhile.
func (r *room) holds(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.has >= n
}

// leave gives the room back for good.
func (r *room) leave() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.giveBack()
}

func (r *room) giveBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lease != nil {
		r.lease.Leave()
		r.lease, r.has = nil, 0
	}
}

// shrink gives back what a message does not need.
func (r *room) shrink(size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.memory.AnswerRoom(int64(size)); r.lease != nil && n < r.has {
		r.lease.Shrink(n)
		r.has = n
	}
}
