package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// looked is what is known of ConfigMaps and Secrets without reading what they say.
type looked struct{ gone, written, unread []string }

// look tells which are gone, and which have been written since a time.
func look(
	ctx context.Context, reader client.Reader, namespace string, refs []runspec.Reference, since time.Time,
) (found looked, err error) {
	for _, ref := range refs {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(contract.ConfigMap.GroupVersion().WithKind(ref.Kind))
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, object)
		switch {
		case apierrors.IsNotFound(err) && ref.Optional:
		case apierrors.IsNotFound(err):
			found.gone = append(found.gone, ref.String())
		case apierrors.IsForbidden(err):
			found.unread = append(found.unread, ref.String())
		case err != nil:
			return found, fmt.Errorf("reading %s: %w", ref, err)
		case writtenAt(object).After(since):
			found.written = append(found.written, ref.String())
		}
	}
	return found, nil
}

// writtenAt is when an object was last written, as far as its field managers tell: who only removes a field leaves no
// time.
func writtenAt(object *metav1.PartialObjectMetadata) time.Time {
	last := object.CreationTimestamp.Time
	for _, entry := range object.ManagedFields {
		if entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// references refuses content that reads a ConfigMap or Secret which is gone, or has been written since, and says what
// does not come back.
func (c *cli) references(
	ctx context.Context, reader client.Reader, namespace string, target storedContent, r undoing,
) error {
	refs := runspec.References(target.run.Backend)
	found, err := look(ctx, reader, namespace, refs, target.made)
	if err != nil {
		return err
	}
	for _, name := range found.unread {
		fmt.Fprintf(c.ErrOut, "You may not read %s: whether it has changed is not known\n", safe(name))
	}
	switch {
	case len(found.gone) > 0:
		return fmt.Errorf("revision %d reads %s, which is gone and does not come back: make it again first", target.Revision,
			safe(strings.Join(found.gone, ", ")))
	case len(found.written) > 0 && !r.present:
		return fmt.Errorf("revision %d reads %s, which has been written since: what it said then does not come back. "+
			"Go back with what it says now with --present-references", target.Revision,
			safe(strings.Join(found.written, ", ")))
	case len(refs) > 0:
		fmt.Fprintf(c.Out, "Read as they are now (removals are not seen): %s\n"+
			"What they said when this content ran does not come back\n", safe(strings.Join(target.Reads, ", ")))
	}
	if image := target.run.Backend.Image; !strings.Contains(image, "@") {
		fmt.Fprintf(c.Out, "%s is a tag: if it leads to another image now, the one that ran does not come back\n",
			safe(image))
	}
	return nil
}

// reads says of a rollout under way which ConfigMaps and Secrets its contents read, and which of them have been written
// since it began: a pod that starts meanwhile reads what they say now, whichever content it has.
func (c *cli) reads(ctx context.Context, u *unstructured.Unstructured, server *v1alpha1.MCPServer) []string {
	rollout := server.Status.Rollout
	if rollout == nil || rollout.From == nil || len(rollout.Steps) == 0 || rollout.Steps[0].StartedAt == nil {
		return nil
	}
	contents, err := c.contents(server)
	if len(contents) == 0 && err != nil {
		return []string{fmt.Sprintf("which ConfigMaps and Secrets it reads is not known: %v", err)}
	}
	_, reader, err := c.applierOf(u.GroupVersionKind(), true, ownership.Contract{})
	if err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for _, content := range contents {
		refs := runspec.References(content.run.Backend)
		if content.Hash != rollout.Target.Hash && content.Hash != rollout.From.Hash || len(refs) == 0 {
			continue
		}
		short := content.Hash[:min(len(content.Hash), shownHash)]
		lines = append(lines, fmt.Sprintf("content %s reads %s", short, strings.Join(content.Reads, ", ")))
		found, err := look(ctx, reader, server.Namespace, refs, rollout.Steps[0].StartedAt.Time)
		if err != nil {
			lines = append(lines, err.Error())
		}
		if len(found.gone) > 0 {
			lines = append(lines, fmt.Sprintf("%s is gone: no pod of content %s starts without it",
				strings.Join(found.gone, ", "), short))
		}
		if len(found.written) > 0 {
			lines = append(lines, fmt.Sprintf("%s has been written since the rollout began: pods of content %s that start "+
				"read what it says now", strings.Join(found.written, ", "), short))
		}
	}
	return lines
}
