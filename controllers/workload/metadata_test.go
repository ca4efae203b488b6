package workload

import (
	"encoding/json"
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// demanding is a release in a cluster that asks something of every object.
var demanding = podtemplate.ObjectDefaults{
	Labels:        map[string]string{"team": "platform", "tier": "mcp"},
	Annotations:   map[string]string{"example.com/owner": "a@example.com"},
	InheritLabels: []string{"team"},
}

// metadataOf is what an intent says of itself, and of its pods.
func metadataOf(t *testing.T, intent any) (object, pods metav1.ObjectMeta) {
	t.Helper()
	var written struct {
		Metadata metav1.ObjectMeta
		Spec     struct {
			Selector any
			Template struct{ Metadata metav1.ObjectMeta }
		}
	}
	data, err := json.Marshal(intent)
	if err == nil {
		err = json.Unmarshal(data, &written)
	}
	if err != nil {
		t.Fatal(err)
	}
	return written.Metadata, written.Spec.Template.Metadata
}

func TestEveryObjectCarriesWhatTheReleaseAsksFor(t *testing.T) {
	server := read(t, "full")
	server.Status.Workload = &v1alpha1.WorkloadStatus{}
	plain := objects(t, server)
	asked := options
	asked.Objects = demanding
	server.Labels = map[string]string{"team": "blue", "tier": "own"}
	server.Status.Workload = &v1alpha1.WorkloadStatus{
		Labels:      demanding.Of(server).Labels,
		Annotations: demanding.Annotations,
	}
	for name, intent := range objectsWith(t, server, asked) {
		meta, pods := metadataOf(t, intent)
		if meta.Labels["team"] != "blue" || meta.Labels["tier"] != "mcp" ||
			meta.Annotations["example.com/owner"] != "a@example.com" {
			t.Errorf("%s has labels %v and annotations %v", name, meta.Labels, meta.Annotations)
		}
		was, podsWere := metadataOf(t, plain[name])
		for key, value := range was.Labels {
			if meta.Labels[key] != value {
				t.Errorf("%s lost label %s: %q", name, key, meta.Labels[key])
			}
		}
		if !maps.Equal(pods.Labels, podsWere.Labels) || !maps.Equal(pods.Annotations, podsWere.Annotations) {
			t.Errorf("the pods of %s changed: %v", name, pods)
		}
	}
}

// What replaces pods is content, and this is none.
func TestWhatObjectsCarryIsNoContent(t *testing.T) {
	server := read(t, "full")
	asked := options
	asked.Objects = demanding
	if got, want := render(server, asked), render(server, options); got.Hash != want.Hash || got.OwnHash != want.OwnHash {
		t.Errorf("the hash is %s, and was %s", got.Hash, want.Hash)
	}
}

func TestTheLabelsOfTheProxysServiceWin(t *testing.T) {
	server := serverWith(t, "proxy: {service: {labels: {team: own}, annotations: {example.com/owner: me}}}")
	meta, _ := metadataOf(t, ProxyService(OwnerWith(server, demanding), server.Spec.Proxy))
	if meta.Labels["team"] != "own" || meta.Labels["tier"] != "mcp" || meta.Annotations["example.com/owner"] != "me" {
		t.Errorf("%v, %v", meta.Labels, meta.Annotations)
	}
}

// Whoever may write the status gets no pods of other servers with it.
func TestARecordGivesNoneOfOurLabels(t *testing.T) {
	server := read(t, "minimal")
	server.Status.Workload = &v1alpha1.WorkloadStatus{
		Labels:      map[string]string{LabelServer: "other"},
		Annotations: map[string]string{"freehold.dev/adopt": "true"},
	}
	meta, _ := metadataOf(t, Described(BackendService(sound(t, server, options).Content, Slot1), RunnersObjects(server)))
	if meta.Labels[LabelServer] != server.Name || meta.Annotations["freehold.dev/adopt"] != "" {
		t.Errorf("%v, %v", meta.Labels, meta.Annotations)
	}
}
