package proxy

import (
	"fmt"
	"testing"
)

// What is known of contents is bounded, and that of one which takes calls stays.
func TestWhatIsKnownOfContentsIsBounded(t *testing.T) {
	two := twoOf(t, func(c *Config) { c.ServerUID = "uid-1" })
	two.to(0)
	two.open()
	other := two.contents[1]
	for i := range 3 * mostUsed {
		two.contents[0] = two.contents[0].Holds(two.contents[0].Content)
		two.contents[1] = other.Holds(Content{Hash: fmt.Sprintf("%016x", i), Slot: 2})
		two.to(0)
		two.alone(0)
		if two.told().Of(hashes[0]).SessionSeen.IsZero() {
			t.Fatalf("after %d contents its session is forgotten", i)
		}
	}
	s := &two.target.switching
	if len(s.used) > mostUsed+2 || len(s.unnamed) > mostUsed+2 {
		t.Errorf("it knows %d, and %d that are gone", len(s.used), len(s.unnamed))
	}
}
