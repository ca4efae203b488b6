package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/freehold-dev/freehold/test/kit"
)

// struck are the parts of a life, by name, in which something is killed. Each has at least so many writes.
var struck = map[string]int{"create": 6, "update": 4, "delete": 3}

// What Freehold stands on goes away in the middle of each thing that it does.
var _ = Describe("A life goes on after", func() {
	DescribeTable("the death of", func(name string, process func() *kit.Process) {
		random := chance(name, 0)
		// Operator, kube-controller-manager and kubelet each may list again late.
		s := newEnv().Patient(2 * kit.Patience)
		back := make(chan struct{})
		t := &trap{spring: func(*http.Request) {
			defer GinkgoRecover()
			Expect(process().Kill()).To(Succeed())
			back = make(chan struct{})
			go func() {
				defer GinkgoRecover()
				defer close(back)
				time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond) // for so long it is away
				Expect(process().Start(s.Ctx)).To(Succeed())
			}()
		}}
		operate(s, func(o *operator) {
			o.wire = func(config *rest.Config) <-chan struct{} { kit.Through(config, t.carry); return nil }
		})
		s.RunProxies()
		echo := newLife(s, "echo")
		for _, p := range whole {
			if most := struck[p.name]; most > 0 {
				at, before := 1+random.IntN(most), random.IntN(2) == 0
				GinkgoWriter.Printf("FREEHOLD_SEED=%d: %s dies at write %d of %s, before it: %t\n", seed, name, at, p.name, before)
				sprung := t.arm(at, before)
				p.change(echo)
				Eventually(sprung).Should(BeClosed(), "%s has not died in part %s", name, p.name)
				Eventually(back, 2*kit.Patience).Should(BeClosed())
				serves(s)
			} else {
				p.change(echo)
			}
			p.came(echo)
		}
	},
		Entry("the API server", "kube-apiserver", func() *kit.Process { return plane.APIServer }),
		Entry("etcd", "etcd", func() *kit.Process { return plane.Etcd }),
	)

	It("etcd that stands still again and again", func() {
		random := chance("slow", 0)
		s := newEnv()
		operate(s)
		s.RunProxies()
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(stopped)
			for {
				Expect(plane.Etcd.Pause()).To(Succeed())
				time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
				Expect(plane.Etcd.Resume()).To(Succeed())
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(random.IntN(200)) * time.Millisecond):
				}
			}
		}()
		DeferCleanup(func() { close(stop); <-stopped })
		newLife(s, "echo").live(whole)
	})

	// etcd's own limit, which raises its alarm NOSPACE: it goes on to read and to delete. A file system without room,
	// ENOSPC, ends etcd, which is told above as its death.
	It("a full disk under etcd", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		echo := newLife(s, "echo")
		echo.create()
		echo.grown()
		op.stop()

		limited(s, 4<<20)
		echo.update()
		fillers := fill(s)
		mark, since := op.requests.Mark(), time.Now()
		op.start()
		refused := func() kit.Log { return op.requests.Since(mark).Writes().Answered(http.StatusInternalServerError) }
		Eventually(refused).ShouldNot(BeEmpty(), "the disk was not full")
		time.Sleep(2 * time.Second) // long enough for a loop without a pause to be seen
		GinkgoWriter.Printf("in %s on a full disk: %s", time.Since(since), op.requests.Since(mark).Writes())
		// A retry each 5 ms, 10 ms, 20 ms and so on, of a write or two each.
		Expect(len(refused())).To(BeNumerically("<=", 2*12), "%s", refused())

		for _, filler := range fillers {
			echo.insist("making room", func() error { return s.Client.Delete(s.Ctx, filler) })
		}
		makeRoom(s)
		echo.converged()
		Expect(plane.Etcd.Kill()).To(Succeed())
		Expect(plane.Etcd.Start(s.Ctx)).To(Succeed())
		serves(s)
		echo.remove()
		echo.ended()
	})
})

// serves waits until the API server reads and writes again.
func serves(s *kit.Env) {
	GinkgoHelper()
	Expect(plane.APIServer.Serves(s.Ctx)).To(Succeed())
	Eventually(func() error {
		_, err := s.ApplyErr("kit", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: serves}\n")
		return err
	}).Should(Succeed())
}

// limited gives etcd so much room beside what it has.
func limited(s *kit.Env, room int64) {
	GinkgoHelper()
	var answer struct {
		Size string `json:"dbSize"`
	}
	ask(s, "/v3/maintenance/status", map[string]any{}, &answer)
	size, err := strconv.ParseInt(answer.Size, 10, 64)
	Expect(err).NotTo(HaveOccurred())
	Expect(plane.Etcd.Kill()).To(Succeed())
	Expect(plane.Etcd.Start(s.Ctx, fmt.Sprintf("--quota-backend-bytes=%d", size+room))).To(Succeed())
	serves(s)
}

// fill makes objects until there is no room for one more.
func fill(s *kit.Env) []*corev1.ConfigMap {
	GinkgoHelper()
	var fillers []*corev1.ConfigMap
	for size := 900_000; size > 100; {
		filler := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("filler-%d", len(fillers)), Namespace: s.Namespace},
			Data:       map[string]string{"x": strings.Repeat("x", size)},
		}
		err := s.Client.Create(s.Ctx, filler)
		if err == nil {
			fillers = append(fillers, filler)
			Expect(len(fillers)).To(BeNumerically("<", 100), "etcd does not become full")
			continue
		}
		Expect(err).To(MatchError(ContainSubstring("database space exceeded")))
		size /= 10
	}
	return fillers
}

// makeRoom gives etcd back what the deleted objects took, and tells it so
// (https://etcd.io/docs/v3.6/op-guide/maintenance/#space-quota).
func makeRoom(s *kit.Env) {
	GinkgoHelper()
	compact(s)
	ask(s, "/v3/maintenance/defragment", map[string]any{}, nil)
	var raised struct {
		Alarms []map[string]any
	}
	ask(s, "/v3/maintenance/alarm", map[string]any{"action": "GET"}, &raised)
	Expect(raised.Alarms).NotTo(BeEmpty(), "etcd raised no alarm")
	for _, alarm := range raised.Alarms {
		alarm["action"] = "DEACTIVATE"
		ask(s, "/v3/maintenance/alarm", alarm, nil)
	}
}

// compact has etcd forget all but the present.
func compact(s *kit.Env) {
	GinkgoHelper()
	var status struct {
		Header struct{ Revision string }
	}
	ask(s, "/v3/maintenance/status", map[string]any{}, &status)
	ask(s, "/v3/kv/compaction", map[string]any{"revision": status.Header.Revision, "physical": true}, nil)
}

// ask calls etcd over HTTP.
func ask(s *kit.Env, path string, body map[string]any, into any) {
	GinkgoHelper()
	text, err := json.Marshal(body)
	Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(s.Ctx, http.MethodPost, plane.EtcdURL(path), bytes.NewReader(text))
	Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.StatusCode).To(Equal(http.StatusOK), "%s: %s", path, answer)
	if into != nil {
		Expect(json.Unmarshal(answer, into)).To(Succeed(), "%s", answer)
	}
}
