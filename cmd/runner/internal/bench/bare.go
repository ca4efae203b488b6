package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// serveBare serves the least that passes calls on to the backend at address: nobody is
// judged, no header changed, no stream ended in a defined way, nothing drained. It
// keeps its connections to the backend as ours does, since it would else open a new
// one for every second call.
func serveBare(address string) error {
	listener, err := listen()
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the library says so
	transport.MaxIdleConnsPerHost = 256
	backend := &url.URL{Scheme: "http", Host: address}
	return quick(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(backend) },
		Transport: transport,
		ErrorLog:  log.New(io.Discard, "", 0), // the client counts failures
	}).Serve(listener)
}
