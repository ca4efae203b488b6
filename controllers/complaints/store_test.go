package complaints

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/conditions"
)

var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

// says is an Event about a pod, which was said first and last at these times after noon.
func says(name, pod string, uid types.UID, reason, message string, first, last time.Duration) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "ns", Name: name},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: pod, UID: uid}, Type: corev1.EventTypeWarning,
		Reason: reason, Message: message, FirstTimestamp: metav1.NewTime(noon.Add(first)),
		LastTimestamp: metav1.NewTime(noon.Add(last)),
	}
}

// failed is a pod that failed at this time after noon.
func failed(uid types.UID, reason, message string, at time.Duration) *corev1.Pod {
	end := corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(noon.Add(at))}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "echo-backend-0", UID: uid, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodFailed, Reason: reason, Message: message,
			ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &end}}},
		},
	}
}

// shown are complaints in short.
func shown(all []conditions.Complaint) (texts []string) {
	for _, c := range all {
		texts = append(texts, fmt.Sprintf("%s %s %s %s %s: %s, %s to %s", c.Component, c.Pod, c.UID, c.Reason, c.Container,
			c.Words, c.First.Sub(noon), c.Last.Sub(noon)))
	}
	return texts
}

type keeping struct {
	events []client.Object // Events, and pods
	key    string
	want   []string
	news   int
}

// keeps is what is kept of Events, and how often that is news.
func keeps() map[string]keeping {
	evicted := func(name string, uid types.UID, at time.Duration) *corev1.Event {
		return says(name, "echo-backend-0", uid, "Evicted", "full", at, at)
	}
	mount := func(name, pod string, uid types.UID, first, last time.Duration) *corev1.Event {
		return says(name, pod, uid, "FailedMount", "no", first, last)
	}
	of := mount("a", "echo-backend-0", "1", 0, 0)
	of.InvolvedObject.FieldPath, of.Reason = "spec.containers{server}", "Unhealthy"
	series := says("a", "echo-proxy-7d9-x2x4z", "1", "FailedMount", "no", 0, 0)
	series.FirstTimestamp, series.LastTimestamp = metav1.Time{}, metav1.Time{}
	series.EventTime, series.Series = metav1.NewMicroTime(noon),
		&corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(noon.Add(time.Minute))}
	return map[string]keeping{
		"nothing":           {nil, "echo", nil, 0},
		"of no pod of ours": {[]client.Object{mount("a", "postgres-0", "1", 0, 0)}, "echo", nil, 0},
		"a container's": {
			[]client.Object{of},
			"echo",
			[]string{"backend echo-backend-0 1 Unhealthy server: no, 0s to 0s"},
			1,
		},
		"of a remote proxy": {
			[]client.Object{mount("a", "echo-proxy-remote-7d9-x2x4z", "1", 0, 0)},
			"echo.remote",
			[]string{"proxy echo-proxy-remote-7d9-x2x4z 1 FailedMount : no, 0s to 0s"},
			1,
		},
		"an Event of later kind": {
			[]client.Object{series},
			"echo",
			[]string{"proxy echo-proxy-7d9-x2x4z 1 FailedMount : no, 0s to 1m0s"},
			1,
		},
		"said again, which is news once it lasts": {
			[]client.Object{
				mount("a", "echo-backend-0", "1", 0, 0), mount("a", "echo-backend-0", "1", 0, 9*time.Second),
				mount("a", "echo-backend-0", "1", 0, 10*time.Second), mount("a", "echo-backend-0", "1", 0, time.Minute),
			},
			"echo",
			[]string{"backend echo-backend-0 1 FailedMount : no, 0s to 1m0s"},
			2,
		},
		"of two pods": {
			[]client.Object{mount("b", "echo-backend-1", "2", 0, 0), mount("a", "echo-backend-0", "1", 0, 0)},
			"echo",
			[]string{
				"backend echo-backend-0 1 FailedMount : no, 0s to 0s",
				"backend echo-backend-1 2 FailedMount : no, 0s to 0s",
			},
			2,
		},
		"pods that are evicted one after another": {
			[]client.Object{evicted("a", "1", 0), evicted("b", "2", time.Minute), evicted("c", "3", 10*time.Minute)},
			"echo",
			[]string{"backend echo-backend-0 3 Evicted : full, 0s to 10m0s"},
			3,
		},
		"in another order": {
			[]client.Object{evicted("c", "3", 10*time.Minute), evicted("a", "1", 0)},
			"echo",
			[]string{"backend echo-backend-0 3 Evicted : full, 10m0s to 10m0s"},
			1,
		},
		"a pod that was evicted, of which no Event tells": {
			[]client.Object{failed("1", "Evicted", "full", 0), failed("2", "Evicted", "full", time.Minute)},
			"echo",
			[]string{"backend echo-backend-0 2 Evicted : full, 0s to 1m0s"},
			2,
		},
		"of which an Event tells as well": {
			[]client.Object{failed("1", "Evicted", "full", 3*time.Second), evicted("a", "1", 0)},
			"echo",
			[]string{"backend echo-backend-0 1 Evicted : full, 3s to 3s"},
			1,
		},
		"of which an Event has told": {
			[]client.Object{evicted("a", "1", 0), failed("1", "Evicted", "full", 3*time.Second)},
			"echo",
			[]string{"backend echo-backend-0 1 Evicted : full, 0s to 0s"},
			1,
		},
		"a pod that kubelet did not take": {
			[]client.Object{
				failed("1", "NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed", 0),
				says("a", "echo-backend-0", "1", "NodeAffinity", "Predicate NodeAffinity failed", 0, 0),
			},
			"echo",
			[]string{"backend echo-backend-0 1 NodeAffinity : Predicate NodeAffinity failed, 0s to 0s"},
			1,
		},
		"a pod that failed by itself": {[]client.Object{failed("1", "DeadlineExceeded", "late", 0)}, "echo", nil, 0},
		"and after a lull": {
			[]client.Object{evicted("a", "1", 0), evicted("b", "2", time.Minute), evicted("c", "3", 11*time.Minute)},
			"echo",
			[]string{"backend echo-backend-0 3 Evicted : full, 11m0s to 11m0s"},
			3,
		},
		"a name that is none": {
			[]client.Object{mount("a", strings.Repeat("x", 300)+"-backend-0", "1", 0, 0)},
			strings.Repeat("x", 300), nil, 0,
		},
	}
}

func TestWhatIsKept(t *testing.T) {
	for name, tc := range keeps() {
		t.Run(name, func(t *testing.T) {
			s, news := &Store{}, 0
			s.OnNews(func(_, key string) {
				if key != tc.key {
					t.Errorf("%s is woken", key)
				}
				news++
			})
			for _, o := range tc.events {
				switch o := o.(type) {
				case *corev1.Event:
					s.add(o)
				case *corev1.Pod:
					s.OfPods().OnUpdate(nil, o)
				}
			}
			if diff := cmp.Diff(tc.want, shown(s.Of("ns", tc.key))); diff != "" || news != tc.news {
				t.Errorf("%d are news, want %d (-want +got):\n%s", news, tc.news, diff)
			}
			if other := s.Of("other", tc.key); other != nil {
				t.Errorf("of another namespace it keeps %v", other)
			}
		})
	}
	if (*Store)(nil).Of("ns", "echo") != nil {
		t.Error("no Store keeps something")
	}
}

// Whoever may create Events in a namespace has no more of the operator's memory than that,
// and what was said last stays.
func TestWhatIsKeptIsBounded(t *testing.T) {
	s := &Store{}
	sum := func() (size int) {
		for _, all := range s.namespaces {
			for i := range all {
				size += all[i].size()
			}
		}
		return size
	}
	said := 0
	say := func(namespace, server string) {
		said++
		at := time.Duration(said) * time.Second
		e := says(fmt.Sprint("e", said), server+"-backend-0", "1", "FailedMount",
			fmt.Sprint(said, " ", strings.Repeat("x", 2000)), at, at)
		e.Namespace = namespace
		s.add(e)
		if all := s.Of(namespace, server); !slices.ContainsFunc(all,
			func(c conditions.Complaint) bool { return strings.HasPrefix(c.Words, fmt.Sprint(said, " ")) }) {
			t.Fatalf("%s/%s: what was said last is gone", namespace, server)
		}
	}
	for range 100 {
		say("ns", "echo")
	}
	if s.size > mostOfServer || s.size < mostOfServer/2 {
		t.Errorf("of one server %d bytes are kept", s.size)
	}
	for i := range 500 {
		say("ns", fmt.Sprint("s", i))
	}
	if s.size > mostOfNamespace || s.size < mostOfNamespace/2 {
		t.Errorf("of one namespace %d bytes are kept", s.size)
	}
	say("victim", "echo")
	for n := range 40 {
		for i := range 170 {
			say(fmt.Sprint("flood-", n), fmt.Sprint("s", i))
		}
	}
	if s.size != sum() {
		t.Errorf("it counts %d bytes, and keeps %d", s.size, sum())
	}
	if s.size > mostOfAll || s.size < mostOfAll/2 {
		t.Errorf("of all %d bytes are kept", s.size)
	}
	if len(s.Of("victim", "echo")) != 1 {
		t.Error("a namespace that says little is forgotten")
	}
}

// An Event that has expired says nothing any more, and neither does one that went while the watch was down.
func TestWhatExpiresGoes(t *testing.T) {
	s := &Store{}
	all, one := scope{s, ""}, scope{s, "ns"}
	a, b := says("a", "echo-backend-0", "1", "FailedMount", "a", 0, 0),
		says("b", "echo-backend-0", "1", "FailedMount", "b", 0, 0)
	elsewhere := says("a", "echo-backend-0", "1", "FailedMount", "a", 0, 0)
	elsewhere.Namespace = "other"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(ofNS, ofOther int) {
		t.Helper()
		if x, y := len(s.Of("ns", "echo")), len(s.Of("other", "echo")); x != ofNS || y != ofOther {
			t.Fatalf("kept are %d and %d, want %d and %d", x, y, ofNS, ofOther)
		}
	}
	must(all.Replace([]any{a, b, elsewhere}, "1"))
	expect(2, 1)
	must(all.Delete(a))
	expect(1, 1)
	must(one.Replace([]any{a}, "2"))
	expect(1, 1)
	must(all.Update(b))
	expect(2, 1)
	must(all.Replace(nil, "3"))
	expect(0, 0)
	s.OfPods().OnDelete(toolscache.DeletedFinalStateUnknown{Obj: failed("1", "Evicted", "full", 0)})
	must(all.Replace(nil, "4")) // no Event has said it
	expect(1, 0)
	must(all.Replace([]any{says("c", "echo-backend-0", "2", "Evicted", "full", time.Minute, time.Minute)}, "5"))
	must(all.Replace(nil, "6"))
	expect(0, 0)
	if s.size != 0 || len(s.namespaces) != 0 {
		t.Errorf("of nothing it keeps %d bytes", s.size)
	}
}

// What is counted is no less than what it takes, with little to say in each, too.
func TestTheCountIsThatOfTheMemory(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, words := range []int{8, 1000} {
		s, before := &Store{}, heap()
		for i := 0; s.size < mostOfAll-2*overhead && i < 20000; i++ {
			e := says(fmt.Sprint("e", i), fmt.Sprint("s", i, "-backend-0"), "1", "FailedMount",
				fmt.Sprint(i, strings.Repeat("x", words)), 0, 0)
			e.Namespace = fmt.Sprint("ns-", i%40)
			s.add(e)
		}
		if taken := heap() - before; taken > int64(s.size)*5/4 {
			t.Errorf("with %d words it counts %d bytes, and takes %d", words, s.size, taken)
		} else {
			t.Logf("with %d words it counts %d bytes, and takes %d", words, s.size, taken)
		}
		runtime.KeepAlive(s)
	}
}
