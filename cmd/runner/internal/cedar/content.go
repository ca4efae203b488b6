package cedar

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
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
