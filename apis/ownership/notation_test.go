package ownership

import "testing"

func TestAFieldIsWrittenAsAPathIsRead(t *testing.T) {
	for _, text := range []string{
		"spec.replicas",
		"spec.a-b.c_d",
		`metadata.labels["app.kubernetes.io/name"]`,
		`metadata.annotations["a\"b]"]`,
		`metadata.annotations["ü"]`,
		`data[""]`,
		`metadata.finalizers[="a.b/c"]`,
		"spec.numbers[=7]",
		"spec.ports[port=80,protocol=TCP]",
		`spec.ports[port="80",protocol="true"]`,
		"spec.items[on=true].name",
		`spec.items[key="",name="a b"]`,
	} {
		path := MustPath(text)
		field, exact := plainPath(path)
		if got := Notation(field); !exact || got != text {
			t.Errorf("%s is written as %s", text, got)
		}
	}
}
