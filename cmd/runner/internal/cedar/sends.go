package cedar

import (
	"context"
	"net/http"
	"time"

	"github.com/freehold-dev/freehold/controllers/authz"
)

// largeSends is how many answers above smallBody are sent at once, and sendTime how long one may take:
// a client decides how fast it reads.
const (
	largeSends = 16
	sendTime   = 15 * time.Second
	// largeEach is how many large answers are collected and sent for one caller, so that
	// others go on beside one that does not read.
	largeEach = 4
)

// join waits for a place among the large answers of a caller.
func (j *judge) join(ctx context.Context, caller authz.Caller) (part func(), err error) {
	return j.callers.Wait(ctx, sharer(caller), 1)
}

// sharer is who has a share, "" for callers that cannot be told apart.
func sharer(caller authz.Caller) string {
	if caller.Issuer == "" {
		return ""
	}
	return caller.Issuer + " " + caller.Subject
}

// send waits until there is memory to send size bytes for as long as the client reads
// them, and gives back the place of what is filtered.
func (a *answer) send(size int) (done func(), err error) {
	defer a.drop()
	if size <= smallBody {
		a.part()
		return func() {}, nil
	}
	release, err := a.sending()
	if err != nil {
		return nil, err
	}
	control := http.NewResponseController(a.ResponseWriter)
	_ = control.SetWriteDeadline(time.Now().Add(sendTime)) //nolint:errcheck // a connection has deadlines
	return func() {
		_ = control.SetWriteDeadline(time.Time{}) //nolint:errcheck // as above
		release()
		a.part()
	}, nil
}

// hold has a place among the large answers while size bytes are kept.
func (a *answer) hold(size int) error {
	switch large := size > smallBody; {
	case large && a.release == nil:
		if a.left == nil {
			part, err := a.join()
			if err != nil {
				return err
			}
			a.left = part
		}
		release, err := a.acquire()
		if err != nil {
			return err
		}
		a.release = release
	case !large:
		a.part()
	}
	return nil
}

// part gives back all places.
func (a *answer) part() {
	a.drop()
	if a.left != nil {
		a.left()
		a.left = nil
	}
}

func (a *answer) drop() {
	if a.release != nil {
		a.release()
		a.release = nil
	}
}
