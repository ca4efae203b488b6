package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/time/rate"
)

// What all children together may say: so many bytes a line, and so many lines a
// second after a burst. The rest is counted, and its number told.
const (
	MaxWord        = 8 << 10
	linesPerSecond = 200
	linesAtOnce    = 2000
)

// Words passes on what children say on standard error, line by line and as they said
// it. Use NewWords.
type Words struct {
	mu    sync.Mutex
	to    io.Writer
	limit *rate.Limiter
	left  int // lines that were left out since the last one
}

// NewWords passes on to a writer, the log of the pod.
func NewWords(to io.Writer) *Words {
	return &Words{to: to, limit: rate.NewLimiter(linesPerSecond, linesAtOnce)}
}

// relay reads until the end. It never waits, so that no child waits for its log.
func (w *Words) relay(from io.ReadCloser) {
	defer from.Close() //nolint:errcheck // it was only read
	reader := bufio.NewReaderSize(from, 4<<10)
	var line []byte
	cut := 0
	for {
		part, err := reader.ReadSlice('\n')
		room := MaxWord - len(line)
		if len(part) > room {
			cut += len(part) - room
			part = part[:room]
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > 0 {
			w.Say(line, cut)
		}
		line, cut = line[:0], 0
		if err != nil {
			return
		}
	}
}

// Say passes one line on, of which cut bytes are left out.
func (w *Words) Say(line []byte, cut int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.limit.Allow() {
		w.left++
		return
	}
	var text []byte
	if w.left > 0 {
		text = fmt.Appendf(text, "freehold-runner: %d lines were left out, more than %d a second\n", w.left, linesPerSecond)
		w.left = 0
	}
	text = append(text, bytes.TrimSuffix(line, []byte("\n"))...)
	if cut > 0 {
		text = fmt.Appendf(text, " … (%d bytes more)", cut)
	}
	_, _ = w.to.Write(append(text, '\n')) //nolint:errcheck // there is nobody to tell
}
