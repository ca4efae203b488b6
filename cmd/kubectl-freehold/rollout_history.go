package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	kjson "sigs.k8s.io/json"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/runspec"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// rolloutHistory is the answer of rollout history.
type rolloutHistory struct {
	Object   reference       `json:"object"`
	Contents []storedContent `json:"contents"`
}

// storedContent is content that history keeps.
type storedContent struct {
	Revision int64  `json:"revision"`
	Hash     string `json:"hash"`
	Image    string `json:"image"`
	Time     string `json:"time"`
	// State is active, candidate, or empty.
	State string `json:"state,omitempty"`
	// Reads are the ConfigMaps and Secrets that its pods read, as they are now.
	Reads []string `json:"reads,omitempty"`
	// Undo says that its spec is kept, so that it can be gone back to.
	Undo bool `json:"undo"`

	made time.Time               `json:"-"`
	spec *v1alpha1.MCPServerSpec `json:"-"`
	run  runconfig.RunConfig     `json:"-"`
	// claimed says that the object is as the operator makes one: of this server, with the name of its hash and a number
	// that was given. Anybody who may create ControllerRevisions can make another.
	claimed bool `json:"-"`
	// err is why its spec cannot be written back.
	err error `json:"-"`
}

// The states of contents.
const (
	contentActive    = "active"
	contentCandidate = "candidate"
)

// shownHash is as much of a hash as names of objects have.
const shownHash = 10

func (c *cli) rolloutHistory() *cobra.Command {
	out := output{}
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the last contents of a server's backend",
		Long: `Show the last contents of an MCPServer's backend, the latest first: the number
under which each was claimed last, its hash, its image, and how long ago. The one that
gets the calls is active. kubectl freehold rollout undo goes back to one of them, unless
UNDO is no: its spec was too large to keep, is of another release, or does not ask for
the content. READS names the ConfigMaps and Secrets that its pods read: what they said
then is kept nowhere.

Changes of the proxy alone are no content of the backend, and are not in the list.`,
		Example: `  # The contents of a server
  kubectl freehold rollout history everything

  # For a program
  kubectl freehold rollout history everything -o json`,
		Args: oneServer, ValidArgsFunction: c.completeOneServer,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			u, server, err := c.server(args[0])
			if err != nil {
				return err
			}
			contents, err := c.contents(server)
			return errors.Join(c.showHistory(out, u, contents), err)
		},
	}
	out.add(cmd)
	return cmd
}

func (c *cli) showHistory(out output, u *unstructured.Unstructured, contents []storedContent) error {
	if !out.isTable() {
		return out.print(c.Out, "RolloutHistory", &rolloutHistory{Object: referenceTo(u), Contents: contents})
	}
	if len(contents) == 0 {
		fmt.Fprintf(c.ErrOut, "no content of %s is kept yet\n", title(u))
		return nil
	}
	lines := [][]string{{"REVISION", "HASH", "IMAGE", "AGE", "STATE", "UNDO", "READS"}}
	for _, content := range contents {
		undo := "yes"
		if !content.Undo {
			undo = "no"
		}
		lines = append(lines, []string{
			fmt.Sprint(content.Revision), content.Hash[:min(len(content.Hash), shownHash)], safe(content.Image),
			duration.HumanDuration(c.now().Sub(content.made)), content.State, undo,
			cmp.Or(safe(runspec.Named(runspec.References(content.run.Backend))), "-"),
		})
	}
	return table(c.Out, lines)
}

// contents are what history keeps of a server, the latest first. Beside an error they are those that could be read.
func (c *cli) contents(server *v1alpha1.MCPServer) ([]storedContent, error) {
	found, err := c.within(server.Namespace, false, workload.LabelServer+"="+server.Name+","+workload.LabelComponent+"="+
		workload.ComponentRunner, argument(contract.ControllerRevision))
	if err != nil {
		return nil, err
	}
	active, candidate, unread := c.placed(server)
	contents := []storedContent{}
	for _, item := range found {
		content, err := contentIn(server, item)
		if err != nil {
			unread = errors.Join(unread, err)
		}
		if content == nil {
			continue
		}
		switch content.Hash {
		case "": // not known
		case active:
			content.State = contentActive
		case candidate:
			content.State = contentCandidate
		}
		contents = append(contents, *content)
	}
	slices.SortFunc(contents, func(a, b storedContent) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), cmp.Compare(a.Hash, b.Hash))
	})
	return contents, unread
}

// placed are the hashes of the content that gets calls and of one that is tried, by the status, or else by the backend
// that stands.
func (c *cli) placed(server *v1alpha1.MCPServer) (active, candidate string, err error) {
	if server.Status.Active != nil {
		if server.Status.Rollout != nil {
			candidate = server.Status.Rollout.Target.Hash
		}
		return server.Status.Active.Hash, candidate, nil
	}
	backend, err := c.object(argument(contract.StatefulSet), workload.BackendName(server.Name))
	if err != nil {
		if apierrors.IsNotFound(err) {
			return "", "", nil
		}
		return "", "", err
	}
	active, _, err = unstructured.NestedString(backend.Object, "spec", "template", "metadata", "annotations",
		workload.AnnotationBackendHash)
	return active, "", err
}

// contentIn is the content in an object of a server's history, nil where it is of somebody else. Beside an error it is
// what is known of content that cannot be read.
func contentIn(server *v1alpha1.MCPServer, u *unstructured.Unstructured) (*storedContent, error) {
	owner := metav1.GetControllerOf(u)
	if !workload.IsContentName(server.Name, u.GetName()) || owner != nil && owner.UID != server.UID {
		return nil, nil
	}
	var kept appsv1.ControllerRevision
	if err := decode(u, &kept); err != nil {
		return nil, err
	}
	content := &storedContent{
		Revision: kept.Revision, Time: stamp(&kept.CreationTimestamp), made: kept.CreationTimestamp.Time,
		claimed: owner != nil && kept.Revision <= ptr.Deref(server.Status.Workload, v1alpha1.WorkloadStatus{}).Generation,
	}
	if content.run, content.err = workload.ReadContent(runspec.Server(server), kept.Data.Raw); content.err != nil {
		return content, fmt.Errorf("reading %s: %w", title(u), content.err)
	}
	content.Hash, content.Image = content.run.Rendering.Backend, content.run.Backend.Image
	content.Reads = namesOf(runspec.References(content.run.Backend))
	content.claimed = content.claimed && u.GetName() == workload.ContentName(server.Name, content.Hash)
	content.spec, content.err = specIn(kept.Data.Raw)
	if content.err == nil {
		content.err = content.asked(server)
	}
	content.Undo = content.err == nil
	return content, nil
}

func namesOf(refs []runspec.Reference) (names []string) {
	for _, ref := range refs {
		names = append(names, ref.String())
	}
	return names
}

// asked says why the spec that is kept is not that of the content, which alone has been compared with the hash.
func (s storedContent) asked(server *v1alpha1.MCPServer) error {
	fields, _, err := undone(server, s.spec)
	if err != nil {
		return err
	}
	then, err := with(server, fields)
	if err != nil {
		return err
	}
	if err := workload.AsksFor(then, s.run); err != nil {
		return fmt.Errorf("its spec cannot be trusted: %w", err)
	}
	return nil
}

// specIn are the fields of the spec that content came of. What a later release has added is not lost unseen.
func specIn(data []byte) (*v1alpha1.MCPServerSpec, error) {
	content, err := runconfig.DecodeContent(data)
	if err != nil {
		return nil, err
	}
	if content.Spec == nil {
		return nil, errors.New("its spec was too large to keep beside it: apply the earlier manifest")
	}
	spec := &v1alpha1.MCPServerSpec{}
	unknown, err := kjson.UnmarshalStrict(content.Spec, spec, kjson.DisallowUnknownFields)
	if err = errors.Join(append(unknown, err)...); err != nil {
		return nil, fmt.Errorf("its spec is of another release: use the plugin of that release: %w", err)
	}
	return spec, nil
}
