package logs

import (
	"errors"
	"flag"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

func TestTheLogHasTheFormatThatIsAskedFor(t *testing.T) {
	for args, want := range map[string]string{
		"":                  `"msg":"refused","error":"no","again":"1s"}`,
		"--log-format=json": `"msg":"refused","error":"no","again":"1s"}`,
		"--log-format=text": `msg=refused error=no again=1s`,
		"--log-format=xml":  `invalid value "xml" for flag -log-format: write json or text`,
	} {
		var format Format
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		flags.TextVar(&format, "log-format", JSON, "")
		out := strings.Builder{}
		if err := flags.Parse(strings.Fields(args)); err != nil {
			out.WriteString(err.Error())
		} else {
			log := logr.FromSlogHandler(format.Handler(&out, slog.LevelInfo))
			log.Error(errors.New("no"), "refused", "again", "1s")
			log.V(1).Info("more")
		}
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "more") {
			t.Errorf("%s writes %q, want %q", args, out.String(), want)
		}
	}
}

// Texts of others give no orders to whoever reads the log.
func TestTheLogIsPrintable(t *testing.T) {
	for _, format := range []Format{JSON, Text} {
		out := strings.Builder{}
		logr.FromSlogHandler(format.Handler(&out, slog.LevelInfo)).
			Error(errors.New("a\u202eb"), "c\u202ed", "detail", "e\x1b[0m\u2066f")
		for _, want := range []string{"ab", "cd", "e[0mf"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in %q", format, want, out.String())
			}
		}
	}
}
