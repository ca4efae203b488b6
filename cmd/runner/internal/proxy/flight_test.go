package proxy

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// At a switch subscriptions and streams without a session end one after the other, and all of them within moveTime: so
// they do not all begin at once at content that was sized for calls.
func TestStreamsMoveOneAfterTheOther(t *testing.T) {
	for open, most := range map[int]int{1: 1, 20: 21, 256: 63, 5000: 1050} { // that move in a second
		synctest.Test(t, func(t *testing.T) {
			traffic, from, left := newTraffic(), &lane{}, true
			all := make([]*flight, open)
			for i := range all {
				all[i] = traffic.begin(t.Context(), httptest.NewRequest(http.MethodGet, "/mcp", nil), nil)
				traffic.setSessionlessLane(all[i], from)
			}
			moved := func() (n int) {
				for _, f := range all {
					if f.moved() {
						n++
					}
				}
				return n
			}
			traffic.move(from, func() bool { return left })
			last := 0
			for range int(moveTime / time.Second) {
				time.Sleep(time.Second)
				synctest.Wait()
				now := moved()
				if now-last > most {
					t.Errorf("of %d streams %d move in a second", open, now-last)
				}
				last = now
			}
			if last != open {
				t.Errorf("of %d streams %d have moved after %s", open, last, moveTime)
			}
		})
	}
}

// A stream that has gone to another lane meanwhile, has a session now, or is where calls go again, stays.
func TestStreamsStayThatNeedNotMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic, from, left := newTraffic(), &lane{}, true
		all := make([]*flight, 100)
		for i := range all {
			all[i] = traffic.begin(t.Context(), httptest.NewRequest(http.MethodGet, "/mcp", nil), nil)
			traffic.setSessionlessLane(all[i], from)
		}
		traffic.move(from, func() bool { return left })
		time.Sleep(10 * movePause)
		synctest.Wait()
		var stays []*flight
		for i, f := range all {
			switch {
			case f.moved():
			case i%2 == 0:
				traffic.setSessionlessLane(f, &lane{})
				stays = append(stays, f)
			default:
				f.use = &use{}
				f.visit()
				stays = append(stays, f)
			}
		}
		time.Sleep(moveTime)
		for _, f := range stays {
			if f.moved() {
				t.Fatal("a stream ends that calls have not left")
			}
		}
		if len(stays) < 80 {
			t.Errorf("%d streams stay", len(stays))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		traffic, from := newTraffic(), &lane{}
		f := traffic.begin(t.Context(), httptest.NewRequest(http.MethodGet, "/mcp", nil), nil)
		traffic.setSessionlessLane(f, from)
		traffic.move(from, func() bool { return false })
		time.Sleep(moveTime)
		if f.moved() {
			t.Error("a stream ends where calls go again")
		}
	})
}
