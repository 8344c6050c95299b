package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DefaultReadyTimeout is how long the workload's start waits for the agent: the most
	// that a user may be made to wait.
	DefaultReadyTimeout = time.Second
	// DefaultFlushTimeout is how long the supervisor stays for the agent's last export
	// after the workload's end.
	DefaultFlushTimeout = time.Second
)

// Options say what to run. Argv is required.
type Options struct {
	// Argv is the workload: its name, as the user typed it, and its arguments.
	Argv []string
	// Env is the workload's environment; nil stands for ours as we were given it
	// (see Environ).
	Env []string

	Agent AgentOptions
	// Shim is the library by which an agent without privileges watches; nil for none.
	Shim Shim
	// ReadyTimeout bounds the wait for the agent before the workload's start. Zero
	// stands for DefaultReadyTimeout.
	ReadyTimeout time.Duration
	// FlushTimeout bounds the wait for the agent after the workload's end; an agent that
	// has drained is not waited for. Zero stands for DefaultFlushTimeout.
	FlushTimeout time.Duration

	// Log gets what the supervisor and the agent's status lines have to say; nil: nobody
	// does. It should write to standard error.
	Log *slog.Logger
}

// AgentOptions say how to start the agent.
type AgentOptions struct {
	// Disabled runs the workload without an agent.
	Disabled bool
	// Path is the agent's file; "" stands for our own binary.
	Path string
	// Args follow the agent's name in its arguments.
	Args []string
	// Env is the agent's environment; nil stands for ours as we were given it.
	Env []string
}

// Run runs the workload with an agent beside it and returns how the workload ended. A
// workload that cannot be started is reported on standard error, and the status is what
// a shell's would be.
//
// Run is made to be the last thing that a process does, once, with
// ExitStatus.Exit after it: it takes over the signals and the waiting for children of
// the whole process, and does not give the signals back. When ctx ends, the workload is
// sent SIGTERM; Run waits for its end all the same.
func Run(ctx context.Context, opt Options) ExitStatus {
	if len(opt.Argv) == 0 {
		fmt.Fprintln(os.Stderr, "instrument: no command")
		return ExitStatus{Code: exitUsage}
	}
	if opt.Env == nil {
		opt.Env = Environ()
	}
	if opt.Agent.Env == nil {
		opt.Agent.Env = Environ()
	}
	if opt.ReadyTimeout == 0 {
		opt.ReadyTimeout = DefaultReadyTimeout
	}
	if opt.FlushTimeout == 0 {
		opt.FlushTimeout = DefaultFlushTimeout
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}

	// The workload dies with the thread that starts it, so that thread must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	// A command that does not exist needs no agent.
	path, startErr := lookUp(opt.Argv[0], opt.Env)
	if startErr != nil {
		return notStarted(startErr)
	}
	cmd := &command{argv: opt.Argv, env: opt.Env, path: path, files: takeInherited()}

	s := &supervisor{opt: opt, signals: catchSignals(), reap: newReaper(), log: newLineLog(opt.Log), shim: &shimState{shim: opt.Shim}}
	defer s.log.close()
	defer s.reap.close()
	if !opt.Agent.Disabled {
		s.keeper = newKeeper(opt.Agent, s.shim, s.reap, s.log)
		defer s.flush()
	}
	if ended, status := s.awaitAgent(ctx); ended {
		return status
	}
	return s.runWorkload(ctx, cmd)
}

func notStarted(err *startError) ExitStatus {
	fmt.Fprintf(os.Stderr, "instrument: %v\n", err)
	return ExitStatus{Code: err.code}
}

// A supervisor is the state of one Run. Only Run's goroutine uses it.
type supervisor struct {
	opt     Options
	signals <-chan os.Signal
	reap    *reaper
	log     *lineLog
	keeper  *keeper // nil without an agent
	shim    *shimState
	late    bool // the agent was not ready in time

	workload *process
	// stopDue: a SIGTSTP has come, and the workload has not stopped yet.
	stopDue bool
}

// awaitAgent waits until the agent is ready or there is no use in waiting. A signal does
// to us what it would do to a workload that had just been started: ended is true where
// that is the end.
func (s *supervisor) awaitAgent(ctx context.Context) (ended bool, _ ExitStatus) {
	if s.keeper == nil {
		return false, ExitStatus{}
	}
	limit := time.NewTimer(s.opt.ReadyTimeout)
	defer limit.Stop()
	for {
		select {
		case <-s.keeper.settled:
			return false, ExitStatus{}
		case <-limit.C:
			s.late = true
			return false, ExitStatus{}
		case <-ctx.Done():
			return true, ExitStatus{Signal: unix.SIGTERM}
		case got := <-s.signals:
			sig := got.(syscall.Signal)
			switch {
			case aboutUs(sig):
			case sig == unix.SIGTSTP:
				stopSelf()
			case endsByDefault(sig):
				return true, ExitStatus{Signal: sig}
			}
		}
	}
}

// runWorkload starts the workload and stays with it to its end.
func (s *supervisor) runWorkload(ctx context.Context, cmd *command) ExitStatus {
	if s.keeper != nil {
		cmd.env, cmd.plain = s.shim.inject(cmd.env, s.log)
	}
	p, warning, startErr := cmd.start(s.reap)
	if startErr != nil {
		return notStarted(startErr)
	}
	if cmd.shed {
		s.shim.shed()
		s.log.say(slog.LevelError, "the workload runs without the library by which it is watched: its arguments and environment are so long that the kernel takes no more; "+
			"raise the stack limit (ulimit -s), a quarter of which is theirs, or shorten them")
	}
	s.workload = p
	s.forwardEarly()
	noCore()

	if warning != "" {
		s.log.say(slog.LevelWarn, warning)
	}
	if s.late {
		s.log.say(slog.LevelWarn, "agent is not ready: the workload was started without it, the first requests may be missed",
			"waited", s.opt.ReadyTimeout)
	}

	cancelled := ctx.Done()
	for {
		select {
		case <-p.exited:
			return exitStatusOf(p.status)
		case got := <-s.signals:
			s.onSignal(got.(syscall.Signal))
		case <-p.jobChange:
			s.stopWithWorkload()
		case <-cancelled:
			cancelled = nil
			s.send(unix.SIGTERM)
		}
	}
}

// forwardEarly passes on the signals that came between the last look and the workload's
// start. The terminal's too: the workload was not there to get them.
func (s *supervisor) forwardEarly() {
	for {
		select {
		case got := <-s.signals:
			if sig := got.(syscall.Signal); !aboutUs(sig) {
				s.send(sig)
			}
		default:
			return
		}
	}
}

func (s *supervisor) onSignal(sig syscall.Signal) {
	if toWorkload(sig, inForeground) {
		s.send(sig)
	}
	switch sig {
	case unix.SIGTSTP:
		s.stopDue = true
		s.stopWithWorkload()
	case unix.SIGCONT:
		s.stopDue = false
	}
}

// stopWithWorkload stops us when a SIGTSTP is due and the workload has stopped. A
// workload that was stopped otherwise (a debugger, SIGSTOP) must not stop us: nobody
// would know to continue us with it.
func (s *supervisor) stopWithWorkload() {
	if s.stopDue && s.reap.hasStopped(s.workload) {
		s.stopDue = false
		stopSelf()
	}
}

func (s *supervisor) send(sig syscall.Signal) {
	if err := s.reap.signal(s.workload, sig); err != nil {
		s.log.say(slog.LevelWarn, "signal not forwarded to the workload", "signal", sig, "error", err)
	}
}

// flush tells the agent to end and waits for its last export.
func (s *supervisor) flush() {
	if s.keeper.close(s.opt.FlushTimeout) || s.workload == nil {
		return // a workload that never ran leaves nothing to send
	}
	s.log.say(slog.LevelWarn, flushWarning(os.Getpid()), "waited", s.opt.FlushTimeout)
}

// flushWarning is what the user is told when FlushTimeout has passed and the agent is not
// done. The kernel ends a PID namespace with its PID 1, so our end is the agent's there.
func flushWarning(pid int) string {
	if pid == 1 {
		return "the server has ended with its own status; spans that the agent has not sent by now are lost with this container"
	}
	return "the server has ended with its own status; the agent is still sending spans in the background"
}
