// Package logs is how the programs write what they log.
package logs

import (
	"errors"
	"io"
	"log/slog"

	"github.com/freehold-dev/freehold/apis/printable"
)

// Format of a log: JSON for whatever collects the log of a pod, text for people. It is the value of a flag.
type Format string

// The formats.
const (
	JSON Format = "json"
	Text Format = "text"
)

// MarshalText implements encoding.TextMarshaler.
func (f Format) MarshalText() ([]byte, error) { return []byte(f), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Its error says what to write.
func (f *Format) UnmarshalText(text []byte) error {
	if *f = Format(text); *f != JSON && *f != Text {
		return errors.New("write json or text")
	}
	return nil
}

// Handler writes lines of a level and above. An error has one key on all of them: that of logr and klog is err.
func (f Format) Handler(w io.Writer, level slog.Level) slog.Handler {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "err" {
			a.Key = "error"
		}
		if err, is := a.Value.Any().(error); is && err != nil {
			a.Value = slog.StringValue(err.Error())
		}
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(printable.Text(a.Value.String()))
		}
		return a
	}}
	if f == Text {
		return slog.NewTextHandler(w, options)
	}
	return slog.NewJSONHandler(w, options)
}
