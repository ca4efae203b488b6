package pipelinetest

import (
	"net/http/httptest"
	"time"
)

// Stop stops a server and ends what is open there. Close alone waits for each request that is on its way, and one that
// comes between CloseClientConnections and Close, as of a client that opens its stream again, would have it wait for
// good.
func Stop(s *httptest.Server) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	for {
		s.CloseClientConnections()
		select {
		case <-closed:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
