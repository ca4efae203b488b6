package admission

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// tracked are the variables that show whether managedFields record the request. The API server does not record a
// write that sets them to [] or [{}], nor an update of an object without any, so that no other variable shows it.
//
// An apply that gives up the only entry leaves none, too. It adds nothing, which the values show; they are compared
// for such requests alone.
func tracked() []admissionregistrationv1.Variable {
	levels := []string{
		level("", "metadata", "spec", "status"),
		level(".metadata", "annotations", "generation", "labels", "managedFields", "resourceVersion"),
		level(".metadata.?annotations"),
		level(".metadata.?labels"),
		level(".?spec"),
		level(".?status"),
	}
	return []admissionregistrationv1.Variable{
		// A removal may leave an empty parent.
		{Name: "adds", Expression: "[\n" + strings.Join(levels, ",\n") + "\n].exists(l, l.now.exists(k,\n" +
			"!(k in l.but) && l.now[?k] != l.before[?k] && !(l.now[k] == null || l.now[k] == {} || l.now[k] == [])))"},
		{Name: "tracked", Expression: "variables.entries.size() > 0 || oldObject == null ||\n" +
			"variables.entriesBefore.all(b, b.manager == variables.manager && b.operation == 'Apply' && " +
			"b.?subresource.orValue('') == variables.subresource) &&\n" +
			"!variables.adds"},
	}
}

// level is one level of the object, after the request and before it, and the keys in it that are not compared.
func level(path string, but ...string) string {
	or := ""
	if strings.Contains(path, "?") {
		or = ".orValue({})"
	}
	return fmt.Sprintf("{'now': dyn(dyn(object)%[1]s%[2]s), 'before': dyn(dyn(oldObject)%[1]s%[2]s), 'but': dyn(%[3]s)}",
		path, or, texts(but))
}
