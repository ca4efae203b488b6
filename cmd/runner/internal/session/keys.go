package session

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

const (
	// nameSize is how long the name of a key is in an id, in bytes.
	nameSize = 4
	// leastKey is the shortest entry of the Secret that is taken, in bytes.
	leastKey = 32
	// mostKeys is how many entries are read, and maxKey how long one may be.
	mostKeys = 8
	maxKey   = 4 << 10
	// reread is how old the keys may be before the Secret is looked at again.
	reread = time.Second
)

// key is one entry of the Secret.
type key struct {
	name [nameSize]byte
	aead cipher.AEAD
	peer tls.Certificate
	// shown is what proves to a bridge of the server that a proxy has the key.
	shown string
}

// Keys are the entries of the Secret that is mounted at a directory: ids are sealed
// with that called runconfig.SessionKey, and opened with each. A change of the
// Secret needs no restart. Make them with Follow.
type Keys struct {
	dir, server, secret string
	now                 func() time.Time

	read atomic.Pointer[keyset]
	mu   sync.Mutex // held by who reads
}

// keyset is what the directory held at a time.
type keyset struct {
	at   time.Time
	from string // the directory that kubelet's link led to
	keys []key  // the first is the one to seal with
	err  error
	// shows is what a proxy shows bridges, as the values of a header: of each key. Nobody changes it.
	shows []string
}

// Follow returns the keys at dir, which holds the Secret called secret. The uid of
// the server goes into each key, so that two servers with one Secret do not take
// each other's ids.
func Follow(dir, secret, uid string) *Keys {
	return &Keys{dir: dir, server: uid, secret: secret, now: time.Now}
}

// current are the keys, with the one to seal with first.
func (k *Keys) current() ([]key, error) {
	set := k.set()
	return set.keys, set.err
}

// set is what the directory holds, or held a moment ago.
func (k *Keys) set() *keyset {
	if set := k.read.Load(); set != nil && k.now().Sub(set.at) < reread {
		return set
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	last := k.read.Load()
	if last != nil && k.now().Sub(last.at) < reread {
		return last
	}
	next := &keyset{at: k.now()}
	next.from = k.versionOf()
	if last != nil && last.err == nil && next.from == last.from && next.from != k.dir {
		next.keys, next.shows = last.keys, last.shows // kubelet never changes a directory that it has made
	} else if next.keys, next.err = k.load(next.from); next.err != nil {
		next.err = fmt.Errorf("the Secret %s has no key for session ids: %w", k.secret, next.err)
	} else {
		next.shows = shows(next.keys)
	}
	k.read.Store(next)
	return next
}

// versionOf is where the files are. Kubelet writes those of a change into a new
// directory, and then moves the link ..data, so that nobody sees half of a change
// (https://kubernetes.io/docs/concepts/configuration/secret/#using-secrets-as-files-from-a-pod).
func (k *Keys) versionOf() string {
	if to, err := os.Readlink(filepath.Join(k.dir, "..data")); err == nil {
		return filepath.Join(k.dir, to)
	}
	return k.dir
}

// load reads each entry of a directory. Callers of the server read the error: it does not tell what else is in the
// Secret.
func (k *Keys) load(dir string) ([]key, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("it does not exist, or is not mounted yet")
	case err != nil:
		return nil, err
	}
	var first, others []key
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") || entry.IsDir() {
			continue
		}
		if len(first)+len(others) == mostKeys {
			return nil, fmt.Errorf("it has more than %d entries", mostKeys)
		}
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, errors.New("an entry cannot be read")
		}
		derived, err := k.derive(data)
		if err != nil {
			return nil, fmt.Errorf("an entry is no key: %w", err)
		}
		if entry.Name() == runconfig.SessionKey {
			first = append(first, derived)
		} else {
			others = append(others, derived)
		}
	}
	if len(first) == 0 {
		return nil, fmt.Errorf("it has no entry %s", runconfig.SessionKey)
	}
	return append(first, others...), nil
}

// purpose keeps what is derived apart from any other use of the same bytes.
const purpose = "freehold.dev session id v1 of server "

// derive makes a key of an entry, whatever its length, and the key's name. The nonces
// of AES-GCM are random: a key is good for 2^32 ids
// (NIST SP 800-38D, section 8.3).
func (k *Keys) derive(data []byte) (key, error) {
	data = bytes.TrimRight(data, "\r\n") // as editors leave behind
	if len(data) < leastKey || len(data) > maxKey {
		return key{}, fmt.Errorf("write from %d to %d random bytes, for example of openssl rand -base64 32", leastKey, maxKey)
	}
	const size = 32
	material, err := hkdf.Key(sha256.New, data, nil, purpose+k.server, size+nameSize)
	if err != nil {
		return key{}, err
	}
	block, err := aes.NewCipher(material[:size])
	if err != nil {
		return key{}, err
	}
	derived := key{}
	copy(derived.name[:], material[size:])
	if derived.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return key{}, err
	}
	if derived.shown, err = k.shownFor(data); err != nil {
		return key{}, err
	}
	derived.peer, err = k.peerOf(data)
	return derived, err
}
