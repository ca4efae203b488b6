package apply

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
)

// moving is a cluster in which what is deleted has moved, and which answers a read.
type moving struct {
	client.Client
	read func(client.Object) error
}

func (moving) Scheme() *runtime.Scheme { return scheme.Scheme }

func (moving) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return apierrors.NewConflict(revisions, "a", errors.New("the uid in the precondition differs"))
}

func (m moving) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	return m.read(obj)
}

var revisions = schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}

// What moved before it was deleted is read. Of what the process may only watch an event comes.
func TestRemovingWhatMovedIsNoRefusal(t *testing.T) {
	is := func(uid string) func(client.Object) error {
		return func(obj client.Object) error { obj.SetUID(types.UID(uid)); return nil }
	}
	for name, tc := range map[string]struct {
		read func(client.Object) error
		want Retry
	}{
		"it is there":     {is("u"), OnEvent},
		"it is another":   {is("v"), NoRetry},
		"it is gone":      {func(client.Object) error { return apierrors.NewNotFound(revisions, "a") }, NoRetry},
		"it is not known": {func(client.Object) error { return errors.New("no answer") }, RetryNow},
		"it may only be watched": {
			func(client.Object) error { return apierrors.NewForbidden(revisions, "a", errors.New("no")) }, OnEvent,
		},
	} {
		c := moving{read: tc.read}
		err := New(c, c, testConverter(), contract.Freehold()).As(contract.MCPServerChildren).
			Remove(t.Context(), &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "u"}})
		if got := RetryOf(err); got != tc.want || Refused(err) != nil {
			t.Errorf("%s: it ends with %v", name, err)
		}
	}
}
