// Package pipelinetest stands in for the handlers that come before those of a test.
package pipelinetest

import (
	"net/http"
	"net/http/httptest"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/controllers/authz"
)

// Begin makes the calls that go to the next handler, as a proxy does. Who, if not nil, has sent a request.
func Begin(next http.Handler, memory *budget.Budget, who func(*http.Request) authz.Caller) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := pipeline.New(fail, w, r, memory)
		defer call.Body.End()
		if who != nil {
			call.Authenticated(who(r))
		}
		next.ServeHTTP(w, r.WithContext(call.In(r.Context())))
	})
}

// Called is a request with a call of its own.
func Called(r *http.Request) *http.Request {
	call := pipeline.New(fail, httptest.NewRecorder(), r, budget.New(budget.Default))
	return r.WithContext(call.In(r.Context()))
}

// fail answers what cannot be read with the error.
func fail(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
}

// As says who has sent the calls that go to the next handler: whoever a header names.
func As(header string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := r.Header.Get(header); name != "" {
			pipeline.Of(r.Context()).Authenticated(Caller(name))
		}
		next.ServeHTTP(w, r)
	})
}

// Caller is somebody who has logged in.
func Caller(name string) authz.Caller {
	return authz.Caller{Issuer: "https://issuer.example.com", Subject: name}
}

// Payer is for whom the memory of a caller's calls counts.
func Payer(name string) string {
	call := new(pipeline.Call)
	call.Authenticated(Caller(name))
	return call.Payer()
}
