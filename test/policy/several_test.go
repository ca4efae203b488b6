package policy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/ownership/admission"
	"github.com/freehold-dev/freehold/test/kit"
)

// TestSeveralIdentitiesWriteOneObject holds a contract in which two controllers and the agents of two kinds of owners
// have fields of one object, and in which the names of the agents' ServiceAccounts can be read in two ways.
func TestSeveralIdentitiesWriteOneObject(t *testing.T) {
	s := kit.NewEnv(t, plane)
	config := ownership.Object{GroupVersionKind: object("{apiVersion: v1, kind: ConfigMap}").GroupVersionKind()}
	grant := func(manager ownership.Manager, identity, name, field string) ownership.Grant {
		return ownership.Grant{
			Manager: manager, Identity: identity, Object: config, Names: []string{name, "BOOK-shared"},
			Mode: ownership.Exclusive, Create: true, Why: "w", Fields: ownership.Paths(field),
		}
	}
	wiki := ownership.Contract{Grants: []ownership.Grant{
		grant("text.wiki/a", "texts", "BOOK-text", "data.text"),
		grant("look.wiki/a", "looks", "BOOK-look", "data.look"),
		grant("book.wiki/a", "BOOK-agent", "BOOK-page", "data.book"),
		{
			Manager: "page.wiki/a", Identity: "PAGE.page-agent", Object: config, Names: []string{"PAGE-page", "PAGE-shared"},
			Mode: ownership.Exclusive, Create: true, Why: "w", Fields: ownership.Paths("data.page"),
		},
	}}
	for _, err := range wiki.Check() {
		t.Fatal(err)
	}
	policies, err := admission.Compile(wiki, admission.Options{Product: "Wiki", Namespace: s.Namespace, Page: "the page"})
	s.Must(err, "compiling")
	for _, p := range policies {
		for _, o := range []client.Object{&p.Policy, &p.Binding} {
			s.Must(admin.Create(s.Ctx, o), "installing")
			t.Cleanup(func() { _ = admin.Delete(context.Background(), o) })
		}
	}
	send := func(account, manager, name, key string) error {
		o := s.Intent(fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {%s: a}}", name, key))
		return applied(s.Ctx, as(t, s.Namespace, account), manager, "", o, true)
	}
	s.Must(wait.PollUntilContextTimeout(s.Ctx, 100*time.Millisecond, kit.Patience, true,
		func(context.Context) (bool, error) {
			return send("default", "look.wiki/a", "a-probe", "look") != nil, nil
		}), "waiting for the policy")
	for _, right := range [][4]string{
		{"texts", "text.wiki/a", "a-shared", "text"},
		{"looks", "look.wiki/a", "a-shared", "look"},
		{"a-agent", "book.wiki/a", "a-shared", "book"},
		{"a.page-agent", "page.wiki/a", "a-shared", "page"},
		{"a.page-agent", "book.wiki/a", "a.page-shared", "book"}, // the agent of the book a.page
	} {
		s.Must(send(right[0], right[1], right[2], right[3]), fmt.Sprint(right))
	}
	for _, wrong := range []struct{ account, manager, name, key, says string }{
		{
			"texts", "look.wiki/a", "a-shared", "look",
			"belongs to Wiki, which writes ConfigMap only under the field managers of that identity",
		},
		{"a-agent", "page.wiki/a", "a-shared", "page", "belongs to Wiki"},
		{"a.page-agent", "book.wiki/a", "a-shared", "book", "belongs to Wiki"},
		{"b-agent", "book.wiki/a", "a-shared", "book", "is not that"},
		{"texts", "text.wiki/a", "a-look", "text", "has no grant on configmaps a-look"},
		{"looks", "look.wiki/a", "a-shared", "text", "adds .data.text"},
		{"a.page-agent", "page.wiki/a", "a-shared", "text", "adds .data.text"},
	} {
		refused(t, send(wrong.account, wrong.manager, wrong.name, wrong.key), wrong.says)
	}
}
