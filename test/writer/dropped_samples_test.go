package writer

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// sample is a valid value of a field that is not its default.
type sample struct {
	// text is the value in YAML; empty for one that follows from the type.
	text string
	// with is what must stand beside it.
	with string
	// pod is what the pod's spec must have, also without it.
	pod string
	// flat says that the value is one to server-side apply: what is in it is not tried.
	flat bool
	// alone are fields that must not stand beside it.
	alone []string
	// never says why a template of ours has no such field.
	never string
}

// value is what the field is set to.
func (s sample) value(t *testing.T, at string, is reflect.Type) any {
	t.Helper()
	if s.text != "" {
		var out any
		if err := yaml.Unmarshal([]byte(s.text), &out); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		return whole(out)
	}
	switch {
	case is == reflect.TypeFor[resource.Quantity]():
		return "1"
	case is == reflect.TypeFor[intstr.IntOrString]():
		return int64(1)
	}
	switch is.Kind() {
	case reflect.String:
		return "a"
	case reflect.Bool:
		return true
	case reflect.Int32, reflect.Int64:
		return int64(1)
	case reflect.Map:
		return map[string]any{"a": "a"}
	case reflect.Slice:
		if is.Elem().Kind() == reflect.String {
			return []any{"a"}
		}
		return []any{map[string]any{}}
	case reflect.Struct:
		return map[string]any{}
	}
	t.Fatalf("%s has no sample", at)
	return nil
}

// unions are the members of which an object has one.
var unions = map[string][]string{
	"VolumeSource":     {"emptyDir"},
	"VolumeProjection": {"configMap"},
	"ProbeHandler":     {"tcpSocket"},
	"LifecycleHandler": {"sleep"},
	"EnvVarSource":     {"fieldRef"},
}

const (
	elsewhere = "a template of ours has labels and annotations alone"
	refused   = "an overlay that states it is refused"
	gated     = "is behind a feature gate that is off"
	onlyOne   = "takes the one value that is its default"
)

var samples = map[string]sample{
	"PodTemplateSpec.metadata":              {text: "{annotations: {a: a}}"},
	"ObjectMeta.name":                       {never: elsewhere},
	"ObjectMeta.generateName":               {never: elsewhere},
	"ObjectMeta.namespace":                  {never: elsewhere},
	"ObjectMeta.selfLink":                   {never: elsewhere},
	"ObjectMeta.uid":                        {never: elsewhere},
	"ObjectMeta.resourceVersion":            {never: elsewhere},
	"ObjectMeta.generation":                 {never: elsewhere},
	"ObjectMeta.creationTimestamp":          {never: elsewhere},
	"ObjectMeta.deletionTimestamp":          {never: elsewhere},
	"ObjectMeta.deletionGracePeriodSeconds": {never: elsewhere},
	"ObjectMeta.ownerReferences":            {never: elsewhere},
	"ObjectMeta.finalizers":                 {never: elsewhere},
	"ObjectMeta.managedFields":              {never: elsewhere},

	"PodSpec.volumes":               {text: "[{name: a, emptyDir: {}}]"},
	"PodSpec.initContainers":        {text: "[{name: init, image: 'echo:1'}]"},
	"PodSpec.ephemeralContainers":   {never: refused},
	"PodSpec.restartPolicy":         {never: onlyOne},
	"PodSpec.activeDeadlineSeconds": {never: refused},
	"PodSpec.dnsPolicy":             {text: "Default"},
	"PodSpec.serviceAccount":        {never: refused},
	"PodSpec.securityContext":       {text: "{runAsNonRoot: true}"},
	"PodSpec.imagePullSecrets":      {text: "[{name: a}]"},
	"PodSpec.affinity": {
		text: "{podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, labelSelector: " +
			"{matchLabels: {a: a}}}]}}",
	},
	"PodSpec.tolerations":        {text: "[{key: a, operator: Exists}]", flat: true},
	"PodSpec.hostAliases":        {text: "[{ip: 10.0.0.1, hostnames: [a]}]"},
	"PodSpec.dnsConfig":          {text: "{nameservers: [10.0.0.1]}"},
	"PodSpec.readinessGates":     {text: "[{conditionType: a}]", flat: true},
	"PodSpec.enableServiceLinks": {text: "false"},
	"PodSpec.preemptionPolicy":   {text: "Never"},
	"PodSpec.overhead":           {text: "{cpu: '1'}"},
	"PodSpec.topologySpreadConstraints": {
		text: "[{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: a}}}]",
	},
	"PodSpec.os":                                 {text: "{name: linux}"},
	"PodSpec.hostUsers":                          {text: "false"},
	"PodSpec.schedulingGates":                    {text: "[{name: a}]"},
	"PodSpec.resourceClaims":                     {text: "[{name: a, resourceClaimName: a}]"},
	"PodSpec.resources":                          {text: "{requests: {cpu: '1'}}"},
	"PodSpec.schedulingGroup":                    {never: gated},
	"PodSpec.evictionResponders":                 {never: gated},
	"PodResourceClaim.resourceClaimTemplateName": {alone: []string{"resourceClaimName"}},

	"Affinity.nodeAffinity": {
		text: "{preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, " +
			"operator: Exists}]}}]}",
	},
	"Affinity.podAntiAffinity": {
		text: "{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, labelSelector: {matchLabels: {a: a}}}]}",
	},
	"NodeAffinity.requiredDuringSchedulingIgnoredDuringExecution": {
		text: "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}", flat: true,
	},
	"NodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": {flat: true},
	"PodAffinity.requiredDuringSchedulingIgnoredDuringExecution":   {flat: true},
	"PodAffinity.preferredDuringSchedulingIgnoredDuringExecution": {
		text: "[{weight: 1, podAffinityTerm: {topologyKey: a, labelSelector: {matchLabels: {a: a}}}}]", flat: true,
	},
	"PodAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution": {flat: true},
	"PodAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution": {
		text: "[{weight: 1, podAffinityTerm: {topologyKey: a, labelSelector: {matchLabels: {a: a}}}}]", flat: true,
	},
	"PodDNSConfig.options":                        {text: "[{name: a, value: a}]", flat: true},
	"TopologySpreadConstraint.maxSkew":            {text: "2"},
	"TopologySpreadConstraint.minDomains":         {text: "2"},
	"TopologySpreadConstraint.whenUnsatisfiable":  {text: "ScheduleAnyway"},
	"TopologySpreadConstraint.labelSelector":      {flat: true},
	"TopologySpreadConstraint.nodeAffinityPolicy": {text: "Ignore"},
	"TopologySpreadConstraint.nodeTaintsPolicy":   {text: "Honor"},

	"PodSecurityContext.supplementalGroups":       {text: "[1]"},
	"PodSecurityContext.supplementalGroupsPolicy": {text: "Strict"},
	"PodSecurityContext.fsGroupChangePolicy":      {text: "OnRootMismatch"},
	"PodSecurityContext.seLinuxChangePolicy":      {text: "Recursive"},
	"PodSecurityContext.sysctls":                  {text: "[{name: a, value: a}]", flat: true},
	"PodSecurityContext.seLinuxOptions":           {text: "{level: a}"},
	"PodSecurityContext.windowsOptions":           {text: "{runAsUserName: a}"},
	"PodSecurityContext.seccompProfile":           {text: "{type: RuntimeDefault}"},
	"PodSecurityContext.appArmorProfile":          {text: "{type: RuntimeDefault}"},
	"WindowsSecurityContextOptions.hostProcess":   {never: "is refused, for it is outside baseline"},
	"SeccompProfile.type":                         {text: "Unconfined"},
	"SeccompProfile.localhostProfile":             {with: "{type: Localhost}"},
	"AppArmorProfile.type":                        {text: "Unconfined"},
	"AppArmorProfile.localhostProfile":            {with: "{type: Localhost}"},
	"SecurityContext.capabilities":                {text: "{add: [a]}"},
	"SecurityContext.seLinuxOptions":              {text: "{level: a}"},
	"SecurityContext.windowsOptions":              {text: "{runAsUserName: a}"},
	"SecurityContext.seccompProfile":              {text: "{type: RuntimeDefault}"},
	"SecurityContext.appArmorProfile":             {text: "{type: RuntimeDefault}"},
	"SecurityContext.procMount":                   {text: "Unmasked", pod: "{hostUsers: false}"},

	"Container.image":               {text: "echo:latest"},
	"Container.ports":               {text: "[{containerPort: 8080, protocol: TCP}]"},
	"ContainerPort.containerPort":   {text: "8081"},
	"ContainerPort.protocol":        {text: "UDP"},
	"ContainerPort.hostIP":          {text: "10.0.0.1"},
	"Container.envFrom":             {text: "[{configMapRef: {name: a}}]"},
	"EnvFromSource.secretRef":       {text: "{name: a}", alone: []string{"configMapRef"}},
	"Container.env":                 {text: "[{name: a, value: a}]"},
	"EnvVar.value":                  {text: "b"},
	"EnvVar.valueFrom":              {text: "{fieldRef: {fieldPath: metadata.name}}", alone: []string{"value"}},
	"EnvVarSource.resourceFieldRef": {text: "{resource: limits.cpu}"},
	"EnvVarSource.configMapKeyRef":  {text: "{name: a, key: a}"},
	"EnvVarSource.secretKeyRef":     {text: "{name: a, key: a}"},
	"EnvVarSource.fileKeyRef": {
		text: "{volumeName: a, path: a, key: a}",
		pod:  "{volumes: [{name: a, emptyDir: {}}]}",
	},
	"ObjectFieldSelector.apiVersion":      {never: onlyOne},
	"ResourceFieldSelector.containerName": {text: "server"},
	"ResourceFieldSelector.divisor":       {text: "1m"},
	"Container.resources":                 {text: "{requests: {cpu: '1'}}"},
	"ResourceRequirements.limits":         {text: "{cpu: '1'}"},
	"ResourceRequirements.claims": {
		text: "[{name: a}]",
		pod:  "{resourceClaims: [{name: a, resourceClaimName: a}]}",
	},
	"Container.resizePolicy":  {text: "[{resourceName: cpu, restartPolicy: RestartContainer}]", flat: true},
	"Container.restartPolicy": {text: "Never"},
	"Container.restartPolicyRules": {
		text: "[{action: Restart, exitCodes: {operator: In, values: [1]}}]",
		with: "{restartPolicy: Never}", flat: true,
	},
	"Container.volumeMounts": {
		text: "[{name: a, mountPath: /a}]",
		pod:  "{volumes: [{name: a, emptyDir: {}}]}",
	},
	"VolumeMount.recursiveReadOnly": {text: "IfPossible", with: "{readOnly: true}"},
	"VolumeMount.mountPropagation":  {text: "HostToContainer"},
	"VolumeMount.bindMountOptions":  {never: gated},
	"Container.volumeDevices": {
		text: "[{name: a, devicePath: /a}]",
		pod:  "{volumes: [{name: a, persistentVolumeClaim: {claimName: a}}]}",
	},
	"Container.livenessProbe":            {text: "{tcpSocket: {port: 1}}"},
	"Container.readinessProbe":           {text: "{tcpSocket: {port: 1}}"},
	"Container.startupProbe":             {text: "{tcpSocket: {port: 1}}"},
	"Probe.timeoutSeconds":               {text: "2"},
	"Probe.periodSeconds":                {text: "2"},
	"Probe.successThreshold":             {never: "of a liveness probe is 1, and a number as failureThreshold is"},
	"ProbeHandler.exec":                  {text: "{command: [a]}"},
	"ProbeHandler.httpGet":               {text: "{port: 1}"},
	"ProbeHandler.grpc":                  {text: "{port: 1}"},
	"HTTPGetAction.scheme":               {text: "HTTPS"},
	"HTTPGetAction.httpHeaders":          {text: "[{name: a, value: a}]", flat: true},
	"HTTPGetAction.port":                 {text: "2"},
	"Container.lifecycle":                {text: "{preStop: {sleep: {seconds: 1}}}"},
	"Lifecycle.postStart":                {text: "{sleep: {seconds: 1}}"},
	"Lifecycle.stopSignal":               {never: gated},
	"LifecycleHandler.exec":              {text: "{command: [a]}"},
	"LifecycleHandler.httpGet":           {text: "{port: 1}"},
	"LifecycleHandler.tcpSocket":         {text: "{port: 1}"},
	"Container.terminationMessagePath":   {text: "/a"},
	"Container.terminationMessagePolicy": {text: "FallbackToLogsOnError"},
	"Container.imagePullPolicy":          {text: "Never"},
	"Container.securityContext":          {text: "{runAsUser: 1}"},

	"VolumeSource.hostPath":             {text: "{path: /a}"},
	"HostPathVolumeSource.type":         {text: "Directory"},
	"EmptyDirVolumeSource.medium":       {text: "Memory"},
	"VolumeSource.gcePersistentDisk":    {text: "{pdName: a}"},
	"VolumeSource.awsElasticBlockStore": {text: "{volumeID: a}"},
	"VolumeSource.gitRepo":              {text: "{repository: a}"},
	"VolumeSource.secret":               {text: "{secretName: a}"},
	"SecretVolumeSource.items":          {text: "[{key: a, path: a}]", flat: true},
	"SecretVolumeSource.defaultMode":    {text: "256"},
	"VolumeSource.nfs":                  {text: "{server: a, path: /a}"},
	"VolumeSource.iscsi": {
		text: "{targetPortal: 10.0.0.1, iqn: 'iqn.2001-04.com.example:a', lun: 1}",
	},
	"ISCSIVolumeSource.iqn":                 {text: "'iqn.2001-04.com.example:b'"},
	"ISCSIVolumeSource.lun":                 {text: "2"},
	"ISCSIVolumeSource.chapAuthDiscovery":   {with: "{secretRef: {name: a}}"},
	"ISCSIVolumeSource.chapAuthSession":     {with: "{secretRef: {name: a}}"},
	"ISCSIVolumeSource.initiatorName":       {text: "'iqn.2001-04.com.example:c'"},
	"ISCSIVolumeSource.secretRef":           {text: "{name: a}"},
	"VolumeSource.glusterfs":                {text: "{endpoints: a, path: a}"},
	"VolumeSource.persistentVolumeClaim":    {text: "{claimName: a}"},
	"VolumeSource.rbd":                      {text: "{monitors: [a], image: a}"},
	"RBDVolumeSource.secretRef":             {text: "{name: a}"},
	"VolumeSource.flexVolume":               {text: "{driver: a}"},
	"FlexVolumeSource.secretRef":            {text: "{name: a}"},
	"VolumeSource.cinder":                   {text: "{volumeID: a}"},
	"CinderVolumeSource.secretRef":          {text: "{name: a}"},
	"VolumeSource.cephfs":                   {text: "{monitors: [a]}"},
	"CephFSVolumeSource.secretRef":          {text: "{name: a}"},
	"VolumeSource.flocker":                  {text: "{datasetName: a}"},
	"FlockerVolumeSource.datasetUUID":       {alone: []string{"datasetName"}},
	"VolumeSource.downwardAPI":              {text: "{items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}"},
	"DownwardAPIVolumeSource.items":         {flat: true},
	"DownwardAPIVolumeSource.defaultMode":   {text: "256"},
	"VolumeSource.fc":                       {text: "{targetWWNs: [a], lun: 1}"},
	"FCVolumeSource.lun":                    {text: "2"},
	"FCVolumeSource.wwids":                  {alone: []string{"targetWWNs", "lun"}},
	"VolumeSource.azureFile":                {text: "{secretName: a, shareName: a}"},
	"VolumeSource.configMap":                {text: "{name: a}"},
	"ConfigMapVolumeSource.items":           {text: "[{key: a, path: a}]", flat: true},
	"ConfigMapVolumeSource.defaultMode":     {text: "256"},
	"VolumeSource.vsphereVolume":            {text: "{volumePath: a}"},
	"VolumeSource.quobyte":                  {text: "{registry: 'a:1', volume: a}"},
	"QuobyteVolumeSource.registry":          {text: "'b:1'"},
	"VolumeSource.azureDisk":                {text: "{diskName: a, diskURI: 'https://a.blob.core.windows.net/a/a.vhd'}"},
	"AzureDiskVolumeSource.diskURI":         {text: "'https://b.blob.core.windows.net/a/a.vhd'"},
	"AzureDiskVolumeSource.kind":            {text: "Dedicated"},
	"AzureDiskVolumeSource.cachingMode":     {text: "None"},
	"VolumeSource.photonPersistentDisk":     {text: "{pdID: a}"},
	"VolumeSource.projected":                {text: "{sources: [{configMap: {name: a}}]}"},
	"ProjectedVolumeSource.sources":         {text: "[{serviceAccountToken: {path: a}}]", flat: true},
	"ProjectedVolumeSource.defaultMode":     {text: "256"},
	"VolumeSource.portworxVolume":           {text: "{volumeID: a}"},
	"VolumeSource.scaleIO":                  {text: "{gateway: a, system: a, secretRef: {name: a}, volumeName: a}"},
	"ScaleIOVolumeSource.secretRef":         {text: "{name: b}"},
	"ScaleIOVolumeSource.storageMode":       {text: "ThickProvisioned"},
	"VolumeSource.storageos":                {text: "{volumeName: a}"},
	"StorageOSVolumeSource.volumeNamespace": {text: "b"},
	"StorageOSVolumeSource.secretRef":       {text: "{name: a}"},
	"VolumeSource.csi":                      {text: "{driver: a}"},
	"CSIVolumeSource.nodePublishSecretRef":  {text: "{name: a}"},
	"VolumeSource.ephemeral": {
		text: "{volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: '1'}}}}}",
	},
	"PersistentVolumeClaimTemplate.metadata":  {text: "{labels: {a: a}}"},
	"PersistentVolumeClaimSpec.accessModes":   {text: "[ReadWriteMany]"},
	"PersistentVolumeClaimSpec.selector":      {text: "{matchLabels: {a: a}}", flat: true},
	"PersistentVolumeClaimSpec.volumeMode":    {text: "Block"},
	"PersistentVolumeClaimSpec.dataSource":    {text: "{kind: PersistentVolumeClaim, name: a}"},
	"PersistentVolumeClaimSpec.dataSourceRef": {text: "{kind: PersistentVolumeClaim, name: a}"},
	"TypedLocalObjectReference.apiGroup":      {flat: true, text: "a.example.com", with: "{kind: A}"},
	"TypedObjectReference.apiGroup":           {text: "a.example.com", with: "{kind: A}"},
	"TypedObjectReference.namespace":          {never: gated},
	"VolumeResourceRequirements.limits":       {text: "{storage: '2'}"},
	"VolumeSource.image":                      {text: "{reference: 'a:1'}"},
	"ImageVolumeSource.reference":             {text: "'a:latest'"},
	"ImageVolumeSource.pullPolicy":            {text: "Never"},
}
