package budget

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// onlyReader hides what else a reader can.
type onlyReader struct{ io.Reader }

func TestRead_TakesRoomForWhatIsLong(t *testing.T) {
	for name, tc := range map[string]struct {
		size      int
		announced bool
		free      int64 // while it is held, of what one caller may have
	}{
		"short":                {Least, true, 16 << 20},
		"long":                 {1 << 20, true, 15 << 20},
		"short, not announced": {Least - 1, false, 16 << 20},
		"of the middle":        {Long - 1, false, 16<<20 - (Long - 1)},
		"long, not announced":  {1 << 20, false, 15 << 20},
		"the longest":          {MaxBody, true, 12 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(Default)
			length := int64(tc.size)
			if !tc.announced {
				length = -1
			}
			want := bytes.Repeat([]byte("x"), tc.size)
			got, leave, err := b.Read(t.Context(), "ann", onlyReader{bytes.NewReader(want)}, length)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			if _, err := b.Bodies.Take("ann", tc.free+1); err == nil {
				t.Errorf("more than %d bytes are free", tc.free)
			}
			rest, err := b.Bodies.Take("ann", tc.free)
			if err != nil {
				t.Errorf("less than %d bytes are free", tc.free)
			} else {
				rest()
			}
			leave()
			if _, err := b.Bodies.Take("ann", 16<<20); err != nil {
				t.Error("not all is given back")
			}
		})
	}
}

func TestRead_GivesBackWhereTheBodyBreaksOff(t *testing.T) {
	b := New(Default)
	broken := io.MultiReader(strings.NewReader("x"), &brokenReader{})
	if _, _, err := b.Read(t.Context(), "ann", broken, 1<<20); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if _, err := b.Bodies.Take("ann", 16<<20); err != nil {
		t.Error("the room is not given back")
	}
}

type brokenReader struct{}

func (*brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Long bodies of one caller are taken apart one after the other, and one of another beside it.
func TestTurn_OneLongBodyOfACallerAtATime(t *testing.T) {
	b := New(Default)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	turn := b.Turn
	first, err := turn(t.Context(), "ann", Long+1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turn(over, "ann", Long+1); err == nil {
		t.Error("two at a time")
	}
	for who, size := range map[string]int{"ann": Long, "bob": Long + 1} {
		done, err := turn(t.Context(), who, size)
		if err != nil {
			t.Errorf("%s waits with %d bytes", who, size)
		} else {
			done()
		}
	}
	first()
	if done, err := turn(t.Context(), "ann", Long+1); err != nil {
		t.Error("the turn does not end")
	} else {
		done()
	}
}

func TestNew_EveryAllowedBodyFindsRoom(t *testing.T) {
	for _, limit := range []int64{0, 32 << 20, Default, 64 << 30} {
		for _, length := range []int64{MaxBody, -1} {
			_, leave, err := New(limit).Read(t.Context(), "ann", bytes.NewReader(make([]byte, MaxBody)), length)
			if leave(); err != nil {
				t.Errorf("of %d bytes, where %d are announced: %v", limit, length, err)
			}
		}
	}
}

// meeting is a body whose second half comes once the first half of another one has come.
type meeting struct {
	half, rest io.Reader
	met        *sync.WaitGroup
}

func (m *meeting) Read(p []byte) (int, error) {
	if n, err := m.half.Read(p); !errors.Is(err, io.EOF) {
		return n, err
	}
	if m.met != nil {
		m.met.Done()
		m.met.Wait()
		m.met = nil
	}
	return m.rest.Read(p)
}

// Where the process has little memory, too: what does not come needs no room.
func TestRead_TwoOfNoAnnouncedLengthDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, met, began := New(0), &sync.WaitGroup{}, time.Now()
		met.Add(2)
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				half := make([]byte, Long-1)
				body := &meeting{half: bytes.NewReader(half), rest: bytes.NewReader(half), met: met}
				_, leave, err := b.Read(t.Context(), "ann", body, -1)
				if leave(); err != nil {
					t.Error(err)
				}
			})
		}
		if both.Wait(); time.Since(began) > 0 {
			t.Errorf("they take %s", time.Since(began))
		}
	})
}
