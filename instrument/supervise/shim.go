package supervise

// The library in the workload's processes by which an agent without privileges sees them.
// This package knows when it is put in, not what it is.

import (
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A Shim is a library that is injected into the workload. Its methods are called one at
// a time.
type Shim interface {
	// File is what the agent needs to see what the shim sees. Every agent finds it on
	// descriptor 6, until it is clear that the workload does not carry the shim.
	File() *os.File
	// Inject returns the environment with which the workload carries the shim. It is
	// called once, just before the workload's start, and not if the agent needs no shim.
	// After an error the workload is started with the environment as it was.
	Inject(env []string) ([]string, error)
	// Abandon makes the shim cost nothing, as no agent will come any more.
	Abandon()
}

// need is what the agent has said of the shim.
type need int

const (
	needUnknown need = iota // it was not asked in time, or has died: the shim waits for the next
	needNone                // it sees the workload without
	needLost                // no agent will come
)

// shimState is the supervisor's side of a Shim. Its methods may be called from any
// goroutine.
type shimState struct {
	mu   sync.Mutex
	shim Shim // nil: there is none, or the workload does not carry it
	need need
}

// fd is the descriptor for an agent, or closedFD.
func (s *shimState) fd() uintptr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shim == nil {
		return closedFD
	}
	return s.shim.File().Fd()
}

// needless takes note that the agent sees the workload without the shim.
func (s *shimState) needless() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.need == needUnknown {
		s.need = needNone
	}
}

// lost takes note that no agent will come any more.
func (s *shimState) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.need = needLost
	if s.shim != nil {
		s.shim.Abandon()
	}
}

// inject returns the workload's environment and, where that has the shim, also the one
// that it was made from.
func (s *shimState) inject(env []string, log *lineLog) (with, plain []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shim == nil {
		return env, nil
	}
	if s.need != needUnknown {
		s.shim = nil
		return env, nil
	}
	with, err := s.shim.Inject(env)
	if err != nil {
		s.shim = nil
		log.say(slog.LevelError, "the workload cannot be given the library by which it is watched, and runs without", "error", err)
		return env, nil
	}
	return with, env
}

// shed takes note that the workload was started without the shim after all. An agent that
// is there keeps its file, in which nothing will happen.
func (s *shimState) shed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shim = nil
}

// noCore keeps this process's memory, and with it the keys in its environment, out of a
// core file. Only when the workload runs: it inherits our limits, and must have its own.
//
// A limit of one byte is less than any core file, and also keeps the kernel from feeding
// a core_pattern that is a pipe, which a limit of 0 does not (do_coredump in
// fs/coredump.c). Being undumpable would do both, but then the workload could not open
// the shim's file by our descriptor.
func noCore() {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		return
	}
	limit.Cur = min(1, limit.Max)
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &limit)
}
