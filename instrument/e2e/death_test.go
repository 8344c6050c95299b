//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// dying is how many streams run at the moment of the engine's death.
	dying = 4
	// deathLimit is how long what was in flight may wait for its end then. vLLM 0.32.0
	// answers all of it with an error in a fraction of a second.
	deathLimit = 20 * time.Second
)

// checkEngineKilled kills the engine core with SIGKILL under running requests. vLLM answers
// them with an error and ends by itself: each must have a whole trace that says so, and
// instrument must end as the server does, whose own status is in statusFile.
func checkEngineKilled(t *testing.T, s *server, r *receiver, statusFile string) {
	core := s.engineCore()
	if core == 0 {
		t.Fatal("no engine core found")
	}
	c := &client{address: s.address}
	answers := make([]*answer, 1+dying)
	var wg sync.WaitGroup
	send := func(i int, k call) {
		k.path, k.traceparent, k.sequences, k.engineDies = completionPath, true, 1, true
		wg.Go(func() { answers[i] = c.fresh().do(k) })
	}
	// What is not streamed comes first and is running before the others begin, so that it
	// has its first token before they have.
	send(0, call{name: "whole answer", body: completion(sentence, endless), status: 500})
	running := func() bool { return readCounters(t, get(t, s.address, "/metrics"))["num_requests_running"] > 0 }
	if !eventually(t, deathLimit, "a request is running", running) {
		t.FailNow()
	}
	begun := make(chan struct{}, dying)
	for i := range dying {
		send(1+i, call{name: fmt.Sprintf("stream %d", i), body: completion(strings.Repeat(sentence, 1+i), endless, streamUsage),
			onEvent: func(n int) {
				if n == 3 {
					begun <- struct{}{}
				}
			}})
	}
	for range dying {
		select {
		case <-begun:
		case <-time.After(deathLimit):
			t.Fatal("the streams did not begin")
		}
	}

	killed := time.Now()
	if err := unix.Kill(core, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	t.Logf("all had their end %v after the engine was killed", time.Since(killed).Round(time.Millisecond))
	if took := time.Since(killed); took > deathLimit {
		t.Errorf("what was in flight ended %v after the engine; want %v", took, deathLimit)
	}
	for _, a := range answers {
		check(t, a)
		if a.errType == "" {
			t.Errorf("%s: vLLM sent no error", a.name)
		}
	}
	got := s.stopped()
	t.Logf("the server ended by itself %v after its engine: %s", time.Since(killed).Round(time.Millisecond), got)
	if want := strings.TrimSpace(readAll(t, statusFile)); got != want {
		t.Errorf("instrument ended with %q; the server with %q", got, want)
	}
	checkGone(t, s)
	arrived(t, r, answers)
	checkTrees(t, r, answers)
}
