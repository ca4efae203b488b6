package session

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A proxy shows what each of its keys makes, and bridges are told the sum of that of the key to seal with. Another
// server's is another one, also of the same Secret.
func TestWhatAProxyShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, write := follow(t, map[string]string{"current": newKey})
		other := Follow(k.dir, k.secret, "uid-2")
		sumOf := func(text string) string {
			sum := sha256.Sum256([]byte(text))
			return hex.EncodeToString(sum[:])
		}
		sum := func() string {
			sums, err := k.Sums()
			must(t, err)
			return sums[0]
		}
		first := sum()
		only := k.Shows()
		if len(only) != 1 || sumOf(only[0]) != first {
			t.Fatalf("it shows %q, and %s is the sum", only, first)
		}
		if theirs := other.Shows(); theirs[0] == only[0] {
			t.Error("two servers show the same")
		}
		if strings.Contains(only[0], newKey) || only[0] == hex.EncodeToString([]byte(newKey)) {
			t.Error("it shows its key")
		}
		write(map[string]string{"current": oldKey, "previous": newKey})
		time.Sleep(2 * reread)
		second := sum()
		both := strings.Fields(k.Shows()[0])
		if len(both) != 2 || sumOf(both[0]) != second || both[1] != only[0] || first == second {
			t.Errorf("with another key it shows %q, and %s is the sum", both, second)
		}
		if err := k.NotTaken(); err == nil || !strings.Contains(err.Error(), "made with another one") {
			t.Error(err)
		}
		write(map[string]string{"next": oldKey})
		time.Sleep(2 * reread)
		if _, err := k.Sums(); err == nil || k.Shows() != nil || !strings.Contains(k.NotTaken().Error(), "no entry current") {
			t.Errorf("without a key: %v, %q, %v", err, k.Shows(), k.NotTaken())
		}
	})
}

// A mark is one text's and one server's, and another one under another key.
func TestAMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, write := follow(t, map[string]string{"current": newKey})
		mark := k.Mark("ann")
		if mark != Follow(k.dir, k.secret, k.server).Mark("ann") {
			t.Error("two proxies of a server mark a caller in two ways")
		}
		marks := map[string]string{
			"another text": k.Mark("bob"), "another server": Follow(k.dir, k.secret, "uid-2").Mark("ann"),
			"no key":  Follow(t.TempDir(), k.secret, k.server).Mark("ann"),
			"neither": Follow(t.TempDir(), k.secret, "uid-2").Mark("ann"),
		}
		write(map[string]string{"current": oldKey})
		time.Sleep(2 * reread)
		marks["another key"] = k.Mark("ann")
		seen := map[string]bool{mark: true}
		for name, other := range marks {
			if seen[other] || len(other) != len(mark) {
				t.Errorf("%s has the mark %q", name, other)
			}
			seen[other] = true
		}
	})
}
