package ownership_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// The managers of an operator that keeps the pages of a wiki in ConfigMaps.
const (
	pages  ownership.Manager = "page.wiki.example.com/pages"
	styles ownership.Manager = "page.wiki.example.com/styles"
)

var configMap = ownership.Object{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap")}

// wiki is that operator's contract.
func wiki() ownership.Contract {
	grant := func(manager ownership.Manager, why string, fields ...string) ownership.Grant {
		return ownership.Grant{
			Manager: manager, Identity: "wiki-operator", Object: configMap, Names: []string{"PAGE-html"},
			Mode: ownership.Exclusive, Create: true, Why: why, Fields: ownership.Paths(fields...),
		}
	}
	return ownership.Contract{Grants: []ownership.Grant{
		grant(pages, "carries the text", `metadata.labels["wiki.example.com/page"]`, `data["index.html"]`),
		grant(styles, "carries the looks", `data["style.css"]`),
	}}
}

// A contract is a table. It is checked once, and then asked.
func Example() {
	contract := wiki()
	for _, err := range contract.Check() {
		fmt.Println(err)
	}
	grant, ok := contract.Grant(pages, configMap, "home-html")
	fmt.Println("home-html is granted:", ok)
	_, ok = contract.Grant(pages, configMap, "home-settings")
	fmt.Println("home-settings is granted:", ok)

	stated := fieldpath.NewSet(
		fieldpath.MakePathOrDie("data", "index.html"),
		fieldpath.MakePathOrDie("data", "style.css"),
	)
	fmt.Println("outside of the grant:", grant.Outside(stated))
	// Output:
	// home-html is granted: true
	// home-settings is granted: false
	// outside of the grant: [.data.style.css]
}

// A table that gives one field to two managers is refused, as is a manager
// that is named after a process: the API server would keep an entry for each.
func ExampleContract_Check() {
	contract := wiki()
	contract.Grants[0].Fields = append(contract.Grants[0].Fields, ownership.MustPath("data[*]"))
	contract.Grants[1].Manager = "page.wiki.example.com/pod-7f9c"
	for _, err := range contract.Check() {
		fmt.Println(err)
	}
	// Output:
	// manager "page.wiki.example.com/pod-7f9c": write it as kind.domain/purpose, kind and purpose in lower-case letters
	// page.wiki.example.com/pod-7f9c and page.wiki.example.com/pages both own data["style.css"] of ConfigMap, one of them exclusively
}

// Who holds a field is read from a live object, and compared with the contract.
func ExampleOwners() {
	live := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		entry(string(pages), metav1.ManagedFieldsOperationApply, `{"f:data":{"f:index.html":{}}}`),
		entry("kubectl-edit", metav1.ManagedFieldsOperationUpdate, `{"f:data":{"f:index.html":{},"f:notes":{}}}`),
	}}}
	owners, err := ownership.Owners(live.ManagedFields, ownership.MustPath(`data["index.html"]`))
	if err != nil {
		fmt.Println(err)
	}
	for _, owner := range owners {
		granted := len(wiki().Of(ownership.Manager(owner.Manager))) > 0
		fmt.Printf("%s by %s, in the contract: %t\n", owner.Manager, owner.Operation, granted)
	}
	// Output:
	// page.wiki.example.com/pages by Apply, in the contract: true
	// kubectl-edit by Update, in the contract: false
}

// An audit asks the same of a whole object.
func ExampleContract_Judge() {
	live := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "home-html", ManagedFields: []metav1.ManagedFieldsEntry{
		entry(string(pages), metav1.ManagedFieldsOperationApply, `{"f:data":{"f:index.html":{}}}`),
		entry(string(styles), metav1.ManagedFieldsOperationUpdate, `{"f:data":{"f:style.css":{}}}`),
		entry("kubectl-edit", metav1.ManagedFieldsOperationUpdate, `{"f:data":{"f:index.html":{},"f:notes":{}}}`),
	}}}
	holdings, err := wiki().Judge(configMap.GroupKind(), live.Name, live.ManagedFields)
	if err != nil {
		fmt.Println(err)
	}
	for _, h := range holdings {
		fmt.Printf("%s of %s: %s\n", ownership.Notation(h.Field), h.Manager, h.Verdict)
	}
	// Output:
	// data["index.html"] of kubectl-edit: taken
	// data["index.html"] of page.wiki.example.com/pages: ours
	// data.notes of kubectl-edit: foreign
	// data["style.css"] of page.wiki.example.com/styles: stray
}

func entry(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	owned := &metav1.FieldsV1{}
	if err := owned.UnmarshalJSON([]byte(fields)); err != nil {
		panic(err)
	}
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsType: "FieldsV1", FieldsV1: owned}
}
