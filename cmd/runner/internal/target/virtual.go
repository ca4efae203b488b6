package target

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/virtual"
)

// membersFile is the file, in the directory of the state, with the members that were read last.
const membersFile = "members.json"

// Members are those of a virtual server, and what is recorded of names that several of them have.
type Members struct {
	ServerUID string              `json:"serverUID"`
	Members   []virtual.Member    `json:"members"`
	Recorded  []virtual.Collision `json:"recorded,omitempty"`
}

// newVirtual is the virtual server of a run config.
func (t *Target) newVirtual() *virtual.Server {
	server, is := t.config.Run.Server, t.config.Run.Virtual
	return virtual.New(virtual.Config{
		Name: server.Name, Title: is.Title, Version: t.config.Version, Instructions: is.Instructions,
		Verbatim: is.ToolNames == verbatim, Connect: t.connect,
		OwnNames: t.config.Run.Proxy.Authorization == nil, Log: slog.Default(),
	})
}

// verbatim is what a run config says where names are listed as members have them.
const verbatim = "Verbatim"

// connect is how requests go to the proxy of a member.
func (t *Target) connect(to *url.URL) http.RoundTripper {
	whole := ""
	if name := to.Hostname(); strings.HasSuffix(name, ".svc") {
		whole = net.JoinHostPort(name+"."+t.domains[len(t.domains)-1]+".", to.Port())
	}
	return proxy.Connect(to, whole)
}

// Ready reports whether a virtual server may have clients: it knows its members, and has waited for them. Any other
// server may.
func (t *Target) Ready(context.Context) bool { return t.virtual == nil || t.virtual.Ready() }

// RestoreMembers has a virtual server go by what the process before this one in the pod knew of its members. So a
// container that starts again while the API server is away serves.
func (t *Target) RestoreMembers(log *slog.Logger) {
	if t.virtual == nil || t.config.StateDir == "" {
		return
	}
	data, err := os.ReadFile(filepath.Join(t.config.StateDir, membersFile))
	var last Members
	if err == nil {
		err = json.Unmarshal(data, &last)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("it is not known who the members were last", "error", err)
	}
	if err == nil && last.ServerUID == t.config.Run.Server.UID {
		t.setMembers(last)
	}
}

// SetMembers has a virtual server offer members, and keeps who they are for the next start.
func (t *Target) SetMembers(now Members, log *slog.Logger) {
	now.ServerUID = t.config.Run.Server.UID
	if t.members != nil && reflect.DeepEqual(now, *t.members) {
		return
	}
	t.setMembers(now)
	if t.config.StateDir == "" {
		return
	}
	data, err := json.Marshal(now)
	if file := filepath.Join(t.config.StateDir, membersFile); err == nil {
		err = replace(file, data)
	}
	if err != nil {
		log.Warn("the members are not kept for the next start of the container", "error", err)
	}
}

func (t *Target) setMembers(now Members) {
	t.members = &now
	recorded := map[virtual.Name]virtual.Key{}
	for _, c := range now.Recorded {
		recorded[c.Name] = c.Holder
	}
	t.virtual.Set(now.Members, recorded)
}
