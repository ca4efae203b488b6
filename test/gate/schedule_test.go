package gate

import "runtime"

// turn is a pass of one process that goes on only when it is told to, up to
// its next request.
type turn struct {
	resume chan bool // false ends the process where it stands
	parked chan bool // false: the pass has ended
}

// begin starts a pass and returns when it waits before its first request, or
// has ended, which it reports.
func begin(pass func(*turn)) (t *turn, waiting bool) {
	t = &turn{resume: make(chan bool), parked: make(chan bool)}
	go func() {
		defer func() { t.parked <- false }() // also when the process is killed
		pass(t)
	}()
	return t, <-t.parked
}

// wait is called by the pass before each request.
func (t *turn) wait() {
	t.parked <- true
	if !<-t.resume {
		runtime.Goexit()
	}
}

// step lets the pass send the request it waits with, and go on to the next. It
// reports whether there is one.
func (t *turn) step() (waiting bool) {
	t.resume <- true
	return <-t.parked
}

// kill ends the pass before the request it waits with.
func (t *turn) kill() {
	t.resume <- false
	<-t.parked
}
