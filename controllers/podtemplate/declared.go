package podtemplate

import (
	"strings"
	"unicode/utf8"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// With the bridge in the server's container, variables of envFrom have another name there. References to them in env,
// command and args, $(NAME), are written with that name, so that kubelet expands them as without a bridge. The bridge
// restores references that kubelet leaves because nothing defines them.

// declaredEnv rewrites references in the values of env. Kubelet knows only the items before the one that refers.
func declaredEnv(env []corev1ac.EnvVarApplyConfiguration) {
	known := map[string]bool{}
	for i := range env {
		if env[i].Value != nil {
			env[i].WithValue(declaredIn(*env[i].Value, known))
		}
		known[*env[i].Name] = true
	}
}

// declaredArgs rewrites references in a command, which may refer to all of env.
func declaredArgs(args []string, env []corev1ac.EnvVarApplyConfiguration) []string {
	known := map[string]bool{}
	for i := range env {
		known[*env[i].Name] = true
	}
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = declaredIn(arg, known)
	}
	return out
}

// declaredIn rewrites the references in text, except to known variables and those that kubelet gives each container.
// It parses as kubelet does: $$ is a dollar
// (https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/).
func declaredIn(text string, known map[string]bool) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteByte('$')
		name, rest, closed := strings.Cut(after, ")")
		if !strings.HasPrefix(after, "(") || !closed {
			_, size := utf8.DecodeRuneInString(after) // belongs to the dollar, also another one
			out.WriteString(after[:size])
			text = after[size:]
			continue
		}
		if name = name[1:]; !known[name] && !strings.HasPrefix(name, "KUBERNETES_") {
			name = runconfig.DeclaredPrefix + name
		}
		out.WriteString("(" + name + ")")
		text = rest
	}
}
