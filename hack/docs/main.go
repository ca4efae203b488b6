// Command docs prints docs/ownership.md. Run by `make generate`.
package main

import (
	"fmt"

	"github.com/freehold-dev/freehold/apis/ownership"
)

func main() { fmt.Print(ownership.Freehold().Markdown()) }
