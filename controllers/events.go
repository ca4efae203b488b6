package controllers

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// ownKinds are our kinds by the resource of a request.
var ownKinds = func() map[string]client.Object {
	all := map[string]client.Object{}
	for _, kind := range kinds.All() {
		all[kind.Object.Resource()] = kind.New()
	}
	for _, kind := range registry.All() {
		all[kind.Row().Object.Resource()] = kind.New()
	}
	return all
}()

// watchTrimmer trims large objects of our kinds in the answer to a watch. A cache trims them only after decoding, for
// which client-go reads each byte ten times: large objects of one namespace would delay the changes of all others,
// until the API server closes the watch.
type watchTrimmer struct {
	next   http.RoundTripper
	labels []string
}

// RoundTrip implements http.RoundTripper.
func (c watchTrimmer) RoundTrip(req *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(req)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	kind, ours := ownKinds[path.Base(req.URL.Path)]
	ours = ours && strings.Contains(req.URL.Path, "/apis/"+v1alpha1.SchemeGroupVersion.String()+"/")
	watches, err := strconv.ParseBool(req.URL.Query().Get("watch"))
	if err != nil || !watches || !ours {
		return response, nil //nolint:nilerr // a list, or what the API server refuses
	}
	if media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err == nil &&
		media == runtime.ContentTypeJSON {
		response.Body = &trimmedWatch{
			Closer: response.Body, lines: bufio.NewReaderSize(response.Body, watchBuffer),
			kind: reflect.TypeOf(kind).Elem(), labels: c.labels,
		}
	}
	return response, nil
}

const watchBuffer = 16 << 10

// trimmedWatch is the body of a watch, one event per line, as clients in other languages expect, too.
type trimmedWatch struct {
	io.Closer
	lines  *bufio.Reader
	kind   reflect.Type
	labels []string
	// line was read last, rest is still to be returned, and err follows.
	line, rest []byte
	err        error
}

// Read implements io.Reader.
func (e *trimmedWatch) Read(p []byte) (int, error) {
	for len(e.rest) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.next()
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (e *trimmedWatch) next() {
	e.line = e.line[:0]
	for e.err = bufio.ErrBufferFull; errors.Is(e.err, bufio.ErrBufferFull); {
		var part []byte
		part, e.err = e.lines.ReadSlice('\n')
		e.line = append(e.line, part...)
	}
	if e.rest = e.line; len(e.line) > reconcile.LargeObject && e.err == nil {
		e.rest = e.cut(e.line)
	}
}

// cut trims the object of an event. Unreadable events are left for client-go to refuse.
func (e *trimmedWatch) cut(line []byte) []byte {
	object, ok := reflect.New(e.kind).Interface().(client.Object)
	event := struct {
		Type   string        `json:"type"`
		Object client.Object `json:"object"`
	}{Object: object}
	if !ok || json.Unmarshal(line, &event) != nil || object.GetObjectKind().GroupVersionKind().Kind != e.kind.Name() {
		return line // an error of the API server, too
	}
	event.Object = trimOwn(event.Object, e.labels)
	small, err := json.Marshal(event)
	if err != nil {
		return line
	}
	return append(small, '\n')
}
