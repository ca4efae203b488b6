package backend

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// keyPatience is how long pods may have been made with a key that the runner does not have before they are replaced. It
// is longer than kubelets take to show all proxies the same Secret, which else would state theirs in turn. KeyPause is
// how often it is looked: a file that is mounted has no event.
const (
	keyPatience = 3 * time.Minute
	keyPause    = time.Minute
)

// stated is what is known of the key with which the pods of a slot were made.
type stated struct {
	// other is the sum that they have and none of the runner's keys, since is when that was seen first, and put is what
	// the runner has put in its place. It does so again after pause alone, longer each time: two runners whose Secrets
	// differ for good do not replace pods in turn, and what one that has ended left does not stay.
	other, put string
	since, at  time.Time
	pause      time.Duration
}

// takes reports whether the runner is to put its own sum in the place of the other, and notes it.
func (s *stated) takes(own string, now time.Time) bool {
	if now.Sub(s.since) < keyPatience || s.put == own && now.Sub(s.at) < s.pause {
		return false
	}
	if s.pause *= 2; s.put != own {
		s.pause = 10 * keyPatience
	}
	s.put, s.at = own, now
	return true
}

// proxySum is by what the bridges of a slot are to know the server's proxies: by what they know them already, where
// they have the same content, until that has been none of the Secret's keys for long. Without a key nothing new is
// made: it would answer nobody, or everybody.
func (r *Runner) proxySum(slot workload.Slot, live *appsv1.StatefulSet, content string) (sum string, err error) {
	if r.ProxySums == nil {
		return "", nil
	}
	has := ""
	if live != nil && live.Spec.Template.Annotations[workload.AnnotationBackendHash] == content {
		has = workload.ProxySum(live.Spec.Template.Spec)
	}
	sums, err := r.ProxySums()
	r.nextPass = apply.ShortestWait(r.nextPass, keyPause)
	switch {
	case err != nil && has != "":
		return has, nil // what runs goes on, and is repaired
	case err != nil:
		return "", &blocked{
			fmt.Sprintf("pods that answer this server's proxies alone cannot be made: %v: write one, as "+
				"docs/how-to/sessions.md describes", err), v1alpha1.ReasonBackendBlocked,
		}
	case has == "":
		delete(r.stated, slot)
		return sums[0], nil
	}
	s := r.stated[slot]
	switch {
	case slices.Contains(sums, has):
		s.other = ""
	case s.other != has:
		s.other, s.since = has, r.now()
	case s.takes(sums[0], r.now()):
		has = sums[0]
	}
	if r.stated == nil {
		r.stated = map[workload.Slot]stated{}
	}
	r.stated[slot] = s
	return has, nil
}
