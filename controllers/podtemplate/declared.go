package podtemplate

import (
	"strings"
	"unicode/utf8"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// The server's container knows variables of envFrom by another name where the bridge is in it. References to them in
// env, command and args, $(NAME), are written with that name, so that kubelet expands them as without a bridge. The
// bridge writes those back that kubelet has left as they are, since nothing defines them.

// declaredEnv writes references so in the values of env. Kubelet knows the items before the one that refers.
func declaredEnv(env []corev1ac.EnvVarApplyConfiguration) {
	known := map[string]bool{}
	for i := range env {
		if env[i].Value != nil {
			env[i].WithValue(declaredIn(*env[i].Value, known))
		}
		known[*env[i].Name] = true
	}
}

// declaredArgs writes them so in a command, which may refer to all of env.
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

// declaredIn writes the references of one text so, unless they are to what is known, or to variables that kubelet gives
// each container. It reads the text as kubelet does: $$ is no reference, but a dollar
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
