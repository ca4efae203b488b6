package session

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	oldKey = "an old key of thirty-two bytes...."
	newKey = "a new key of thirty-two bytes....."
)

// follow mounts a Secret as kubelet does: a directory of files behind the link ..data.
func follow(t *testing.T, secret map[string]string) (*Keys, func(map[string]string)) {
	t.Helper()
	dir := t.TempDir()
	versions := 0
	write := func(secret map[string]string) {
		versions++
		version := "..v" + strings.Repeat("i", versions)
		must(t, os.Mkdir(filepath.Join(dir, version), 0o755))
		for name, value := range secret {
			must(t, os.WriteFile(filepath.Join(dir, version, name), []byte(value), 0o600))
		}
		must(t, os.Symlink(version, filepath.Join(dir, "..tmp")))
		must(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	}
	write(secret)
	return Follow(dir, "echo-session", "uid-1"), write
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var (
	ann  = Caller{Issuer: "https://issuer.example.com", Subject: "ann"}
	some = Session{
		Pod: netip.MustParseAddrPort("10.0.0.7:8080"), ID: "backend-1", Issued: time.Unix(1_800_000_000, 0),
		Content: Content("0123456789abcdef"),
	}
)

func sealed(t *testing.T, k *Keys, caller Caller, s Session) string {
	t.Helper()
	id, err := k.Seal(caller, s)
	must(t, err)
	return id
}

func TestWhatIsSealedOpens(t *testing.T) {
	k, _ := follow(t, map[string]string{"current": newKey})
	for name, s := range map[string]Session{
		"of IPv4":        some,
		"of IPv6":        {Pod: netip.MustParseAddrPort("[fd00::7]:9441"), ID: "x", Issued: some.Issued},
		"of mapped IPv4": {Pod: netip.MustParseAddrPort("[::ffff:10.0.0.7]:1"), ID: "x", Issued: some.Issued},
		"of no port":     {Pod: netip.AddrPortFrom(some.Pod.Addr(), 0), ID: "x", Issued: some.Issued},
		"a signed token": {ID: strings.Repeat("x", 4000), Issued: some.Issued},
		"the longest": {
			Pod: netip.MustParseAddrPort("[fd00::7]:65535"), ID: strings.Repeat("x", MaxID), Issued: some.Issued,
		},
		"of any bytes":    {Pod: some.Pod, ID: "a b\x00\xff=", Issued: some.Issued},
		"of no content":   {Pod: some.Pod, ID: "x", Issued: some.Issued},
		"of short a hash": {Pod: some.Pod, ID: "x", Issued: some.Issued, Content: Content("abc")},
	} {
		t.Run(name, func(t *testing.T) {
			id := sealed(t, k, ann, s)
			if again := sealed(t, k, ann, s); again == id {
				t.Error("two ids of one session are equal: the nonce is")
			}
			if len(id) > MaxSealed {
				t.Errorf("it has %d bytes, more than %d", len(id), MaxSealed)
			}
			for i := range len(id) {
				if id[i] < 0x21 || id[i] > 0x7e {
					t.Errorf("byte %d is %#x, no visible ASCII", i, id[i])
				}
			}
			got, err := k.Open(ann, id)
			if s.Pod.IsValid() {
				s.Pod = netip.AddrPortFrom(s.Pod.Addr().Unmap(), s.Pod.Port())
			}
			if err != nil || got != s {
				t.Errorf("got %+v, %v\nwant %+v", got, err, s)
			}
			if strings.Contains(id, s.ID) && len(s.ID) > 1 {
				t.Error("the backend's id is to be read in it")
			}
		})
	}
}

func TestIDsThatAreTooLongAreNotSealed(t *testing.T) {
	k, _ := follow(t, map[string]string{"current": newKey})
	for _, id := range []string{"", strings.Repeat("x", MaxID+1)} {
		if _, err := k.Seal(ann, Session{Pod: some.Pod, ID: id}); !errors.Is(err, ErrTooLong) {
			t.Errorf("%d bytes: %v", len(id), err)
		}
	}
}

// Each bit of an id is vouched for, and it has one spelling.
func TestATamperedIDOpensNothing(t *testing.T) {
	k, _ := follow(t, map[string]string{"current": newKey, "previous": oldKey})
	id := sealed(t, k, ann, some)
	try := func(what, id string) {
		t.Helper()
		if s, err := k.Open(ann, id); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s opens %+v, %v", what, s, err)
		}
	}
	for i := range len(id) {
		for b := byte(0x21); b <= 0x7e; b++ {
			if b != id[i] {
				try("another byte", id[:i]+string(b)+id[i+1:])
			}
		}
		try("a shorter one", id[:i])
	}
	try("a longer one", id+"A")
	try("with a line end", id+"\n")
	try("padded", id+"=")
	try("a very long one", strings.Repeat("A", MaxSealed+1))
	// Ciphertext of one, tag of another.
	other := sealed(t, k, ann, Session{Pod: some.Pod, ID: "backend-2", Issued: some.Issued, Content: some.Content})
	for i := range len(id) {
		if mixed := id[:i] + other[i:]; mixed != other && mixed != id {
			try("half of another", mixed)
		}
	}
}

func TestAnIDOpensForItsCallerAndServerOnly(t *testing.T) {
	k, _ := follow(t, map[string]string{"current": newKey})
	id := sealed(t, k, ann, some)
	for name, caller := range map[string]Caller{
		"nobody":                      {},
		"another":                     {Issuer: ann.Issuer, Subject: "bob"},
		"of another issuer":           {Issuer: "https://evil.example.com", Subject: "ann"},
		"the same letters, cut apart": {Issuer: ann.Issuer + "a", Subject: "nn"},
	} {
		if s, err := k.Open(caller, id); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s opens %+v, %v", name, s, err)
		}
	}
	elsewhere := Follow(k.dir, "echo-session", "uid-2")
	if s, err := elsewhere.Open(ann, id); !errors.Is(err, ErrUnknown) {
		t.Errorf("another server with the same Secret opens %+v, %v", s, err)
	}
}

// The three steps of docs/how-to/sessions.md: each proxy knows a key before any seals
// with it.
func TestKeysRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, write := follow(t, map[string]string{"current": oldKey})
		before := sealed(t, k, ann, some)
		opens := func(step, id string, want bool) {
			t.Helper()
			if _, err := k.Open(ann, id); (err == nil) != want {
				t.Errorf("%s: %v, want it to open: %t", step, err, want)
			}
		}
		write(map[string]string{"current": oldKey, "next": newKey})
		opens("the second before the Secret is looked at", before, true)
		time.Sleep(reread)
		opens("with a next key", before, true)

		write(map[string]string{"current": newKey, "previous": oldKey})
		time.Sleep(reread)
		opens("with a previous key", before, true)
		after := sealed(t, k, ann, some)

		write(map[string]string{"current": newKey + "\n"})
		time.Sleep(reread)
		opens("after the old key has gone", before, false)
		opens("after the old key has gone", after, true)
	})
}

func TestWithoutAKeyNothingIsSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, write := follow(t, map[string]string{"current": newKey})
		id := sealed(t, k, ann, some)
		nine := map[string]string{"current": newKey}
		for _, name := range strings.Split("abcdefgh", "") {
			nine[name] = oldKey
		}
		for _, tc := range []struct {
			secret map[string]string
			says   string
		}{
			{nil, "has no entry current"},
			{map[string]string{"previous": newKey}, "has no entry current"},
			{map[string]string{"current": "short"}, "an entry is no key: write from 32"},
			{map[string]string{"current": newKey, "previous": ""}, "an entry is no key: write from 32"},
			{map[string]string{"current": strings.Repeat("x", maxKey+1)}, "an entry is no key: write from 32"},
			{nine, "more than 8 entries"},
		} {
			write(tc.secret)
			time.Sleep(reread)
			_, sealErr := k.Seal(ann, some)
			_, openErr := k.Open(ann, id)
			for _, err := range []error{sealErr, openErr} {
				if err == nil || errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), tc.says) ||
					!strings.Contains(err.Error(), "Secret echo-session") {
					t.Errorf("got %v, want %q", err, tc.says)
				}
			}
		}
		write(map[string]string{"current": newKey})
		time.Sleep(reread)
		if _, err := k.Open(ann, id); err != nil {
			t.Errorf("with the key back: %v", err)
		}
	})
	missing := Follow(filepath.Join(t.TempDir(), "none"), "echo-session", "uid-1")
	if _, err := missing.Seal(ann, some); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("without the directory: %v", err)
	}
}

func FuzzIDs(f *testing.F) {
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "current"), []byte(newKey), 0o600); err != nil {
		f.Fatal(err)
	}
	k := Follow(dir, "echo-session", "uid-1")
	// A fuzzer's workers are processes of their own: one that was sealed here would be another's.
	const id = "9jpDy2QcF8lMF3coXjEpvMVRSXVrdMuw2Pp5NTLI2WQ0BNts2k0AdHyFlFoVqMYvlR82A2yJ2Hj1GA"
	earlier := some
	earlier.Pod = netip.AddrPortFrom(some.Pod.Addr(), 0)
	if s, err := k.Open(ann, id); err != nil || s != earlier {
		f.Fatalf("an id of this format, which clients hold over a release, opens %+v, %v", s, err)
	}
	f.Add(id, "https://issuer.example.com", "ann", "backend-1")
	f.Add(id[:20], "", "", "")
	f.Add("AAAA", "a", "b", "c")
	f.Fuzz(func(t *testing.T, text, issuer, subject, own string) {
		caller := Caller{issuer, subject}
		if s, err := k.Open(caller, text); err == nil && (text != id || caller != ann || s != earlier) {
			t.Fatalf("%q opens %+v for %+v", text, s, caller)
		}
		s := Session{Pod: some.Pod, ID: own, Issued: some.Issued}
		made, err := k.Seal(caller, s)
		if (err != nil) != (own == "" || len(own) > MaxID) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		if got, err := k.Open(caller, made); err != nil || got != s {
			t.Fatalf("got %+v, %v", got, err)
		}
	})
}

// FuzzPlain is what only a holder of the key could write.
func FuzzPlain(f *testing.F) {
	f.Add([]byte("12345678abcd\x04\x0a\x00\x00\x01id"))
	f.Add([]byte("12345678abcd\x06\x0a\x00\x00\x01\x1f\x90id"))
	f.Add([]byte("12345678abcd\x06\x0a\x00\x00\x01\x00\x00id"))
	f.Add([]byte("12345678abcd\xff"))
	f.Add([]byte("12345678abcd\x00id")) // of a server elsewhere, which has no pod
	f.Fuzz(func(t *testing.T, plain []byte) {
		s, err := parse(plain)
		if err != nil {
			return
		}
		address := s.Pod.Addr().AsSlice()
		if size := int(plain[len(s.Content)+4]); size > len(address) { // with the port
			address = binary.BigEndian.AppendUint16(address, s.Pod.Port())
		}
		again := binary.BigEndian.AppendUint32(bytes.Clone(s.Content[:]), uint32(s.Issued.Unix()))
		again = slices.Concat(again, []byte{byte(len(address))}, address, []byte(s.ID))
		if !bytes.Equal(again, plain) {
			t.Errorf("%q is read as %+v", plain, s)
		}
	})
}
