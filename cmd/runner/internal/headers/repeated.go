package headers

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// A server that reads the body of a request of the modern era has to hold the headers against it (MCP specification
// 2026-07-28, basic/transports/streamable-http, server validation). Revision does so with the header that names the
// revision, and Call with those that name the call.

// Revision returns the revision that a request names. A body without one is wrong as well (basic/index, per-request
// protocol fields), unless the revision does not have the method: a client that sends what the revision does not have,
// as a ping, need not know that either.
func Revision(
	header http.Header, m jsonrpc.Message, lacks func(method string) bool,
) (version string, wrong *jsonrpc.Fault) {
	version, err := jsonrpc.Members(jsonrpc.Members(m.Params)["_meta"]).Text(protocol.MetaVersion)
	unknown := err != nil || version == ""
	if !unknown || len(header.Values(protocol.HeaderVersion)) != 1 {
		if err := agrees(header, protocol.HeaderVersion, version, false); err != nil {
			return "", mismatch(err)
		}
	}
	switch {
	case header.Get(protocol.HeaderVersion) == protocol.Modern && lacks(m.Method):
		return "", jsonrpc.Fail(http.StatusNotFound, protocol.CodeMethodNotFound,
			"revision %s does not have the method %.256s", protocol.Modern, m.Method)
	case unknown:
		return "", jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidParams, "params._meta has no text %s",
			protocol.MetaVersion)
	}
	return version, nil
}

// Call is what is wrong with the headers that name a call, nil for nothing.
func Call(header http.Header, m jsonrpc.Message) *jsonrpc.Fault {
	member := protocol.NameMember[m.Method]
	name, _ := jsonrpc.Members(m.Params).Text(member) //nolint:errcheck // what is no text is no name
	if err := Agree(header, m.Method, name, false); err != nil {
		return mismatch(err)
	}
	return nil
}

// Agree is what is wrong with the headers that name a call of a method, and of a name if the method has one. Headers
// that are absent say nothing if they are optional.
func Agree(header http.Header, method, name string, optional bool) error {
	err := agrees(header, protocol.HeaderMethod, method, optional)
	if _, named := protocol.NameMember[method]; named && err == nil {
		err = agrees(header, protocol.HeaderName, name, optional)
	}
	return err
}

func mismatch(err error) *jsonrpc.Fault {
	return jsonrpc.Fail(http.StatusBadRequest, protocol.CodeHeaderMismatch, "HeaderMismatch: %v", err)
}

// agrees is an error for a header that does not say, once, what the body says.
func agrees(header http.Header, name, body string, optional bool) (err error) {
	values := header.Values(name)
	switch {
	case optional && strings.Join(values, "") == "":
		return nil
	case len(values) != 1:
		return fmt.Errorf("send the header %s once", name)
	}
	has := values[0]
	if name == protocol.HeaderName { // the one that may be encoded
		has, err = protocol.Decoded(has)
	}
	if err != nil || has != body {
		return fmt.Errorf("header %s is %.256q, the body says %.256q", name, values[0], body)
	}
	return nil
}
