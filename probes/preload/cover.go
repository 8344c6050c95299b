package preload

// Noticing processes of the workload that do not carry the library.

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenscope/tokenscope/probes/backend"
)

const (
	// A server starts its processes within minutes; later ones come seldom.
	coverYoung         = 5 * time.Minute
	coverInterval      = 5 * time.Second
	coverIntervalLater = time.Minute
	// coverAge is how old a process is before it is missed: before that its loader may
	// not have come to the library.
	coverAge = 3 * time.Second
	// maxUncovered bounds how many are named.
	maxUncovered = 8
)

// coverage is the search for processes that are not seen. It reads all of /proc, which
// takes milliseconds where a host has many processes, so a goroutine does it.
type coverage struct {
	began, next int64
	busy        atomic.Bool
	working     sync.WaitGroup
	found       atomic.Pointer[[]uncovered]
	told        map[uint32]bool
}

// uncovered is a process of the workload that should be seen, and is not.
type uncovered struct {
	pid  uint32
	comm string
	why  string
	// left: it had registered, and then ran a program that does not carry the library.
	left bool
}

func (c *coverage) wait() { c.working.Wait() }

// lookForUncovered says which processes are not seen, and begins the next search when it
// is time.
func (r *run) lookForUncovered(now int64) {
	c := &r.cover
	if c.told == nil {
		c.began, c.next = now, now+int64(coverInterval)
		c.told = map[uint32]bool{}
	}
	if found := c.found.Swap(nil); found != nil {
		for _, u := range *found {
			// It may have registered since, or shown that it is seen.
			p := r.processes[u.pid]
			if p != nil && (!u.left || p.spoke) || c.told[u.pid] || len(c.told) >= maxUncovered {
				continue
			}
			c.told[u.pid] = true
			r.options.Log.Warn("a process of the workload is not covered: "+u.why, "pid", u.pid, "comm", u.comm)
		}
	}
	if now < c.next || len(c.told) >= maxUncovered || !c.busy.CompareAndSwap(false, true) {
		return
	}
	c.next = now + int64(coverInterval)
	if now-c.began > int64(coverYoung) {
		c.next = now + int64(coverIntervalLater)
	}
	known := maps.Clone(c.told)
	for pid, p := range r.processes {
		known[pid] = known[pid] || p.spoke
	}
	root := uint32(r.options.Root)
	c.working.Go(func() {
		defer c.busy.Store(false)
		found := findUncovered(root, known, now)
		c.found.Store(&found)
	})
}

// findUncovered goes through the descendants of root, this process and its own excluded.
// Those in known have registered; true says that they are seen for certain.
func findUncovered(root uint32, known map[uint32]bool, now int64) (found []uncovered) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	children := map[uint32][]uint32{}
	stats := map[uint32]stat{}
	for _, name := range names {
		pid, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			continue
		}
		if s, ok := readStat(procPath(uint32(pid), "stat")); ok {
			stats[uint32(pid)] = s
			children[s.parent] = append(children[s.parent], uint32(pid))
		}
	}
	own := uint32(os.Getpid())
	// Each has one parent, so none comes twice, but for a number that was given again
	// while this ran: then the count ends it.
	for queue, n := []uint32{root}, 0; len(queue) > 0 && n <= len(stats); n++ {
		pid := queue[0]
		queue = queue[1:]
		if pid == own {
			continue
		}
		queue = append(queue, children[pid]...)
		seen, registered := known[pid]
		if pid == root || seen {
			continue
		}
		s := stats[pid]
		age := now - (s.start*(1e9/ticksPerSecond) - bootMinusMonotonic)
		if s.state == 'Z' || age <= int64(coverAge) || !isServer(s.comm, backend.SplitCmdline(backend.ReadCmdline(pid))) {
			continue
		}
		if registered && !hasLeft(pid) {
			continue
		}
		found = append(found, uncovered{pid, s.comm, whyUncovered(pid), registered})
	}
	return found
}

// isServer reports whether a program may be part of an inference server.
func isServer(comm string, cmdline []string) bool {
	for _, name := range append([]string{comm}, cmdline[:min(len(cmdline), 2)]...) {
		name = strings.ToLower(filepath.Base(name))
		for _, part := range []string{"python", "vllm", "sglang"} {
			if strings.Contains(name, part) {
				return true
			}
		}
	}
	return false
}
