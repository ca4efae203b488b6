package era_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

type answer struct {
	status int
	got    message
}

// legacyCall makes a call, and returns once the server has it.
func legacyCall(t *testing.T, endpoint, id string, called <-chan struct{}, headers ...string) <-chan answer {
	t.Helper()
	answered := make(chan answer, 1)
	go func() {
		status, got := send(t, endpoint, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{`+echo+`}}`,
			headers...)
		answered <- answer{status, got}
	}()
	<-called
	return answered
}

func cancelCall(t *testing.T, endpoint, id string, headers ...string) {
	t.Helper()
	if status, _ := sendAll(t, endpoint,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`,
		headers...); status != http.StatusAccepted {
		t.Errorf("HTTP %d", status)
	}
}

// A modern server is told by the end of the request that a legacy client has cancelled its call, and by nothing of
// another client.
func TestALegacyClientCancelsACallOfAModernServer(t *testing.T) {
	b := newBackend(t, modernOnly)
	endpoint := front(t, b)
	ended := make(chan struct{}, 10)
	called := make(chan struct{}, 10)
	b.answers(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		m := message{}
		if _ = json.Unmarshal(body, &m); m.Method != "tools/call" {
			return false
		}
		called <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
		return true
	})
	call := func(id string, headers ...string) <-chan answer {
		return legacyCall(t, endpoint, id, called, headers...)
	}
	cancel := func(id string, headers ...string) { cancelCall(t, endpoint, id, headers...) }
	answered := call("7", "X-Api-Key", "ann")
	cancel("7", "X-Api-Key", "bob")
	cancel("7", "X-Api-Key", "ann", "User-Agent", "another")
	cancel("8", "X-Api-Key", "ann")
	select {
	case got := <-answered:
		t.Fatalf("it ended without its client: %+v", got)
	case <-time.After(300 * time.Millisecond):
	}
	cancel(`"7"`, "X-Api-Key", "ann") // ids are the same however they are spelled
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the server is not told")
	}
	if got := <-answered; got.status != http.StatusOK || got.got.Error == nil || string(got.got.ID) != "7" {
		t.Errorf("the client gets %+v", got)
	}
	first, second := call("9"), call("9")
	cancel("9") // of one of two that look the same
	select {
	case got := <-first:
		t.Errorf("one of two ended: %+v", got)
	case got := <-second:
		t.Errorf("one of two ended: %+v", got)
	case <-time.After(300 * time.Millisecond):
	}
	b.CloseClientConnections()
	<-first
	<-second
}
