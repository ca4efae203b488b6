package pipelinetest

import (
	"net/http/httptest"
	"runtime"
	"time"
)

// stopTime is how long a server's handlers may take to see that their clients have left.
const stopTime = time.Minute

// Stop stops a server and ends what is open there. Close alone waits for each request that is on its way, and one that
// comes between CloseClientConnections and Close, as of a client that opens its stream again, would have it wait for
// good. It panics with all stacks where a handler waits for something else than its request.
func Stop(s *httptest.Server) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	for end := time.Now().Add(stopTime); ; {
		s.CloseClientConnections()
		select {
		case <-closed:
			return
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			all := make([]byte, 1<<20)
			panic("a handler does not end:\n" + string(all[:runtime.Stack(all, true)]))
		}
	}
}
