package ownership

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Manager is the name of a field manager. It is stable and names a purpose, never an instance, because the API server
// keeps an entry for every name it has seen, without a limit for appliers.
type Manager string

// Mode is what happens when another manager owns a field of a grant.
type Mode string

const (
	// Exclusive fields belong to the manager alone: its applies are forced.
	Exclusive Mode = "exclusive"
	// Shared fields may be owned by others: applies are not forced, and a conflict is returned.
	Shared Mode = "shared"
)

// Object is a kind, or a subresource of it.
type Object struct {
	schema.GroupVersionKind
	// Subresource is "status", or empty for the main resource. The API server keeps a separate managedFields entry for
	// each.
	Subresource string
}

// String is Kind or Kind/subresource.
func (o Object) String() string {
	if o.Subresource == "" {
		return o.Kind
	}
	return o.Kind + "/" + o.Subresource
}

// Resource is the plural of the kind in the API, without the subresource.
func (o Object) Resource() string {
	if kind := strings.ToLower(o.Kind); vowelY.MatchString(kind) {
		return kind + "s" // the guess is gatewaies
	}
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind)
	return plural.Resource
}

var vowelY = regexp.MustCompile("[aeiou]y$")

// Grant is one manager's right to a set of fields of one kind of object.
type Grant struct {
	Manager  Manager
	Identity string
	Object   Object
	// Names are the names that the object may have, empty for any. A word in capital letters, which no object's name
	// has, is a placeholder for another object's name, as SERVER in SERVER-proxy; it matches text without a dot, so that
	// GATEWAY.gw-runner is not SERVER-runner. A * matches text without a dash, so that SERVER-run-* of one server never
	// matches another server whose name continues with -run.
	Names  []string
	Fields []Path
	Mode   Mode
	// Owner is the kind of the owner that the manager states in metadata.ownerReferences; zero if none. Clusters with
	// OwnerReferencesPermissionEnforcement require rights for that, which roles have (apis/ownership/rbac).
	Owner Object
	// Create: the manager may create the object.
	Create bool
	// Versioned: writes may carry a resourceVersion, because they rest on a decision about the object as it was read. It
	// is the exception.
	Versioned bool
	// Once: the manager creates the object, and never writes or reads it again: an existing object is left as it is,
	// whoever made it. The policies of apis/ownership/admission refuse the identity each update of such a kind, also of
	// objects without the label, because an answer to a patch contains the whole object.
	Once bool
	// Baseline: the pods of the object's spec.template stay within the baseline Pod Security Standard. The policies of
	// apis/ownership/admission enforce it, so that a stolen token of the identity opens no node.
	Baseline bool
	// Why is the manager's purpose here, in one clause for people.
	Why string
}

// Covers reports whether field is inside the grant.
func (g Grant) Covers(field fieldpath.Path) bool {
	return slices.ContainsFunc(g.Fields, func(p Path) bool { return p.Covers(field) })
}

// Named reports whether the grant covers an object called name.
func (g Grant) Named(name string) bool {
	return len(g.Names) == 0 || slices.ContainsFunc(g.Names, func(pattern string) bool {
		known, ok := expressions.Load(pattern)
		if !ok {
			known, _ = expressions.LoadOrStore(pattern, regexp.MustCompile(NameExpression(pattern)))
		}
		fits, ok := known.(*regexp.Regexp)
		return ok && fits.MatchString(name)
	})
}

// expressions are those of names, compiled once.
var expressions sync.Map

var (
	capitals = regexp.MustCompile("[A-Z]+")
	stars    = regexp.MustCompile(`\\\*`)
)

// NameExpression is a name of a Grant as an anchored regular expression of RE2.
func NameExpression(pattern string) string {
	return "^" + capitals.ReplaceAllString(stars.ReplaceAllString(regexp.QuoteMeta(pattern), "[^-]*"), "[^.]+") + "$"
}

// Outside returns the leaves of fields that are outside the grant, in the notation of the API server's conflict
// messages.
func (g Grant) Outside(fields *fieldpath.Set) []string {
	var outside []string
	// Iterate, not All: breaking out of Set.All panics in v6.4.2.
	fields.Leaves().Iterate(func(field fieldpath.Path) {
		if !g.Covers(field) {
			outside = append(outside, field.String())
		}
	})
	return outside
}

// Removal is the right to delete objects of a kind, always with the uid that was read as a precondition.
type Removal struct {
	Identity string
	Object   Object
	Why      string
}

// Right is what an identity may do besides its grants and removals: read, report events, impersonate.
type Right struct {
	Identity string
	// Group and Resource are the API's, as mcpservers/finalizers of freehold.dev.
	Group, Resource string
	// Names are those of the objects, written as in a Grant; empty means any.
	Names []string
	// Verbs are the API's
	// (https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb).
	Verbs []string
	// Why is the purpose, in one clause for people.
	Why string
}

// Contract is the table. The zero Contract grants nothing.
type Contract struct {
	Grants   []Grant
	Removals []Removal
	Rights   []Right
	// Takeover lets managers take fields over, nil if they never do.
	Takeover *Takeover
}

// Grant returns the grant of manager on the object called name, and whether there is one.
func (c Contract) Grant(manager Manager, object Object, name string) (Grant, bool) {
	i := slices.IndexFunc(c.Grants, func(g Grant) bool {
		return g.Manager == manager && g.Object == object && g.Named(name)
	})
	if i < 0 {
		return Grant{}, false
	}
	return c.Grants[i], true
}

// Of returns all grants of manager.
func (c Contract) Of(manager Manager) []Grant {
	var grants []Grant
	for _, g := range c.Grants {
		if g.Manager == manager {
			grants = append(grants, g)
		}
	}
	return grants
}

// Identity returns who writes as manager, empty if nobody does.
func (c Contract) Identity(manager Manager) string {
	i := slices.IndexFunc(c.Grants, func(g Grant) bool { return g.Manager == manager })
	if i < 0 {
		return ""
	}
	return c.Grants[i].Identity
}

// Identities returns all that have a grant or another right, sorted.
func (c Contract) Identities() []string {
	var identities []string
	for _, g := range c.Grants {
		identities = append(identities, g.Identity)
	}
	for _, r := range c.Rights {
		identities = append(identities, r.Identity)
	}
	slices.Sort(identities)
	return slices.Compact(identities)
}

// MayRemove reports whether identity may delete objects of kind.
func (c Contract) MayRemove(identity string, kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(c.Removals, func(r Removal) bool {
		return r.Identity == identity && r.Object.GroupVersionKind == kind
	})
}

// managerName allows KIND.DOMAIN/PURPOSE, kind and purpose of lower-case letters: no place for a pod name, a uid or a
// number. Domains are free.
var managerName = regexp.MustCompile(`^[a-z]+(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/[a-z]+$`)

var ownerReferences = MustPath("metadata.ownerReferences")

// Check returns one error for each row that breaks a rule of the table: two grants of one manager on one object, or
// to two identities; two exclusive grants that overlap, a manager name that could contain an instance id, a
// subresource that creates, a right to anything, or an incomplete row.
func (c Contract) Check() []error {
	var errs []error
	for i, g := range c.Grants {
		if !managerName.MatchString(string(g.Manager)) {
			errs = append(errs, fmt.Errorf("manager %q: write it as kind.domain/purpose, kind and purpose in lower-case letters",
				g.Manager))
		}
		if g.Identity == "" || len(g.Fields) == 0 || g.Why == "" || g.Object.Kind == "" ||
			(g.Mode != Exclusive && g.Mode != Shared) {
			errs = append(errs, fmt.Errorf("grant of %s on %s: identity, fields, mode, kind and why must be stated", g.Manager,
				g.Object))
		}
		if states := slices.ContainsFunc(g.Fields, ownerReferences.Overlaps); states != (g.Owner.Kind != "") {
			errs = append(errs, fmt.Errorf("grant of %s on %s: state an owner and metadata.ownerReferences, or neither",
				g.Manager, g.Object))
		}
		if g.Create && g.Object.Subresource != "" {
			errs = append(errs, fmt.Errorf("grant of %s on %s: a subresource creates nothing", g.Manager, g.Object))
		}
		if g.Once && (!g.Create || g.Versioned) {
			errs = append(errs, fmt.Errorf("grant of %s on %s: what is written once is created, and has no version before",
				g.Manager, g.Object))
		}
		for _, other := range c.Grants[:i] {
			errs = append(errs, g.clashes(other)...)
		}
	}
	for _, r := range c.Rights {
		if r.Identity == "" || r.Resource == "" || len(r.Verbs) == 0 || r.Why == "" {
			errs = append(errs, fmt.Errorf("right of %s on %s: identity, resource, verbs and why must be stated", r.Identity,
				r.Resource))
		}
		if slices.Contains(append([]string{r.Group, r.Resource}, r.Verbs...), "*") {
			errs = append(errs, fmt.Errorf("right of %s on %s: name what it is to, instead of *", r.Identity, r.Resource))
		}
	}
	return errs
}

func (g Grant) clashes(other Grant) []error {
	if g.Manager == other.Manager && g.Identity != other.Identity {
		return []error{fmt.Errorf("%s and %s both write as %s: a manager is of one identity", g.Identity, other.Identity,
			g.Manager)}
	}
	if g.Object != other.Object {
		return nil
	}
	if g.Manager == other.Manager {
		return []error{fmt.Errorf("two grants of %s on %s: join them", g.Manager, g.Object)}
	}
	apart := !slices.ContainsFunc(g.Names, other.Named) && !slices.ContainsFunc(other.Names, g.Named)
	if len(g.Names) > 0 && len(other.Names) > 0 && apart {
		return nil
	}
	var errs []error
	for _, a := range g.Fields {
		for _, b := range other.Fields {
			if a.Overlaps(b) && (g.Mode == Exclusive || other.Mode == Exclusive) {
				errs = append(errs, fmt.Errorf("%s and %s both own %s of %s, one of them exclusively", g.Manager, other.Manager, a,
					g.Object))
			}
		}
	}
	return errs
}
