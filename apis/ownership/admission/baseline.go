package admission

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// The baseline Pod Security Standard (https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline)
// in CEL. test/policy compares it with the standard's own examples.

// confined are the controls of everything with a securityContext: each container, and the pod. c is one of them, t
// the template; said is its text in a message.
var confined = []struct{ breaks, said string }{
	{"c.?securityContext.?privileged.orValue(false)", "' is privileged'"},
	{"c.?securityContext.?windowsOptions.?hostProcess.orValue(false)", "' is a process of the node'"},
	{
		"c.?securityContext.?capabilities.?add.orValue([]).exists(a, !(a in " + texts(capabilities) + "))",
		"' adds the capabilities ' + c.securityContext.capabilities.add.filter(a, !(a in " + texts(capabilities) +
			")).join(', ')",
	},
	{
		"!(c.?securityContext.?seccompProfile.?type.orValue('Localhost') in ['RuntimeDefault', 'Localhost'])",
		"' has no seccomp profile'",
	},
	{
		"!(c.?securityContext.?appArmorProfile.?type.orValue('Localhost') in ['RuntimeDefault', 'Localhost'])",
		"' has no AppArmor profile'",
	},
	{
		"c.?securityContext.?procMount.orValue('Default') != 'Default' && t.?spec.?hostUsers.orValue(true)",
		"' sees all of /proc'",
	},
	{
		"!(c.?securityContext.?seLinuxOptions.?type.orValue('') in ['', 'container_t', 'container_init_t', " +
			"'container_kvm_t', 'container_engine_t']) ||\n" +
			"c.?securityContext.?seLinuxOptions.?user.orValue('') != '' || " +
			"c.?securityContext.?seLinuxOptions.?role.orValue('') != ''",
		"' has SELinux options'",
	},
	{"c.?ports.orValue([]).exists(p, p.?hostPort.orValue(0) != 0)", "' takes a port of the node'"},
	{
		"[c.?livenessProbe, c.?readinessProbe, c.?startupProbe, c.?lifecycle.?postStart, c.?lifecycle.?preStop].exists(h,\n" +
			"h.?httpGet.?host.orValue('') != '' || h.?tcpSocket.?host.orValue('') != '')",
		"' has a probe or hook of another host'",
	},
}

var capabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID",
	"SETPCAP", "SETUID", "SYS_CHROOT",
}

// sysctls are those that a pod may set without affecting others.
var sysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
	"net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_notsent_lowat", "net.ipv4.tcp_rmem", "net.ipv4.tcp_slow_start_after_idle",
	"net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
}

// template are the controls of the rest of a pod template: lists of texts.
var template = []string{
	"['hostNetwork', 'hostPID', 'hostIPC'].filter(f, t.?spec[?f].orValue(false)).map(f, 'the pod has ' + f)",
	"t.?spec.?volumes.orValue([]).filter(v, has(v.hostPath)).map(v, 'volume ' + v.name + ' is ' + v.hostPath.path + ' " +
		"of the node')",
	"t.?spec.?securityContext.?sysctls.orValue([]).filter(s, !(s.name in " + texts(sysctls) +
		")).map(s, 'the pod sets the sysctl ' + s.name)",
	"t.?metadata.?annotations.orValue({}).filter(k, k.startsWith('container.apparmor.security.beta.kubernetes.io/') &&\n" +
		"!(t.metadata.annotations[k] in ['', 'runtime/default']) && " +
		"!t.metadata.annotations[k].startsWith('localhost/')).map(k, 'the pod is annotated with ' + k)",
}

// unusual is true of each template t in which openings finds something, and of some more. It is cheap, because it
// asks which fields exist, where confined and template compare values one by one.
func unusual() string {
	handlers := func(of string, names ...string) string {
		var terms []string
		for _, name := range names {
			terms = append(terms, fmt.Sprintf(
				"has(%[1]s.%[2]s) && (has(%[1]s.%[2]s.tcpSocket) && has(%[1]s.%[2]s.tcpSocket.host) || has(%[1]s.%[2]s.httpGet) "+
					"&& has(%[1]s.%[2]s.httpGet.host))", of, name))
		}
		return strings.Join(terms, " ||\n")
	}
	security := func(of string) string {
		return fmt.Sprintf("has(%[1]s.securityContext) && %[1]s.securityContext.exists(k, k in %[2]s ? false :\n"+
			"k == 'capabilities' ? has(%[1]s.securityContext.capabilities.add) :\n"+
			"k == 'seccompProfile' ? !(%[1]s.securityContext.seccompProfile.type in ['RuntimeDefault', 'Localhost']) : true)",
			of, texts(harmless))
	}
	return strings.Join([]string{
		"has(t.spec.hostNetwork) || has(t.spec.hostPID) || has(t.spec.hostIPC)",
		"has(t.spec.volumes) && t.spec.volumes.exists(v, has(v.hostPath))",
		"has(t.metadata.annotations) && t.metadata.annotations.exists(k, " +
			"k.startsWith('container.apparmor.security.beta.kubernetes.io/'))",
		security("t.spec"),
		"(has(t.spec.initContainers) ? t.spec.containers + t.spec.initContainers : t.spec.containers).exists(c,\n" +
			strings.Join([]string{
				security("c"),
				"has(c.ports) && c.ports.exists(p, has(p.hostPort))",
				handlers("c", "livenessProbe", "readinessProbe", "startupProbe"),
				"has(c.lifecycle) && (" + handlers("c.lifecycle", "postStart", "preStop") + ")",
			}, " ||\n") + ")",
	}, " ||\n")
}

// harmless are fields of a securityContext that never break baseline, whatever their values.
var harmless = []string{
	"allowPrivilegeEscalation", "fsGroup", "fsGroupChangePolicy", "readOnlyRootFilesystem", "runAsGroup", "runAsNonRoot",
	"runAsUser",
	"supplementalGroups", "supplementalGroupsPolicy",
}

// openings lists, for each template of a list, what its pods do beyond baseline.
func openings(templates string) string {
	lists := slices.Clone(template)
	for _, c := range confined {
		lists = append(lists, "all.filter(c, "+c.breaks+").map(c, c.name + "+c.said+")")
	}
	return templates + ".map(t, [\n" +
		"[dyn({'name': dyn('the pod'), 'securityContext': t.?spec.?securityContext.orValue({})})] + " +
		"t.?spec.?containers.orValue([]) + t.?spec.?initContainers.orValue([])\n" +
		"].map(all,\n" + strings.Join(lists, " +\n") + ")[0])"
}

// baseline are the variables with what a template does beyond baseline and did not do before. The lists of before and
// now are computed alike.
func (k compiler) baseline() []admissionregistrationv1.Variable {
	if !k.confines() {
		return nil
	}
	var asked []string
	for _, g := range k.grants() {
		if g.Baseline {
			asked = append(asked, under(g))
		}
	}
	return []admissionregistrationv1.Variable{
		{Name: "templates", Expression: strings.Join(asked, " ||\n") +
			" ?\n[oldObject == null ? {} : dyn(oldObject).spec.template, dyn(object).spec.template] : []"},
		{Name: "open", Expression: openings("variables.templates")},
		{Name: "opened", Expression: "variables.open.size() == 0 ? [] : variables.open[1].filter(o, !(o in " +
			"variables.open[0]))"},
	}
}

// confines: a grant on the kind keeps its pods within baseline.
func (k compiler) confines() bool {
	return slices.ContainsFunc(k.grants(), func(g ownership.Grant) bool { return g.Baseline })
}
