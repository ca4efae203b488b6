package workload

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

const contentInfix = "-content-"

// ContentName is the ControllerRevision with the backend's content of a hash. A server's last contents are kept as
// such objects, so that earlier content can be made again when nothing runs it any more.
func ContentName(key, hash string) string { return key + contentInfix + shortHash(hash) }

func shortHash(hash string) string { return hash[:min(len(hash), hashChars)] }

// IsContentName reports whether name is one of the owner with this key. The hash has no dash.
func IsContentName(key, name string) bool {
	hash, found := strings.CutPrefix(name, key+contentInfix)
	return found && hash != "" && !strings.Contains(hash, "-")
}

// StoredContent keeps the backend's content under a workload generation. It is immutable and named by its hash. Its
// annotations are those of other children, because caches hold only metadata. The error is that of runconfig.Content.
func (r Rendered) StoredContent(server *v1alpha1.MCPServer, generation int64) (
	*appsv1ac.ControllerRevisionApplyConfiguration, error,
) {
	content := runconfig.Content{Hash: r.Content.Rendering.Backend, Backend: r.Content.Backend}
	var err error
	if content.Spec, err = runspec.ContentOf(&server.Spec); err != nil {
		return nil, fmt.Errorf("encoding content: %w", err)
	}
	data, err := content.Encode()
	if err != nil {
		return nil, err
	}
	rev := revision.Revision(r.Claimed(generation).Workload)
	return child(appsv1ac.ControllerRevision(ContentName(r.owner.Key(), content.Hash), r.owner.Namespace), r.owner,
		ComponentRunner).
		WithAnnotations(rev.Annotations()).
		WithRevision(generation).
		WithData(runtime.RawExtension{Raw: data}), nil
}

// ReadContent is the run config of content that history keeps of a server, without its Workload and Proxy. The error
// says that the data cannot be read, or that what it renders is other content than it says: anybody who may create
// ControllerRevisions can make one of any name. Its path is that of the first claim, except for transport sse: the one
// that it is called at is in status.active.
func ReadContent(server runconfig.Server, data []byte) (runconfig.RunConfig, error) {
	return released.readContent(server, data)
}

func (r renderings) readContent(server runconfig.Server, data []byte) (runconfig.RunConfig, error) {
	content, err := runconfig.DecodeContent(data)
	if err != nil {
		return runconfig.RunConfig{}, err
	}
	run := runconfig.RunConfig{Version: runconfig.Version, Server: server, Backend: content.Backend}
	if _, problems := r.hash(&run); len(problems) > 0 {
		return runconfig.RunConfig{}, fmt.Errorf("content: %s: %s", problems[0].Field, problems[0].Message)
	}
	if run.Rendering.Backend != content.Hash {
		return runconfig.RunConfig{}, fmt.Errorf("content: has hash %s, and says %q", run.Rendering.Backend, content.Hash)
	}
	return run, nil
}

// AsksFor says why the spec of a server does not ask for content that ReadContent has read, nil where it does. The
// bridge's image is none of the spec's, and neither is as what a release has rendered it.
func AsksFor(server *v1alpha1.MCPServer, content runconfig.RunConfig) error {
	return released.asksFor(server, content)
}

func (r renderings) asksFor(server *v1alpha1.MCPServer, content runconfig.RunConfig) error {
	run, only := runspec.For(server), server.DeepCopy()
	if run.Backend.Bridge != nil && content.Backend.Bridge != nil {
		run.Backend.Bridge.Image = content.Backend.Bridge.Image
		run.Backend.Bridge.PullSecrets = content.Backend.Bridge.PullSecrets
	}
	run.Backend.Rendering = content.Backend.Rendering
	only.Spec = runspec.OnlyContent(&server.Spec)
	_, problems := r.hash(&run)
	if problems = append(check(only), problems...); len(problems) > 0 {
		return fmt.Errorf("it is not accepted: %s: %s", problems[0].Field, problems[0].Message)
	}
	if run.Rendering.Backend != content.Rendering.Backend {
		return errors.New("it asks for other content than is kept beside it")
	}
	return nil
}
