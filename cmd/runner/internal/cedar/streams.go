package cedar

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

// maxEvent is the longest event of a stream that a GET has opened, in bytes. It may be a result of any kind, or a
// question with an image.
const maxEvent = 16 << 20

var errEvent = errors.New("an event of the backend is longer than the 16 MiB that are read")

// longest is the longest event that is read.
func (a *answer) longest() int {
	if a.method != "" {
		return maxAnswer
	}
	return maxEvent
}

// tooLong is why a longer one is not passed on.
func (a *answer) tooLong() error {
	if a.method != "" {
		return errList
	}
	return errEvent
}

// event passes an event on, filtered. What is no message passes as it is; of whatever name an event is, a client may
// take it for a message.
func (a *answer) event(e sse.Event) error {
	if a.over() {
		return nil
	}
	text := e.Text
	if e.Object() {
		filtered, err := filter(e.Data, a.visible)
		switch {
		case err != nil && e.Message() == nil:
			a.unreadable(errAnswer) // no client that listens to messages alone misses it
			return nil
		case errors.Is(err, errList):
			return a.lost(e.Data, errList)
		case err != nil:
			return a.lost(e.Data, errAnswer)
		case !bytes.Equal(filtered, e.Data):
			text = e.WithData(filtered)
		}
	}
	return a.pass(text)
}

// lost passes an error on in the place of a message. A stream on which nobody waits for that one goes on without it.
func (a *answer) lost(message jsontext.Value, why error) error {
	a.unreadable(why)
	id := a.id
	if members := jsonrpc.Members(message); id == nil && members["method"] == nil {
		id = members["id"]
	}
	switch {
	case id != nil:
	case a.method != "" || message == nil: // whose call it is nobody can tell: the end of the stream does
		return errors.Join(errAnswer, why)
	default:
		return nil
	}
	if a.id != nil {
		a.failed = why
	}
	said := &saying{header: http.Header{}}
	a.refuse(said, id, why)
	return a.pass(sse.Message(bytes.TrimSpace(said.Bytes())))
}

// pass passes an event on as it is.
func (a *answer) pass(text []byte) error {
	done, err := a.send(len(text))
	if err != nil {
		return err
	}
	defer done()
	_, err = a.ResponseWriter.Write(text)
	return err
}

// saying is an answer whose body becomes an event.
type saying struct {
	bytes.Buffer
	header http.Header
}

// Header implements http.ResponseWriter.
func (s *saying) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter.
func (s *saying) WriteHeader(int) {}
