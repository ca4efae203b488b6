package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/target"
	"github.com/freehold-dev/freehold/controllers/backend"
)

// member is one pod of a backend.
type member struct {
	asked  *counts
	hangs  atomic.Bool
	called atomic.Int32 // sessions that clients have begun, or want to
}

// named has names lead to addresses, in this process, until the test ends.
func named(t *testing.T, pods ...netip.Addr) {
	t.Helper()
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go answerDNS(theirs, pods)
		return ours, nil
	}}
}

// answerDNS answers questions that come as over TCP (https://www.rfc-editor.org/rfc/rfc1035#section-4.2.2): whatever
// the name, it leads to pods.
func answerDNS(conn net.Conn, pods []netip.Addr) {
	defer conn.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		const head = 12
		end := head + bytes.IndexByte(query[head:], 0) + 5
		answer := append(bytes.Clone(query[:2]), 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0)
		answer = append(answer, query[head:end]...)
		if query[end-3] == 1 { // A
			answer[7] = byte(len(pods))
			for _, pod := range pods {
				answer = append(answer, 0xc0, head, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				answer = append(answer, pod.AsSlice()...)
			}
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// isAsked waits until it has been asked n questions more.
func (m *member) isAsked(ctx context.Context, t *testing.T, question string, n int) {
	t.Helper()
	for before := m.asked.of(question); m.asked.of(question) < before+n; time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("no more questions: %v", m.asked.all)
		}
	}
}

// twoPods are a backend of two pods, behind the real proxy.
func twoPods(t *testing.T, stateless bool) (*bench, [2]*member) {
	t.Helper()
	members, port := [2]*member{}, ""
	for i := range members {
		m := &member{asked: &counts{all: map[string]int{}}}
		members[i] = m
		server := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"}, nil)
		sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
			&mcp.StreamableHTTPOptions{Stateless: stateless, DisableLocalhostProtection: true})
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var said struct{ Method string }
			_ = json.Unmarshal(body, &said)
			m.asked.add(said.Method)
			if said.Method == "initialize" && strings.Contains(string(body), `"somebody"`) {
				m.called.Add(1)
			}
			if m.hangs.Load() {
				<-r.Context().Done()
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			sdk.ServeHTTP(w, r)
		}))
		listener, err := net.Listen("tcp", netip.AddrFrom4([4]byte{127, 0, 0, byte(21 + i)}).String()+":"+port)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(listener.Addr().String())
		_ = s.Listener.Close()
		s.Listener = listener
		s.Start()
		t.Cleanup(func() { pipelinetest.Stop(s) })
	}
	run := asks(nil).Server
	b := proxied(t, target.Config{Run: run, Backend: "http://backend.test:" + port, KeysDir: sessionKey(t)})
	b.Server.Proxy.Probe = &runconfig.Probe{PeriodSeconds: new(int32(1)), TimeoutSeconds: 3, FailureThreshold: 2}
	return b, members
}

// connects is what a client of the legacy era gets that connects.
func (s *bench) connects(t *testing.T) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address+"/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
			`"capabilities":{},"clientInfo":{"name":"somebody","version":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(said)
}

// TestOfTwoPodsTheHangingOneGoesAlone: who connects is served by the other one, nothing but that is said, and the pod
// is back with its first answer. A legacy pod keeps one session for all the questions.
func TestOfTwoPodsTheHangingOneGoesAlone(t *testing.T) {
	named(t, netip.AddrFrom4([4]byte{127, 0, 0, 21}), netip.AddrFrom4([4]byte{127, 0, 0, 22}))
	for name, question := range map[string]string{"legacy": "ping", "modern": protocol.MethodDiscover} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theHangingOneGoesAlone(t, question)
		})
	}
}

func theHangingOneGoesAlone(t *testing.T, question string) {
	t.Helper()
	legacy := question == "ping"
	b, pods := twoPods(t, !legacy)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	told := make(chan backend.Facts, 100)
	go b.Ask(ctx, slog.New(slog.DiscardHandler), func(facts backend.Facts) { told <- facts })
	next := func() (facts backend.Facts) {
		select {
		case facts = <-told:
		case <-ctx.Done():
			t.Fatalf("nothing is told: %v, %v", pods[0].asked.all, pods[1].asked.all)
		}
		return facts
	}
	questions := func(n int, of ...*member) {
		for _, pod := range of {
			pod.isAsked(ctx, t, question, n)
		}
	}
	if facts := next(); facts.Answers != answers(b.Server) {
		t.Fatalf("it told %+v", facts)
	}
	questions(2, pods[:]...)
	begun := [2]int{pods[0].asked.of("initialize"), pods[1].asked.of("initialize")}
	pods[1].hangs.Store(true)
	if facts := next(); facts.Answers.Status != "True" ||
		!strings.Contains(facts.Answers.Message, "1 of its 2 pods does not") {
		t.Errorf("of one that hangs it tells %+v", facts.Answers)
	}
	for range 4 {
		if status, text := b.connects(t); status != http.StatusOK {
			t.Errorf("a client that connects gets HTTP %d: %s", status, text)
		}
	}
	if n := pods[1].called.Load(); n != 0 {
		t.Errorf("%d clients connect to the pod that hangs", n)
	}
	if questions(1, pods[1]); len(told) > 0 {
		t.Errorf("it tells more: %+v", <-told)
	}
	pods[1].hangs.Store(false)
	if facts := next(); facts.Answers != answers(b.Server) {
		t.Errorf("of one that answers again it tells %+v", facts.Answers)
	}
	for n := 0; pods[1].called.Load() == 0 && legacy && n < 10; n++ {
		if b.connects(t); n == 9 {
			t.Error("nobody connects to the pod that is back")
		}
	}
	questions(1, pods[:]...)
	for i, pod := range pods {
		if own := pod.asked.of("initialize") - int(pod.called.Load()) - begun[i]; own != 0 {
			t.Errorf("%d sessions are begun at pod %d for questions", own, i)
		}
	}
}
