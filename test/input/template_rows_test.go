package input

// templateRows are what only the operator can judge of pod templates.
var templateRows = []subject{
	{"spec.podTemplate: what cannot be read", []row{
		{
			mistake: "a typo", spec: "podTemplate: {spec: {contaners: []}}", field: "spec.podTemplate.spec.contaners",
			says: "a pod template has no such field: correct or remove it",
		},
		{
			mistake: "the spec of a pod without spec", spec: "podTemplate: {nodeSelector: {disk: ssd}}",
			field: "spec.podTemplate.nodeSelector", says: "a pod template has no such field: correct or remove it",
		},
		{
			mistake: "apiVersion and kind", spec: "podTemplate: {apiVersion: v1, kind: Pod, spec: {}}",
			field: "spec.podTemplate.apiVersion",
			says: "a pod template has no such field: correct or remove it; spec.podTemplate.kind: a pod template has no such " +
				"field: correct or remove it",
		},
		{
			mistake: "a map of containers", spec: "podTemplate: {spec: {containers: {server: {}}}}",
			field: "spec.podTemplate.spec.containers", says: "is a map where a pod template has a list: begin each item with -",
		},
		{
			mistake: "a number as text", spec: "podTemplate: {spec: {nodeSelector: {gpus: 2}}}",
			field: "spec.podTemplate.spec.nodeSelector",
			says:  "is a number where a pod template has a text: write it in quotes",
		},
		{
			mistake: "a text as number", spec: `podTemplate: {spec: {terminationGracePeriodSeconds: "30"}}`,
			field: "spec.podTemplate.spec.terminationGracePeriodSeconds",
			says:  "is a text where a pod template has a number: write it without quotes",
		},
		{
			mistake: "template marks where a number belongs",
			spec:    `podTemplate: {spec: {terminationGracePeriodSeconds: "{{ .Values.grace }}"}}`,
			field:   "spec.podTemplate.spec.terminationGracePeriodSeconds",
			says:    "is a text where a pod template has a number: write it without quotes",
		},
		{
			mistake: "no quantity", spec: "podTemplate: {spec: {overhead: {cpu: lots}}}", field: "spec.podTemplate",
			says: "holds a quantity that is none: write cpu as 500m or 2, memory as 128Mi or 1Gi",
		},
		{
			mistake: "a container without a name", spec: "podTemplate: {spec: {containers: [{image: i}]}}",
			field: "spec.podTemplate.spec.containers[0].name", says: "missing: write it, every item of this list has one",
		},
		{
			mistake: "a container without an image", spec: "podTemplate: {spec: {containers: [{name: side}]}}",
			field: "spec.podTemplate.spec.containers[name=side].image",
			says:  "missing: write the image of this container, or give it the name of Freehold's to add to that",
		},
		{
			mistake: "a container's name in upper case", spec: "podTemplate: {spec: {containers: [{name: Side, image: i}]}}",
			field: "spec.podTemplate.spec.containers[name=Side].name",
			says: "no container or volume has such a name: write at most 63 lower-case letters, digits and -, for example " +
				"cache",
		},
		{
			mistake: "two containers of one name",
			spec:    "podTemplate: {spec: {containers: [{name: a, image: i}, {name: a, image: i}]}}", field: "spec.podTemplate",
			says: "spec.containers: duplicate entries for key [name=\"a\"]: keep one of them",
		},
		{
			mistake: "a port out of range",
			spec:    "podTemplate: {spec: {containers: [{name: a, image: i, ports: [{containerPort: 70000}]}]}}",
			field:   "spec.podTemplate.spec.containers[name=a].ports[containerPort=70000,protocol=TCP].containerPort",
			says:    "no such port: write 1 to 65535",
		},
		{
			mistake: "a port's name in upper case",
			spec:    "podTemplate: {spec: {containers: [{name: a, image: i, ports: [{containerPort: 1, name: HTTP}]}]}}",
			field:   "spec.podTemplate.spec.containers[name=a].ports[containerPort=1,protocol=TCP].name",
			says:    "no port has such a name: write at most 15 lower-case letters, digits and -, for example metrics",
		},
		{
			mistake: "a mount of no volume",
			spec:    "podTemplate: {spec: {containers: [{name: server, volumeMounts: [{name: a, mountPath: /a}]}]}}",
			field:   "spec.podTemplate.spec.containers[name=server].volumeMounts[mountPath=/a].name",
			says:    "there is no volume of this name: add it to the volumes, or correct the name",
		},
		{
			mistake: "an empty item", spec: "podTemplate: {spec: {tolerations: [{}]}}",
			field: "spec.podTemplate.spec.tolerations[0]", says: "an empty item cannot be applied: remove it",
		},
		{
			mistake: "an empty selector",
			spec: "podTemplate: {spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: " +
				"DoNotSchedule, labelSelector: {}}]}}",
			field: "spec.podTemplate.spec.topologySpreadConstraints[topologyKey=a,whenUnsatisfiable=DoNotSchedule].labelSelector", says: "an empty selector cannot be applied: write a label that everything it should match has",
		},
	}},
	{"spec.podTemplate: what is not yours to say", []row{
		{
			mistake: "a label of Freehold's", spec: "podTemplate: {metadata: {labels: {freehold.dev/server: other}}}",
			field: "spec.podTemplate.metadata.labels[\"freehold.dev/server\"]",
			says:  "only Freehold writes freehold.dev/ and app.kubernetes.io/ here: choose another prefix",
		},
		{
			mistake: "a label that is none", spec: `podTemplate: {metadata: {labels: {team: "a b"}}}`,
			field: "spec.podTemplate.metadata.labels[\"team\"]",
			says:  "no label has such a value: write at most 63 letters, digits, - _ and ., or use an annotation",
		},
		{
			mistake: "a name", spec: "podTemplate: {metadata: {name: a}}", field: "spec.podTemplate.metadata.name",
			says: "a pod template of a server has only labels and annotations: remove it",
		},
		{
			mistake: "the image of the server", spec: "podTemplate: {spec: {containers: [{name: server, image: i}]}}",
			field: "spec.podTemplate.spec.containers[name=server].image", says: "comes from spec.image: set that instead",
		},
		{
			mistake: "args of the server", spec: "args: [a]\npodTemplate: {spec: {containers: [{name: server, args: [b]}]}}",
			field: "spec.podTemplate.spec.containers[name=server].args", says: "comes from spec.args: set that instead",
		},
		{
			mistake: "a variable that spec.env has",
			spec: "env: [{name: A, value: a}]\npodTemplate: {spec: {containers: [{name: server, env: [{name: A, value: " +
				"b}]}]}}",
			field: "spec.podTemplate.spec.containers[name=server].env[name=A]", says: "comes from spec.env: set that instead",
		},
		{
			mistake: "a volume that spec.volumes has",
			spec:    "volumes: [{name: a}]\npodTemplate: {spec: {volumes: [{name: a, secret: {secretName: s}}]}}",
			field:   "spec.podTemplate.spec.volumes[name=a]", says: "comes from spec.volumes: set that instead",
		},
		{
			mistake: "the port of the server",
			spec:    "podTemplate: {spec: {containers: [{name: server, ports: [{containerPort: 8080}]}]}}",
			field:   "spec.podTemplate.spec.containers[name=server].ports[containerPort=8080,protocol=TCP]",
			says:    "comes from spec.port: set that instead",
		},
		{
			mistake: "the name of Freehold's port",
			spec:    "podTemplate: {spec: {containers: [{name: side, image: i, ports: [{containerPort: 1, name: mcp}]}]}}",
			field:   "spec.podTemplate.spec.containers[name=side].ports[containerPort=1,protocol=TCP].name",
			says:    "Freehold names a port mcp: choose another name",
		},
		{
			mistake: "another probe", spec: "podTemplate: {spec: {containers: [{name: server, readinessProbe: {httpGet: " +
				"{path: /, port: 80}}}]}}", field: "spec.podTemplate.spec.containers[name=server].readinessProbe.httpGet",
			says: "Freehold states another handler of this probe: remove it",
		},
		{
			mistake: "a ServiceAccount", spec: "podTemplate: {spec: {serviceAccountName: robot}}",
			field: "spec.podTemplate.spec.serviceAccountName", says: "remove it here and set spec.serviceAccountName",
		},
		{
			mistake: "the old name of it", spec: "podTemplate: {spec: {serviceAccount: robot}}",
			field: "spec.podTemplate.spec.serviceAccount", says: "is an old name of serviceAccountName: remove it",
		},
		{
			mistake: "another restart policy", spec: "podTemplate: {spec: {restartPolicy: Never}}",
			field: "spec.podTemplate.spec.restartPolicy", says: "these pods are always restarted: remove it",
		},
		{
			mistake: "a container of kubectl debug", spec: "podTemplate: {spec: {ephemeralContainers: [{name: a, image: i}]}}",
			field: "spec.podTemplate.spec.ephemeralContainers", says: "a template has none: use kubectl debug on a pod",
		},
		{
			mistake: "a time to end", spec: "podTemplate: {spec: {activeDeadlineSeconds: 60}}",
			field: "spec.podTemplate.spec.activeDeadlineSeconds", says: "these pods run until they are replaced: remove it",
		},
		{
			mistake: "the image of the proxy", spec: "proxy: {podTemplate: {spec: {containers: [{name: proxy, image: i}]}}}",
			field: "spec.proxy.podTemplate.spec.containers[name=proxy].image", says: "Freehold states this: remove it",
		},
		{
			mistake: "a variable of the proxy",
			spec: "proxy: {podTemplate: {spec: {containers: [{name: proxy, env: [{name: FREEHOLD_WORKLOAD_HASH, value: " +
				"a}]}]}}}",
			field: "spec.proxy.podTemplate.spec.containers[name=proxy].env[name=FREEHOLD_WORKLOAD_HASH]",
			says:  "Freehold has this item: choose another",
		},
		{
			mistake: "the volume of the proxy", spec: "proxy: {podTemplate: {spec: {volumes: [{name: run-config}]}}}",
			field: "spec.proxy.podTemplate.spec.volumes[name=run-config]", says: "Freehold has this item: choose another",
		},
		{
			mistake: "a mount over the run config",
			spec: "proxy: {podTemplate: {spec: {volumes: [{name: a}], containers: [{name: proxy, volumeMounts: [{name: a, " +
				"mountPath: /etc/freehold}]}]}}}",
			field: "spec.proxy.podTemplate.spec.containers[name=proxy].volumeMounts[mountPath=/etc/freehold]",
			says:  "nothing is mounted in the runner: remove it, or use a container of your own",
		},
		{
			mistake: "the grace period of the proxy", spec: "proxy: {podTemplate: {spec: {terminationGracePeriodSeconds: 1}}}",
			field: "spec.proxy.podTemplate.spec.terminationGracePeriodSeconds", says: "Freehold states this: remove it",
		},
	}},
	{"spec.proxy.podTemplate: what would give the runner's token away", []row{
		{
			mistake: "a token in every container", spec: "proxy: {podTemplate: {spec: {automountServiceAccountToken: true}}}",
			field: "spec.proxy.podTemplate.spec.automountServiceAccountToken",
			says:  "every container would have the runner's token: remove it",
		},
		{
			mistake: "a token of your own",
			spec: "proxy: {podTemplate: {spec: {volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: " +
				"token}}]}}]}}}", field: "spec.proxy.podTemplate.spec.volumes[name=a].projected.sources[0].serviceAccountToken",
			says: "this is the runner's identity: remove it, and use a pod of your own for what calls the API server",
		},
		{
			mistake: "a certificate of the pod",
			spec: "proxy: {podTemplate: {spec: {volumes: [{name: a, projected: {sources: [{podCertificate: {signerName: a/b, " +
				"keyType: ED25519, credentialBundlePath: a}}]}}]}}}",
			field: "spec.proxy.podTemplate.spec.volumes[name=a].projected.sources[0].podCertificate",
			says:  "this is the runner's identity: remove it, and use a pod of your own for what calls the API server",
		},
		{
			mistake: "the runner's volume in another container",
			spec: "proxy: {podTemplate: {spec: {containers: [{name: side, image: i, volumeMounts: [{name: runner-token, " +
				"mountPath: /a}]}]}}}", field: "spec.proxy.podTemplate.spec.containers[name=side].volumeMounts[mountPath=/a].name",
			says: "the runner's token is for the container proxy only: choose another volume",
		},
		{
			mistake: "processes in sight of each other", spec: "proxy: {podTemplate: {spec: {shareProcessNamespace: true}}}",
			field: "spec.proxy.podTemplate.spec.shareProcessNamespace",
			says:  "other containers would see the runner's files and its token: remove it",
		},
		{
			mistake: "another program in the runner's container",
			spec:    "proxy: {podTemplate: {spec: {containers: [{name: proxy, command: [/sh]}]}}}",
			field:   "spec.proxy.podTemplate.spec.containers[name=proxy].command", says: "the runner runs as it is: remove it",
		},
		{
			mistake: "a program at its start",
			spec: "proxy: {podTemplate: {spec: {containers: [{name: proxy, lifecycle: {postStart: {exec: {command: " +
				"[/sh]}}}}]}}}", field: "spec.proxy.podTemplate.spec.containers[name=proxy].lifecycle.postStart.exec",
			says: "nothing else runs in the runner's container: remove it",
		},
		{
			mistake: "a mount in the runner's container",
			spec: "proxy: {podTemplate: {spec: {volumes: [{name: a}], containers: [{name: proxy, volumeMounts: [{name: a, " +
				"mountPath: /a}]}]}}}", field: "spec.proxy.podTemplate.spec.containers[name=proxy].volumeMounts[mountPath=/a]",
			says: "nothing is mounted in the runner: remove it, or use a container of your own",
		},
		{
			mistake: "variables of a ConfigMap",
			spec:    "proxy: {podTemplate: {spec: {containers: [{name: proxy, envFrom: [{configMapRef: {name: a}}]}]}}}",
			field:   "spec.proxy.podTemplate.spec.containers[name=proxy].envFrom",
			says:    "the runner takes no variables unseen: write each in env",
		},
		{
			mistake: "an argument of the runner",
			spec:    "proxy: {podTemplate: {spec: {containers: [{name: proxy, args: [--config=/a]}]}}}",
			field:   "spec.proxy.podTemplate.spec.containers[name=proxy].args",
			says: "the runner takes \"--config=/a\" from nobody: write --log-level or --log-format, each with one of its " +
				"words, or nothing",
		},
		{
			mistake: "a driver's volume", spec: "proxy: {podTemplate: {spec: {volumes: [{name: a, csi: {driver: b}}]}}}",
			field: "spec.proxy.podTemplate.spec.volumes[name=a].csi",
			says: "its driver could give away what is for the runner alone: in a proxy's pod use configMap, downwardAPI, " +
				"emptyDir, ephemeral, image, persistentVolumeClaim, projected, secret",
		},
		{
			mistake: "a capability beside the runner",
			spec: "proxy: {podTemplate: {spec: {containers: [{name: side, image: i, securityContext: {capabilities: {add: " +
				"[CHOWN]}}}]}}}", field: "spec.proxy.podTemplate.spec.containers[name=side].securityContext.capabilities",
			says: "breaks the restricted Pod Security Standard, control \"unrestricted capabilities\": drop ALL or nothing, " +
				"which Freehold makes ALL, and add NET_BIND_SERVICE alone",
		},
		{
			mistake: "the runner's name before it",
			spec:    "proxy: {podTemplate: {spec: {initContainers: [{name: proxy, image: i}]}}}",
			field:   "spec.proxy.podTemplate.spec.initContainers[name=proxy].name",
			says:    "another container of this pod has this name: choose another",
		},
		{
			mistake: "another API server",
			spec: "proxy: {podTemplate: {spec: {containers: [{name: proxy, env: [{name: KUBERNETES_SERVICE_HOST, value: " +
				"a}]}]}}}", field: "spec.proxy.podTemplate.spec.containers[name=proxy].env[name=KUBERNETES_SERVICE_HOST]",
			says: "this variable would give the runner's token away: remove it",
		},
		{
			mistake: "headers in the log",
			spec:    "proxy: {podTemplate: {spec: {containers: [{name: proxy, env: [{name: GODEBUG, value: http2debug=1}]}]}}}",
			field:   "spec.proxy.podTemplate.spec.containers[name=proxy].env[name=GODEBUG]",
			says:    "this variable would give the runner's token away: remove it",
		},
		{
			mistake: "an annotation of an injector",
			spec:    "proxy: {podTemplate: {metadata: {annotations: {vault.hashicorp.com/agent-inject: \"true\"}}}}",
			field:   "spec.proxy.podTemplate.metadata.annotations[\"vault.hashicorp.com/agent-inject\"]",
			says: "an injector that acts on it could read the runner's token: write a label, or a key without a domain; or " +
				"have who may write Deployments apply it to the proxy's under a field manager of their own",
		},
	}},
	{"spec.podTemplate, spec.volumes: what goes beyond the baseline Pod Security Standard, and who runs it", []row{
		{
			mistake: "hostNetwork", spec: "podTemplate: {spec: {hostNetwork: true}}", field: "spec.podTemplate.spec.hostNetwork",
			says: "breaks the baseline Pod Security Standard, control \"host namespaces\": remove it",
		},
		{
			mistake: "hostPID", spec: "podTemplate: {spec: {hostPID: true}}", field: "spec.podTemplate.spec.hostPID",
			says: "breaks the baseline Pod Security Standard, control \"host namespaces\": remove it",
		},
		{
			mistake: "hostIPC", spec: "podTemplate: {spec: {hostIPC: true}}", field: "spec.podTemplate.spec.hostIPC",
			says: "breaks the baseline Pod Security Standard, control \"host namespaces\": remove it",
		},
		{
			mistake: "hostPort", spec: "podTemplate: {spec: {containers: [{name: a, image: i, ports: [{containerPort: 1, " +
				"hostPort: 1}]}]}}", field: "spec.podTemplate.spec.containers[name=a].ports[containerPort=1,protocol=TCP].hostPort",
			says: "breaks the baseline Pod Security Standard, control \"hostPort\": remove it and call the Service",
		},
		{
			mistake: "hostPath", spec: "podTemplate: {spec: {volumes: [{name: a, hostPath: {path: /}}]}}",
			field: "spec.podTemplate.spec.volumes[name=a].hostPath",
			says: "breaks the baseline Pod Security Standard, control \"hostPath volumes\": use a persistentVolumeClaim, " +
				"emptyDir, configMap or secret",
		},
		{
			mistake: "hostNetwork of the proxy", spec: "proxy: {podTemplate: {spec: {hostNetwork: true}}}",
			field: "spec.proxy.podTemplate.spec.hostNetwork",
			says:  "breaks the baseline Pod Security Standard, control \"host namespaces\": remove it",
		},
		{
			mistake: "privileged", spec: "podTemplate: {spec: {containers: [{name: server, securityContext: {privileged: " +
				"true}}]}}", field: "spec.podTemplate.spec.containers[name=server].securityContext.privileged",
			says: "breaks the baseline Pod Security Standard, control \"privileged\": remove it",
		},
		{
			mistake: "a privileged container before",
			spec:    "podTemplate: {spec: {initContainers: [{name: a, image: i, securityContext: {privileged: true}}]}}",
			field:   "spec.podTemplate.spec.initContainers[name=a].securityContext.privileged",
			says:    "breaks the baseline Pod Security Standard, control \"privileged\": remove it",
		},
		{
			mistake: "root that is not said to be meant", spec: "podTemplate: {spec: {securityContext: {runAsUser: 0}}}",
			field: "spec.podTemplate.spec.securityContext.runAsUser",
			says:  "0 is root: write another number, or runAsNonRoot: false beside it if the image must be root",
		},
		{
			mistake: "root in the proxy's pod",
			spec: "proxy: {podTemplate: {spec: {containers: [{name: side, image: i, securityContext: {runAsNonRoot: " +
				"false}}]}}}",
			field: "spec.proxy.podTemplate.spec.containers[name=side].securityContext.runAsNonRoot",
			says:  "nothing in a proxy's pod runs as root: remove it",
		},
		{
			mistake: "a capability", spec: "podTemplate: {spec: {containers: [{name: server, securityContext: {capabilities: " +
				"{add: [NET_ADMIN]}}}]}}", field: "spec.podTemplate.spec.containers[name=server].securityContext.capabilities.add",
			says: "breaks the baseline Pod Security Standard, control \"non-default capabilities\": add only what container " +
				"runtimes give by default, for example NET_BIND_SERVICE, or remove it",
		},
		{
			mistake: "no seccomp profile", spec: "podTemplate: {spec: {securityContext: {seccompProfile: {type: Unconfined}}}}",
			field: "spec.podTemplate.spec.securityContext.seccompProfile",
			says: "breaks the baseline Pod Security Standard, control \"seccompProfile\": write the type RuntimeDefault or " +
				"Localhost, or remove it",
		},
		{
			mistake: "no AppArmor profile",
			spec: "podTemplate: {spec: {containers: [{name: server, securityContext: {appArmorProfile: {type: " +
				"Unconfined}}}]}}",
			field: "spec.podTemplate.spec.containers[name=server].securityContext.appArmorProfile",
			says: "breaks the baseline Pod Security Standard, control \"forbidden AppArmor profile\": write the type " +
				"RuntimeDefault or Localhost, or remove it",
		},
		{
			mistake: "all of /proc", spec: "podTemplate: {spec: {containers: [{name: server, securityContext: {procMount: " +
				"Unmasked}}]}}", field: "spec.podTemplate.spec.containers[name=server].securityContext.procMount",
			says: "breaks the baseline Pod Security Standard, control \"procMount\": remove it, or write hostUsers: false " +
				"beside the containers",
		},
		{
			mistake: "a sysctl", spec: "podTemplate: {spec: {securityContext: {sysctls: [{name: kernel.msgmax, value: " +
				"\"1\"}]}}}", field: "spec.podTemplate.spec.securityContext.sysctls",
			says: "breaks the baseline Pod Security Standard, control \"forbidden sysctls\": remove it; only sysctls that " +
				"Kubernetes calls safe are allowed",
		},
		{
			mistake: "a probe of another host",
			spec: "podTemplate: {spec: {containers: [{name: server, livenessProbe: {httpGet: {host: 127.0.0.1, port: " +
				"10255}}}]}}", field: "spec.podTemplate.spec.containers[name=server].livenessProbe.httpGet.host",
			says: "breaks the baseline Pod Security Standard, control \"probe or lifecycle host\": remove it, and kubelet " +
				"asks the pod itself",
		},
		{
			mistake: "a token where there is no account",
			spec:    "volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: token}}]}}]",
			field:   "spec.volumes[name=a].projected.sources[0].serviceAccountToken",
			says:    "without spec.serviceAccountName a backend has no token: set that, or remove this",
		},
		{
			mistake: "a volume by an annotation",
			spec:    "podTemplate: {metadata: {annotations: {sidecar.istio.io/userVolume: '[]'}}}",
			field:   "spec.podTemplate.metadata.annotations[\"sidecar.istio.io/userVolume\"]",
			says:    "an injector would mount what this names: remove it, and use volumes",
		},
	}},
}
