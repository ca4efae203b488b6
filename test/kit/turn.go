package kit

import "runtime"

// Turn is a pass of one process that goes on only when it is told to, up to its next request. So what several processes
// do can be put into any order, and be repeated in it.
type Turn struct {
	resume chan bool // false ends the process where it stands
	parked chan bool // false: the pass has ended
}

// BeginTurn starts a pass and returns when it waits before its first request, or has ended, which it reports.
func BeginTurn(pass func(*Turn)) (t *Turn, waiting bool) {
	t = &Turn{resume: make(chan bool), parked: make(chan bool)}
	go func() {
		defer func() { t.parked <- false }() // also when the process is killed
		pass(t)
	}()
	return t, <-t.parked
}

// Wait is called by the pass before each request.
func (t *Turn) Wait() {
	t.parked <- true
	if !<-t.resume {
		runtime.Goexit()
	}
}

// Step lets the pass send the request it waits with, and go on to the next. It reports whether there is one.
func (t *Turn) Step() (waiting bool) {
	t.resume <- true
	return <-t.parked
}

// Kill ends the pass before the request it waits with.
func (t *Turn) Kill() {
	t.resume <- false
	<-t.parked
}
