package runconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// RoutingPath is where a proxy answers a GET on ProbePort with its Routing.
const RoutingPath = "/backend"

// MaxRouting is how long that answer is at most, in bytes.
const MaxRouting = 4 << 10

// Routing is what a proxy pod tells of where it has the calls of its server go. It is about this pod alone, and about
// the time since Since. Fields may be added; none is renamed or changes its meaning.
type Routing struct {
	// ServerUID is that of the server, so that who asks by an address knows whom it has reached.
	ServerUID string `json:"serverUID"`
	// Since is when the proxy's process began: of sessions that were seen before, it knows nothing.
	Since time.Time `json:"since"`
	// Active is the content to which calls go that have no session, and what begins a session. It is nil while the proxy
	// has not read it from the server's status, and where that does not say it.
	Active *RoutedContent `json:"active,omitempty"`
	// Contents are those which the proxy calls or may call: the active one first, then others that the status names. There
	// is none while the proxy has not read the status.
	Contents []ContentUse `json:"contents"`
}

// RoutedContent is content of a backend, as the server's status has it.
type RoutedContent struct {
	Slot       int32  `json:"slot"`
	Hash       string `json:"hash"`
	Generation int64  `json:"generation"`
}

// ContentUse is what clients have of a content. Questions of Freehold's own, probes and scrapers are not counted.
type ContentUse struct {
	// Slot is 0 where the backend has one place alone.
	Slot int32 `json:"slot"`
	// Hash is that of the backend's pod template.
	Hash string `json:"hash"`
	// InFlight is how many calls of clients are on their way to the content, with or without a session, or wait there for
	// another request of their client. Streams that answer no call are not among them.
	InFlight int64 `json:"inFlight"`
	// SessionSeen is when a client last used a session of the content by this proxy, to the second: now while a request or
	// stream of a session is on its way, and zero if there was none since Since.
	SessionSeen time.Time `json:"sessionSeen,omitzero"`
}

// Of is the use of the content with a hash, nil where the proxy does not call such content.
func (r Routing) Of(hash string) *ContentUse {
	for i := range r.Contents {
		if r.Contents[i].Hash == hash {
			return &r.Contents[i]
		}
	}
	return nil
}

// ReadRouting reads what a proxy has told, at most MaxRouting bytes. Whoever has taken the pod's address may have sent
// it: an answer that is no Routing is an error.
func ReadRouting(from io.Reader) (Routing, error) {
	data, err := io.ReadAll(io.LimitReader(from, MaxRouting+1))
	if err != nil {
		return Routing{}, fmt.Errorf("routing of a proxy: %w", err)
	}
	var r Routing
	switch err := json.Unmarshal(data, &r); {
	case len(data) > MaxRouting:
		return Routing{}, fmt.Errorf("routing of a proxy: longer than %d bytes", MaxRouting)
	case err != nil:
		return Routing{}, fmt.Errorf("routing of a proxy: %w", plain(err))
	case r.ServerUID == "" || r.Since.IsZero():
		return Routing{}, errors.New("routing of a proxy: it does not say of which server, or since when")
	}
	return r, nil
}
