package kit

import (
	"fmt"
	"strings"
)

// Server is an MCPServer as a user writes it in YAML. Lines of more are fields of its spec, without indentation.
func Server(name, image, more string) string {
	text := fmt.Sprintf("apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: %s}\nspec:\n  image: %s\n",
		name, image)
	for line := range strings.Lines(strings.TrimSpace(more)) {
		text += "  " + strings.TrimRight(line, "\n") + "\n"
	}
	return text
}
