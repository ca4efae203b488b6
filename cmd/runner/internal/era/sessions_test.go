package era_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A server may start a process for each session, and count them.
func TestADrainEndsTheSessionsWithTheBackend(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint, drain := drainable(t, b, 0)
	for _, caller := range []string{"ann", "bob"} {
		if status, got := send(t, endpoint, modern("1", "tools/call", echo, ""),
			append(asModern("tools/call", "echo"), "X-Api-Key", caller)...); status != 200 {
			t.Fatal(got)
		}
	}
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		sendAll(t, endpoint, modern("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, ""),
			asModern("subscriptions/listen", "")...)
	}()
	await(t, func() bool { return len(b.got(http.MethodGet)) == 1 })
	drain(time.Second)
	<-listening
	begun, ended := map[string]bool{}, map[string]bool{}
	for _, r := range b.got("notifications/initialized") {
		begun[r.session] = true
	}
	for _, r := range b.got(http.MethodDelete) {
		ended[r.session] = true
	}
	if len(begun) < 3 { // and one to find out what the backend speaks
		t.Errorf("%d sessions have begun", len(begun))
	}
	for session := range begun {
		if !ended[session] {
			t.Errorf("session %s stays", session)
		}
	}
}

// A session that could not begin is no later caller's business.
func TestAnErrorOfABeginIsForgottenWithItsCallers(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	send(t, endpoint, modern("1", "tools/call", echo, ""), asModern("tools/call", "echo")...)
	before := len(b.got("initialize"))
	refuse, refused := make(chan struct{}), make(chan struct{})
	b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if !strings.Contains(string(body), `"initialize"`) {
			return false
		}
		<-refuse
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return true
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		_, _ = conn.Read(make([]byte, 1)) // until the proxy has read it
		close(refused)
		return true
	})
	ann := append(asModern("tools/call", "echo"), "X-Api-Key", "ann")
	desert(t, endpoint, modern("1", "tools/call", echo, ""), func() bool { return len(b.got("initialize")) > before },
		ann...)
	b.answers(nil)
	close(refuse)
	<-refused
	time.Sleep(200 * time.Millisecond) // it arrives where nobody waits
	if status, got := send(t, endpoint, modern("2", "tools/call", echo, ""), ann...); status != 200 {
		t.Errorf("HTTP %d with %+v", status, got)
	}
}
