package proxy

import (
	"net/http"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

// Codes of the JSON-RPC errors that the proxy itself answers, beside those of JSON-RPC and of package budget. The MCP
// specification leaves -32000 to -32019 to implementations and keeps -32020 to
// -32099; the ones that older drafts and SDKs use (-32000 to -32005) are left
// out, so that a client never takes our answer for the backend's.
const (
	// CodeNoSessions: the key of session ids is missing, so that no session is served.
	// HTTP 503.
	CodeNoSessions = -32007
	// CodeSessionNotFound: the session is unknown, another caller's, or ended with the
	// backend pod that kept it. HTTP 404.
	CodeSessionNotFound = -32008
	// CodeNotLoggedIn: the request has no token that is accepted, or one that lacks a scope. HTTP 400, 401
	// or 403, or 503 while the issuer's keys cannot be fetched.
	CodeNotLoggedIn = -32009
	// CodeNotEnforced: the spec asks for something that this version does not
	// enforce, so nothing is served. HTTP 503.
	CodeNotEnforced = -32010
	// CodeBackendStarting: no backend has answered since the proxy started.
	// HTTP 503 with Retry-After.
	CodeBackendStarting = -32011
	// CodeBackendUnreachable: the backend could not be reached, or broke off
	// before it answered. The call may have run. HTTP 502.
	CodeBackendUnreachable = -32012
	// CodeBackendGone: the backend broke off in the middle of an event stream.
	// The call may have run. An event in that stream.
	CodeBackendGone = -32013
	// CodeDraining: the proxy is going away and could wait no longer for this
	// call, which may have run; or a subscription began while calls moved to other content. HTTP 503, or an event in its
	// stream.
	CodeDraining = -32014
	// CodeOriginRefused: a browser sent the request from another site (HTTP 403), or under a name that is not this
	// server's (HTTP 421).
	CodeOriginRefused = -32015
	// CodeNotServed: no MCP endpoint at this path (HTTP 404), or not with this
	// method (HTTP 405).
	CodeNotServed = -32017
	// CodeNotPermitted: the policies of spec.authzConfig do not permit the call, or its caller is not among those who may
	// call. HTTP 200; the call of a tool gets a result in place of the error.
	CodeNotPermitted = -32018
	// CodeNotJudged: the call, or the answer to it, cannot be held against the
	// policies. HTTP 400, 200 where the arguments alone are to blame, or 502 for the answer.
	CodeNotJudged = -32019
)

// Reasons in the data of CodeNoSessions: there is no key, or the backend's pods were made with another one.
const (
	ReasonNoSessions  = "NoSessions"
	ReasonKeyNotTaken = "KeyNotTaken"
)

// Answer writes a fault as the whole response to the request called id. That is nil where something is wrong with the
// HTTP request, whose JSON-RPC message was not read.
func Answer(w http.ResponseWriter, f *jsonrpc.Fault, id []byte) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	f.Head(w.Header())
	jsonrpc.Write(w, f.Status, append(f.Response(id), '\n'))
}
