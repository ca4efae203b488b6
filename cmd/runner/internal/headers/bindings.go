// Package headers is about the headers Mcp-Param-*, which repeat arguments of tools for whoever reads no bodies (MCP
// specification 2026-07-28, basic/transports/streamable-http, custom headers from tool parameters). The schema of a
// tool names them: x-mcp-header.
//
// bindings.go has what a schema says, and holds headers against arguments; tools.go remembers it of the tools of a
// server.
package headers

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

const (
	// prefix is what the headers begin with.
	prefix = "Mcp-Param-"
	// maxDepth is how deep in a schema they may stand.
	maxDepth = 16
	// maxSafe is the largest integer that a header repeats.
	maxSafe = 1<<53 - 1
)

// binding is a header and the argument that it repeats.
type binding struct {
	header string
	path   []string
}

// definition is what a schema says.
type definition struct {
	bindings []binding
	// broken says that the schema breaks the rules: for clients over HTTP that is no tool, and of none of its headers
	// anything is wrong.
	broken bool
}

func define(schema jsontext.Value) definition {
	d := definition{}
	d.within(schema, nil)
	seen := map[string]bool{}
	for _, b := range d.bindings {
		d.broken = d.broken || seen[b.header]
		seen[b.header] = true
	}
	return d
}

func (d *definition) within(schema jsontext.Value, path []string) {
	if len(path) > maxDepth {
		return
	}
	for name, property := range jsonrpc.Members(jsonrpc.Members(schema)["properties"]) {
		here := append(path[:len(path):len(path)], name)
		said := jsonrpc.Members(property)
		if said["x-mcp-header"] != nil {
			header, wrong := said.Text("x-mcp-header")
			kind, noKind := said.Text("type")
			if d.broken = d.broken || noKind != nil ||
				kind != "string" && kind != "integer" && kind != "boolean"; wrong == nil && token(header) {
				d.bindings = append(d.bindings, binding{textproto.CanonicalMIMEHeaderKey(prefix + header), here})
			} else {
				d.broken = true
			}
		}
		d.within(property, here)
	}
}

// value is the argument, nil for one that is absent or null.
func (b binding) value(arguments jsontext.Value) jsontext.Value {
	for _, name := range b.path {
		arguments = jsonrpc.Members(arguments)[name]
	}
	if arguments.Kind() == 'n' {
		return nil
	}
	return arguments
}

// add adds the header of a call. What no header carries has none: the server refuses it.
func (b binding) add(header http.Header, arguments jsontext.Value) {
	value := b.value(arguments)
	if value == nil {
		return
	}
	if text, err := primitive(value); err == nil {
		header[b.header] = []string{protocol.Encoded(text)}
	}
}

// check is what is wrong with the header of a call.
func (b binding) check(header http.Header, arguments jsontext.Value) error {
	values, argument := header[b.header], b.value(arguments)
	where := "the argument " + strings.Join(b.path, ".")
	switch {
	case argument == nil && len(values) == 0:
		return nil
	case argument == nil:
		return fmt.Errorf("header %s repeats %s, which the call does not have: leave it out", b.header, where)
	case len(values) != 1:
		return fmt.Errorf("send the header %s once, with the value of %s", b.header, where)
	}
	wants, err := primitive(argument)
	if err != nil {
		return fmt.Errorf("header %s repeats %s, which %w", b.header, where, err)
	}
	got, err := protocol.Decoded(values[0])
	if err == nil && argument.Kind() == '0' {
		got, err = integer(got)
	}
	if err != nil || got != wants {
		return fmt.Errorf("header %s is %q, and %s is %s", b.header, values[0], where, argument)
	}
	return nil
}

var errPrimitive = errors.New("is no text, truth value or integer between -(2^53-1) and 2^53-1")

// primitive is an argument as a header has it, before it is encoded.
func primitive(value jsontext.Value) (string, error) {
	switch value.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		return string(text), err
	case 't', 'f':
		return string(value), nil
	case '0':
		return integer(string(value))
	default:
		return "", errPrimitive
	}
}

// integer is a number of JSON as an integer is written: 42 and 42.0 are one. What Go takes for numbers besides, as
// 0x2Ap0, others do not.
func integer(text string) (string, error) {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || !jsontext.Value(text).IsValid() || number != math.Trunc(number) || math.Abs(number) > maxSafe {
		return "", errPrimitive
	}
	return strconv.FormatInt(int64(number), 10), nil
}

// token reports whether a text can be part of a header's name (https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2).
func token(text string) bool {
	for _, r := range text {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return false
		}
	}
	return text != ""
}

// page is one of a list of tools.
type page struct {
	Tools []struct {
		Name        string         `json:"name"`
		InputSchema jsontext.Value `json:"inputSchema"`
	} `json:"tools"`
	Next *jsontext.Value `json:"nextCursor"`
}
