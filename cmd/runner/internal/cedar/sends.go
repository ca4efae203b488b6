package cedar

import (
	"net/http"
	"time"
)

// largeSends is how many answers above smallBody are sent at once, and sendTime how long one may take:
// a client decides how fast it reads.
const (
	largeSends = 16
	sendTime   = 15 * time.Second
)

// send waits until there is memory to send size bytes for as long as the client reads
// them, and gives back the place of what is filtered.
func (a *answer) send(size int) (done func(), err error) {
	defer a.drop()
	if size <= smallBody {
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
	}, nil
}
