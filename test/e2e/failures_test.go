package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Bounds of what a failure tells.
const (
	// told is how many lines of a container's log are told, and repeated how many of each proxy's at the end of the run.
	told, repeated = 60, 6
	// longest is the longest text of one failure at the end of the run, in bytes.
	longest = 3000
	// telling is how long reading may take.
	telling = time.Minute
)

// The run repeats short texts of the stories that failed at its end: who reads on has only its last lines.
var _ = ReportAfterSuite("failures", func(all Report) {
	for _, report := range all.SpecReports.WithState(types.SpecStateFailureStates) {
		text := fmt.Sprintf("FAILED %s, at %s after %s: %s", report.FullText(), report.FailureLocation(),
			report.RunTime.Round(time.Second), report.FailureMessage())
		for _, entry := range report.ReportEntries {
			if entry.Name == proxiesSaid {
				text = cut(text) + "\n" + entry.StringRepresentation()
			}
		}
		GinkgoWriter.Printf("\n%s\n", cut(text)) // a process of several shows nothing else
	}
})

// proxiesSaid is the name of a report's entry.
const proxiesSaid = "the last that each proxy said"

// cut leaves the begin and the end of a text that is too long.
func cut(text string) string {
	if len(text) <= longest {
		return text
	}
	return text[:longest/2] + "\n[…]\n" + text[len(text)-longest/2:]
}

// tell tells what a person would look at: objects and their conditions, pods and their logs, and events.
func (s story) tell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, telling)
	defer cancel()
	pods, events := &corev1.PodList{}, &corev1.EventList{}
	for _, list := range []client.ObjectList{
		&v1alpha1.MCPServerList{}, &v1alpha1.MCPRemoteProxyList{}, &v1alpha1.MCPOIDCConfigList{},
		&v1alpha1.MCPAuthzConfigList{}, pods, events,
	} {
		if err := cluster.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			GinkgoWriter.Println(err)
			return
		}
		if list == client.ObjectList(pods) || list == client.ObjectList(events) {
			continue
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			object := o.(client.Object)
			object.SetManagedFields(nil)
			data, err := yaml.Marshal(object)
			GinkgoWriter.Printf("%T\n%s%v\n", object, data, err)
			return nil
		})
	}
	last := ""
	for i := range pods.Items {
		last += s.tellPod(ctx, &pods.Items[i])
	}
	for i := range events.Items {
		e := events.Items[i]
		GinkgoWriter.Printf("event %s %s %s: %s\n", e.Type, e.InvolvedObject.Name, e.Reason, e.Message)
	}
	if last != "" {
		AddReportEntry(proxiesSaid, last, ReportEntryVisibilityNever)
	}
}

// tellPod tells of one pod, and returns the last that it said if it is a proxy.
func (s story) tellPod(ctx context.Context, pod *corev1.Pod) (last string) {
	status, err := yaml.Marshal(pod.Status.ContainerStatuses)
	GinkgoWriter.Printf("pod %s %s %s\n%s%v\n", pod.Name, pod.Status.PodIP, pod.Status.Phase, status, err)
	for _, container := range pod.Status.ContainerStatuses {
		for _, previous := range []bool{true, false} {
			if previous && container.RestartCount == 0 {
				continue
			}
			data, err := logs.Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
				Container: container.Name, Previous: previous, TailLines: new(int64(told)), LimitBytes: new(int64(64 << 10)),
			}).Do(ctx).Raw()
			GinkgoWriter.Printf("log of %s, container %s, before its last start %t: %v\n%s\n", pod.Name, container.Name,
				previous, err, data)
			if pod.Labels[workload.LabelComponent] == proxy && !previous {
				lines := strings.Split(strings.TrimSpace(string(data)), "\n")
				last += pod.Name + " " + pod.Status.PodIP + "\n" + strings.Join(lines[max(0, len(lines)-repeated):], "\n") + "\n"
			}
		}
	}
	return last
}
