package input

// volumeRows are about volumes and their claims.
var volumeRows = []subject{
	{"spec.volumeClaimTemplates", []row{
		{
			mistake: "no mode of access",
			spec:    "volumeClaimTemplates: [{metadata: {name: a}, spec: {resources: {requests: {storage: 1Gi}}}}]",
			field:   "spec.volumeClaimTemplates[0]",
			says:    "Invalid value: spec.accessModes must name how pods mount the volume: write for example [ReadWriteOnce]",
		},
		{
			mistake: "no such mode of access",
			spec: "volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce, RWO], resources: " +
				"{requests: {storage: 1Gi}}}}]", field: "spec.volumeClaimTemplates[0]",
			says: "Invalid value: spec.accessModes must name how pods mount the volume: write for example [ReadWriteOnce]",
		},
		{
			mistake: "no claim", spec: "volumeClaimTemplates: []", field: "spec.volumeClaimTemplates",
			says: "Invalid value: 0: spec.volumeClaimTemplates in body should have at least 1 items",
		},
		{
			mistake: "a mode of access beside that of one pod",
			spec: "volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOncePod, ReadWriteOnce], " +
				"resources: {requests: {storage: 1Gi}}}}]", field: "spec.volumeClaimTemplates[0]",
			says: "Invalid value: spec.accessModes must not name another mode beside ReadWriteOncePod: write " +
				"[ReadWriteOncePod], or the other modes without it",
		},
		{
			mistake: "no such kind of volume",
			spec: "volumeClaimTemplates: [{metadata: {name: a}, spec: {volumeMode: File, accessModes: [ReadWriteOnce], " +
				"resources: {requests: {storage: 1Gi}}}}]", field: "spec.volumeClaimTemplates[0]",
			says: "Invalid value: spec.volumeMode must be Filesystem or Block: leave it out for Filesystem",
		},
		{
			mistake: "no size", spec: "volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce]}}]",
			field: "spec.volumeClaimTemplates[0]",
			says: "Invalid value: spec.resources.requests.storage must say how much each pod gets, above 0: write for " +
				"example 1Gi",
		},
		{
			mistake: "a size of nothing",
			spec: "volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: " +
				"{storage: 0Gi}}}}]", field: "spec.volumeClaimTemplates[0]",
			says: "Invalid value: spec.resources.requests.storage must say how much each pod gets, above 0: write for example " +
				"1Gi",
		},
		{
			mistake: "one volume for all pods",
			spec: "volumeClaimTemplates: [{metadata: {name: a}, spec: {volumeName: disk, accessModes: [ReadWriteOnce], " +
				"resources: {requests: {storage: 1Gi}}}}]", field: "spec.volumeClaimTemplates[0]",
			says: "Invalid value: spec.volumeName would bind all pods to one volume: remove it",
		},
		{
			mistake: "a name in upper case", spec: "volumeClaimTemplates: [{metadata: {name: Data}, " + claim + "}]",
			field: "spec.volumeClaimTemplates[0].metadata.name",
			says: "Invalid value: \"Data\": a volume has no such name: write at most 63 lower-case letters, digits and -, " +
				"for example data",
		},
		{
			mistake: "two of one name", spec: "volumeClaimTemplates: [{metadata: {name: a}, " + claim +
				"}, {metadata: {name: a}, " + claim + "}]", field: "spec",
			says: "Invalid value: two volumeClaimTemplates have one metadata.name: rename one of them",
		},
		{
			mistake: "the name of a volume",
			spec:    "volumes: [{name: a}]\nvolumeClaimTemplates: [{metadata: {name: a}, " + claim + "}]", field: "spec",
			says: "Invalid value: volumes and volumeClaimTemplates have an item of the same name: rename one of them",
		},
		{
			mistake: "the bridge's volume", spec: "volumeClaimTemplates: [{metadata: {name: freehold-bridge}, " + claim + "}]",
			field: "spec", says: "Invalid value: the volume freehold-bridge is Freehold's: choose another name in " +
				"volumeClaimTemplates",
		},
		{
			mistake: "retention of no claim", spec: "persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}", field: "spec",
			says: "Invalid value: persistentVolumeClaimRetentionPolicy is for the claims of volumeClaimTemplates: remove it, " +
				"or write volumeClaimTemplates in a new server",
		},
		{
			mistake: "claims that go when the server is scaled",
			spec:    "persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}",
			says:    "unknown field \"spec.persistentVolumeClaimRetentionPolicy.whenScaled\"",
			applied: ".spec.persistentVolumeClaimRetentionPolicy.whenScaled: field not declared in schema",
		},
	}},
	{"spec.volumes and spec.volumeMounts", []row{
		{
			mistake: "a volume on the node", spec: "volumes: [{name: v, hostPath: {path: /}}]", field: "spec.volumes",
			says: "Invalid value: hostPath volumes are not allowed: use a persistentVolumeClaim, emptyDir, configMap or secret",
		},
		{
			mistake: "a volume without a name", spec: "volumes: [{emptyDir: {}}]", field: "spec.volumes[0].name",
			says: "Required value",
			applied: ".spec.volumes: element 0: associative list with keys has an element that omits all key fields " +
				"[\"name\"] (and doesn't have default values for any key fields)",
		},
		{
			mistake: "two volumes of one name", spec: "volumes: [{name: a}, {name: a}]", field: "spec.volumes[1]",
			says:    "Duplicate value: {\"name\":\"a\"}",
			applied: ".spec.volumes: duplicate entries for key [name=\"a\"]",
		},
		{
			mistake: "no such kind of volume", spec: "volumes: [{name: a, config: {name: b}}]",
			says:    "unknown field \"spec.volumes[0].config\"",
			applied: ".spec.volumes[name=\"a\"].config: field not declared in schema",
		},
		{
			mistake: "a map of volumes", spec: "volumes: {a: {emptyDir: {}}}", says: "unknown field \"spec.volumes.a\"",
			applied: ".spec.volumes: expected list, got &{map[a:map[emptyDir:map[]]]}",
		},
		{
			mistake: "an emptyDir that says nothing more", before: "volumes: [{name: a, emptyDir: {sizeLimit: 1Gi}}]",
			spec:  "volumes: [{name: a, emptyDir: {}}]",
			field: "spec.volumes[0].emptyDir",
			says:  "Invalid value: \"null\": spec.volumes[0].emptyDir in body must be of type object: \"null\"",
		},
		{
			mistake: "too many volumes", spec: "volumes: " + items(65, "{name: v%d}"), show: "volumes: (65 items)",
			field: "spec.volumes", says: "Too many: 65: must have at most 64 items",
		},
		{
			mistake: "a mount without a path", spec: "volumes: [{name: a}]\nvolumeMounts: [{name: a}]",
			field: "spec.volumeMounts[0].mountPath", says: "Required value",
			applied: ".spec.volumeMounts: element 0: associative list with keys has an element that omits all key fields " +
				"[\"mountPath\"] (and doesn't have default values for any key fields)",
		},
		{
			mistake: "a mount without a volume's name", spec: "volumeMounts: [{mountPath: /a}]",
			field: "spec.volumeMounts[0].name", says: "Required value",
		},
		{
			mistake: "two mounts in one place",
			spec:    "volumes: [{name: a}]\nvolumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /a}]",
			field:   "spec.volumeMounts[1]", says: "Duplicate value: {\"mountPath\":\"/a\"}",
			applied: ".spec.volumeMounts: duplicate entries for key [mountPath=\"/a\"]",
		},
		{
			mistake: "a mount as in Docker", spec: `volumeMounts: ["a:/a"]`, field: "spec.volumeMounts[0]",
			says:    "Invalid value: \"string\": spec.volumeMounts[0] in body must be of type object: \"string\"",
			applied: ".spec.volumeMounts: element 0: associative list with keys may not have non-map elements",
		},
		{
			mistake: "too many mounts", spec: "volumes: [{name: a}]\nvolumeMounts: " + items(65, "{name: a, mountPath: /%d}"),
			show: "volumeMounts: (65 items)", field: "spec.volumeMounts", says: "Too many: 65: must have at most 64 items",
		},
	}},
}
