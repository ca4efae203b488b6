// Command lint holds what only the types of an expression can tell: who may write to the API server, and how. Run by
// `make verify` from the root of the repository; hack/lint/rules says what each rule is for.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/freehold-dev/freehold/hack/lint/rules"
)

func main() { multichecker.Main(rules.All()...) }
