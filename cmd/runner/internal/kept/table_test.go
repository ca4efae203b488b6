package kept

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// value is idle for a time, or in use for none.
type value struct {
	name string
	idle time.Duration
	done chan struct{}
}

// kept is a table of 4 places, and notes what ends.
func kept(ended *[]string) *Table[string, value] {
	return New[string](4, Use[value]{
		Idle: func(v value) (time.Time, bool) {
			if v.idle == 0 {
				return time.Time{}, false
			}
			return time.Now().Add(-v.idle), true
		},
		Least: 90 * time.Minute,
		End:   func(v value) <-chan struct{} { *ended = append(*ended, v.name); return v.done },
		Wait:  time.Minute,
	})
}

// put has a value of a caller's that is idle for so many hours.
func put(t *testing.T, table *Table[string, value], caller, name string, hours int, done chan struct{}) error {
	t.Helper()
	leave, err := table.Room(t.Context(), caller)
	if err == nil && !table.Put(name, value{name, time.Duration(hours) * time.Hour, done}, caller, leave) {
		err = ErrClosed
	}
	return err
}

// A newcomer has the place of what was idle longest, where there is none left, and ends nothing of others where it is
// the caller that has too many.
func TestWhatMakesRoom(t *testing.T) {
	type row struct {
		caller string
		idle   int
	}
	for name, tc := range map[string]struct {
		has    []row // named a, b, and so on
		caller string
		ends   []string
		err    error
	}{
		"there is a place": {[]row{{"ann", 9}, {"bob", 9}, {"bob", 9}}, "carl", nil, nil},
		"the idlest of all": {
			[]row{{"ann", 2}, {"ann", 4}, {"bob", 3}, {"bob", 0}},
			"carl",
			[]string{"b"},
			nil,
		},
		"the idlest of a caller with half": {[]row{{"ann", 9}, {"bob", 2}, {"bob", 3}}, "bob", []string{"c"}, nil},
		"nothing in use": {
			[]row{{"ann", 0}, {"ann", 0}, {"bob", 0}, {"bob", 0}},
			"carl", nil,
			share.ErrAll,
		},
		"nothing in use, of one with half": {[]row{{"ann", 9}, {"bob", 0}, {"bob", 0}}, "bob", nil, share.ErrOwn},
		"nothing that has just become idle": {
			[]row{{"ann", 0}, {"ann", 0}, {"bob", 0}, {"bob", 1}},
			"carl", nil,
			share.ErrAll,
		},
		"without a login all are anybody's":  {[]row{{"", 0}, {"", 0}, {"", 0}}, "", nil, nil},
		"without a login the idlest of them": {[]row{{"", 2}, {"", 3}, {"", 0}, {"", 0}}, "", []string{"b"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var ended []string
			table := kept(&ended)
			for i, r := range tc.has {
				if err := put(t, table, r.caller, string(rune('a'+i)), r.idle, nil); err != nil {
					t.Fatal(err)
				}
			}
			err := put(t, table, tc.caller, "new", 0, nil)
			if diff := cmp.Diff(tc.ends, ended); diff != "" || !errors.Is(err, tc.err) {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

// A place is its value's until that has ended; a newcomer waits for it, and ends nothing else meanwhile.
func TestAPlaceThatComesFreeLate(t *testing.T) {
	for name, own := range map[string]bool{"of all": false, "of a caller": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended []string
				table, done := kept(&ended), make(chan struct{})
				callers, newcomer := []string{"ann", "ann", "bob", "bob"}, "carl"
				if own {
					callers, newcomer = []string{"ann", "ann"}, "ann"
				}
				for i, caller := range callers {
					if err := put(t, table, caller, string(rune('a'+i)), 9, done); err != nil {
						t.Fatal(err)
					}
				}
				table.End("b")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := table.Room(ctx, newcomer); err == nil || ctx.Err() == nil {
					t.Errorf("before it has ended: %v", err)
				}
				time.AfterFunc(30*time.Second, func() { close(done) })
				if err := put(t, table, newcomer, "new", 0, nil); err != nil || table.Len() != len(callers) {
					t.Errorf("%v, and there are %d", err, table.Len())
				}
				if diff := cmp.Diff([]string{"b"}, ended); diff != "" {
					t.Error(diff)
				}
				began := time.Now()
				if err := put(t, table, newcomer, "newer", 0, nil); err != nil || len(ended) != 2 || time.Since(began) > 0 {
					t.Errorf("once none comes free another one makes room: %v after %s", err, time.Since(began))
				}
			})
		})
	}
}

// What another caller's value gives back is of no use to who has as many as one may have.
func TestAPlaceOfAnotherThatComesFreeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []string
		table, done := kept(&ended), make(chan struct{})
		defer close(done)
		for i, caller := range []string{"ann", "bob", "bob"} {
			if err := put(t, table, caller, string(rune('a'+i)), 9-i,
				map[string]chan struct{}{"ann": done}[caller]); err != nil {
				t.Fatal(err)
			}
		}
		table.End("a")
		if err := put(t, table, "bob", "new", 0, nil); err != nil || !slices.Equal(ended, []string{"a", "b"}) {
			t.Errorf("%v, and ended are %q", err, ended)
		}
	})
}

// What is idle for its time ends, and all else with the table.
func TestTheEndOfATable(t *testing.T) {
	var ended []string
	table := kept(&ended)
	for i, name := range []string{"in use", "not yet", "for long"} {
		if err := put(t, table, "", name, 3*i, nil); err != nil {
			t.Fatal(err)
		}
	}
	n := table.Sweep(time.Now(), func(value) time.Duration { return 5 * time.Hour })
	if diff := cmp.Diff([]string{"for long"}, ended); diff != "" || n != 1 {
		t.Errorf("%d end %s", n, diff)
	}
	for _, meant := range []bool{false, true} {
		v, ok := table.Take("not yet", func(v value) bool { return meant && v.name == "not yet" })
		if ok != meant || ok != (v.name == "not yet") || ok == (table.Get("not yet").name == "not yet") || len(ended) != 1 {
			t.Errorf("meant %t: %v, %t, and ended are %q", meant, v, ok, ended)
		}
	}
	var leave func()
	for range 3 { // all places but that of what is in use
		var err error
		if leave, err = table.Room(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	table.Close()
	if slices.Sort(ended); !slices.Equal(ended, []string{"for long", "in use"}) || table.Put("late", value{}, "", leave) {
		t.Errorf("ended are %q, or one more is taken", ended)
	}
	if _, err := table.Room(t.Context(), ""); !errors.Is(err, ErrClosed) {
		t.Errorf("a newcomer gets %v", err)
	}
}

// Each of those that come at once has a place of its own that comes free.
func TestNewcomersDoNotWaitForOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []string
		table, done := kept(&ended), make(chan struct{})
		for _, name := range []string{"a", "b", "c", "d"} {
			if err := put(t, table, "", name, 9, done); err != nil {
				t.Fatal(err)
			}
		}
		left, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := table.Room(left, ""); err == nil {
				t.Error("one that has left has a place")
			}
		})
		synctest.Wait()
		leave()
		all.Wait()
		for range 3 {
			all.Go(func() {
				if _, err := table.Room(t.Context(), ""); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(done)
		if all.Wait(); len(ended) != 3 {
			t.Errorf("ended are %q", ended)
		}
	})
}
