package bridge

import (
	"net/http"
	"testing"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// A server over stdio sees no headers: the bridge holds them against the arguments in its place.
func TestHeadersOfArgumentsAreChecked(t *testing.T) {
	f := serve(t, Config{Server: child("modern")})
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deploy","arguments":{"region":"eu"},"_meta":{"` +
		protocol.MetaVersion + `":"` + protocol.Modern + `"}}}`
	modern := []string{
		protocol.HeaderVersion, protocol.Modern, protocol.HeaderMethod, "tools/call", protocol.HeaderName,
		"deploy",
	}
	f.want(f.post(call, append(modern, "Mcp-Param-Region", "eu")...), http.StatusOK, `"result"`)
	f.want(f.post(call, append(modern, "Mcp-Param-Region", "us")...), http.StatusBadRequest, "-32020",
		`header Mcp-Param-Region is \"us\"`)
	f.want(f.post(call, modern...), http.StatusBadRequest, "-32020", "send the header Mcp-Param-Region once")
}
