package cedar

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
)

var errEncoded = errors.New("the body is encoded: send it without Content-Encoding")

// readable refuses a body that the headers have the backend read in another way than
// the proxy does, which reads JSON in UTF-8.
func readable(header http.Header) error {
	encodings := header.Values("Content-Encoding")
	if len(encodings) > 1 || len(encodings) == 1 && encodings[0] != "" && !strings.EqualFold(encodings[0], "identity") {
		return errEncoded
	}
	value, err := single(header, "Content-Type")
	if err != nil {
		return err
	}
	if value == "application/json" {
		return nil
	}
	media, parameters, err := mime.ParseMediaType(value)
	charset, told := parameters["charset"]
	switch {
	case err != nil:
		return fmt.Errorf("header Content-Type: %w", err)
	case media != "application/json":
		return fmt.Errorf("header Content-Type is %q: send application/json", value)
	case told && !strings.EqualFold(charset, "utf-8"):
		return fmt.Errorf("header Content-Type is %q: send JSON in UTF-8", value)
	// Readers disagree about names with an asterisk, escapes, and text that looks
	// like another parameter.
	case told && len(parameters) > 1, !told && len(parameters) > 0, strings.ContainsAny(value, `*\`):
		return fmt.Errorf("header Content-Type is %q: send no parameter but charset", value)
	}
	return nil
}

// judged is a body on its way to the backend. It gives up its memory, and its
// room, once it is read: the answer to it may take for ever, and httputil.ReverseProxy
// closes it only after that.
type judged struct {
	mu      sync.Mutex // the transport may close it while it reads
	rest    []byte
	release func()
}

// Read implements io.Reader.
func (b *judged) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		b.rest = nil
		b.release()
	}
	return n, nil
}

// Close implements io.Closer.
func (b *judged) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = nil
	b.release()
	return nil
}
