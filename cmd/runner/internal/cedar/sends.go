package cedar

import (
	"net/http"
	"time"
)

// largeSends is how many answers above smallBody are sent at once, and sendTime how long one may take, with a second
// more for each MiB: a client decides how fast it reads.
const (
	largeSends = 16
	sendTime   = 15 * time.Second
	// largeEach is how many large answers are collected and sent for one caller, so that
	// others go on beside one that does not read.
	largeEach = 4
)

// send waits until there is memory to send size bytes for as long as the client reads
// them, and gives back the place of what is filtered.
func (a *answer) send(size int) (done func(), err error) {
	defer a.drop()
	if size <= smallBody {
		a.part()
		return func() {}, nil
	}
	if err := a.judge.sends.Acquire(a.ctx, 1); err != nil {
		return nil, err
	}
	control := http.NewResponseController(a.ResponseWriter)
	late := time.Now().Add(sendTime + time.Duration(size>>20)*time.Second)
	_ = control.SetWriteDeadline(late) //nolint:errcheck // a connection has deadlines
	return func() {
		_ = control.SetWriteDeadline(time.Time{}) //nolint:errcheck // as above
		a.judge.sends.Release(1)
		a.part()
	}, nil
}

// hold has a place among the large answers while size bytes are kept. What is longer than a list may be is not
// filtered, and takes memory alone.
func (a *answer) hold(size int) (err error) {
	if size <= smallBody {
		a.part()
		return nil
	}
	if size > maxAnswer && a.method == "" {
		a.drop()
		if memory := a.call.Memory; a.lease == nil {
			a.lease, err = memory.Answers.Lease(a.ctx, a.call.Payer(), memory.AnswerRoom(maxEvent))
		}
		return err
	}
	if a.left == nil {
		if a.left, err = a.judge.callers.Wait(a.ctx, a.call.Account(), 1); err != nil {
			return err
		}
	}
	if a.release == nil {
		a.release, err = a.judge.lists.Wait(a.ctx, a.call.Account(), 1)
	}
	return err
}

// part gives back all places.
func (a *answer) part() {
	a.drop()
	if a.left != nil {
		a.left()
		a.left = nil
	}
	if a.lease != nil {
		a.lease.Leave()
		a.lease = nil
	}
}

func (a *answer) drop() {
	if a.release != nil {
		a.release()
		a.release = nil
	}
}
