package bridge

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// maxShown is how many credentials of a request are looked at: a proxy shows one for each key that it has.
const maxShown = 8

// notAProxy is no 401, by which clients would begin a login (docs/adr/0085-a-refusal-that-people-read.md).
var notAProxy = jsonrpc.Fail(http.StatusMisdirectedRequest, CodeNotAProxy,
	"NotAProxy: this is the backend of an MCPServer, which answers that server's proxies alone: call the Service of the "+
		"proxy, whose name ends in -proxy (status.url)")

// Closed passes on what shows the credential whose lower-case hexadecimal SHA-256 is sum, without it, and answers all
// else that it is not for who sent it. Nothing shows one whose sum is no such text.
func Closed(sum string, next http.Handler) http.Handler {
	want, err := hex.DecodeString(sum)
	if err != nil {
		want = nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown := strings.Fields(r.Header.Get(protocol.HeaderProxy))
		r.Header.Del(protocol.HeaderProxy)
		known := 0
		for _, credential := range shown[:min(len(shown), maxShown)] {
			is := sha256.Sum256([]byte(credential))
			known |= subtle.ConstantTimeCompare(is[:], want)
		}
		if known != 1 {
			w.Header().Set("Connection", "close") // its body is not waited for
			w.Header().Set(protocol.HeaderProxy, "required")
			writeFault(w, notAProxy, nil)
			return
		}
		next.ServeHTTP(w, r)
	})
}
