package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// A template may have fields that are younger than the API server, because Freehold is built against newer types. No
// supported server knows these. See docs/versions.md.
var _ = DescribeTable("A template field that this API server does not know", func(more string) {
	s := newEnv()
	operate(s)
	s.RunProxies()
	s.Apply(git, server("echo", ""))
	ready(s, "echo")
	s.Apply(git, server("echo", more))
	live := notReady(s, "echo", v1alpha1.ReasonApplyFailed)
	Expect(readyMessage(live)).To(ContainSubstring("evictionResponders: field not declared in schema"))
	s.Apply(git, server("echo", ""))
	ready(s, "echo")
},
	Entry("of the proxy is named, and can be taken back",
		`proxy: {podTemplate: {spec: {evictionResponders: [{name: example.com/a, priority: 1}]}}}`),
	Entry("of the backend is named, and can be taken back",
		inPlace+"\npodTemplate: {spec: {evictionResponders: [{name: example.com/a, priority: 1}]}}"),
)
