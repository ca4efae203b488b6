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
