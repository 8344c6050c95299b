//go:build e2e

package e2e

import (
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// recovery is how soon after the agent's death a request must be traced again.
	recovery = 5 * time.Second
	// streams are open at the moment of the kill.
	streams = 6
)

// checkAgentKilled kills the agent with SIGKILL while streams are open: the server and its
// clients must not notice, and tracing must be back soon.
func checkAgentKilled(t *testing.T, s *server, r *receiver) {
	logBefore := readAll(t, s.log)
	before := s.workload()
	agent := s.agent()
	if agent == 0 {
		t.Fatal("no agent process found")
	}
	k := call{name: "stream", path: completionPath, body: completion(sentence, 200, streamUsage), sequences: 1}
	c := &client{address: s.address}
	reference := c.do(k)
	check(t, reference)

	// Each stream repeats until the tracing is back, so that the kill and the restart both
	// fall into running requests.
	var wg sync.WaitGroup
	back := make(chan struct{})
	begun := make(chan struct{}, streams)
	answers := make([][]*answer, streams)
	for i := range streams {
		wg.Go(func() {
			for first := true; ; first = false {
				answers[i] = append(answers[i], c.fresh().do(k))
				if first {
					begun <- struct{}{}
				}
				select {
				case <-back:
					return
				default:
				}
			}
		})
	}
	for range streams {
		<-begun
	}
	killed := time.Now()
	if err := unix.Kill(agent, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	traced := eventually(t, recovery+spanLimit, "a whole trace after the agent was killed", func() bool {
		probe := c.fresh().do(call{name: "probe", path: completionPath, body: completion("Hello", 2), traceparent: true, sequences: 1})
		check(t, probe)
		sent := time.Now()
		for time.Since(sent) < time.Second {
			if renderTree(r.trace(probe.traceID), probe.spanID) == wantTree(probe) {
				return true
			}
			time.Sleep(20 * time.Millisecond)
		}
		return false
	})
	took := time.Since(killed)
	close(back)
	wg.Wait()
	if traced && took > recovery {
		t.Errorf("tracing was back after %v; want %v", took, recovery)
	}
	t.Logf("tracing was back %v after the agent was killed", took.Round(10*time.Millisecond))

	total := 0
	for _, list := range answers {
		for _, a := range list {
			total++
			if a.err != nil || a.status != 200 || a.texts[0] != reference.texts[0] || *a.usage != *reference.usage {
				t.Errorf("stream %d: status %d, error %v, %d characters, usage %+v; want 200 and the text that one alone got",
					total, a.status, a.err, len(a.texts[0]), a.usage)
			}
		}
	}
	if after := s.workload(); len(after) != len(before) {
		t.Errorf("the workload has processes %v; before the kill %v", after, before)
	}
	if line := logHasFailure(readAll(t, s.log)[len(logBefore):]); line != "" {
		t.Errorf("the server's log tells of a failure: %s", line)
	}
	if now := s.agent(); now == 0 || now == agent {
		t.Errorf("agent after the kill = %d; want a new one (was %d)", now, agent)
	}
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
