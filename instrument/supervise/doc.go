// Package supervise runs the workload and keeps the agent alive beside it. It is the
// only part of Tokenscope that the workload depends on, so it parses nothing, holds
// no data and stays small. Linux only.
//
// # Processes
//
//	shell ── instrument (this package)
//	           ├── workload   our session, our process group, dies with us
//	           └── agent      our session, its own group, ends when our pipe closes
//
// The agent is started first, the workload when the agent is ready or a limit has
// passed. The workload gets exactly what we were given: arguments and environment
// byte for byte, file descriptors, signal mask, limits, terminal. One thing is known
// to differ: of the signals that were ignored when we started, only SIGHUP, SIGINT,
// SIGTSTP, SIGTTIN, SIGTTOU and SIGCONT stay ignored in the workload; the Go runtime
// has taken the others over before any of our code runs.
//
// # Signals
//
// Every signal that reaches us goes to the workload once, except:
//
//   - SIGINT, SIGQUIT, SIGTSTP, SIGCONT and SIGWINCH while our process group is the
//     terminal's foreground group: the workload is in that group and has them already.
//   - SIGTTIN and SIGTTOU: left to the kernel, which stops the whole group.
//   - SIGCHLD and SIGURG: about ourselves (reaping; the Go scheduler).
//   - SIGPIPE and SIGXFSZ: the kernel sends them for our own writes to standard error.
//   - SIGPROF and the signals 32 to 34: the Go runtime does not let us have them.
//
// A signal does not say who sent it, so the first rule goes by the foreground alone. It
// follows that "kill -INT PID", with the PID of instrument and from another terminal,
// does nothing while instrument is in its terminal's foreground: that looks like a Ctrl-C
// that the workload has had already. SIGTERM is always forwarded; for a SIGINT use
// "kill -INT -PGID", which reaches the whole group as Ctrl-C does, or the PID of the
// workload. In the background and without a terminal (a service, a container) SIGINT to
// instrument is forwarded; there a SIGINT to the whole group reaches the workload twice,
// from the sender and from us.
//
// We stop when the workload has stopped after a SIGTSTP, with the same signal, so that
// a shell sees the job as it would without us; a workload that ignores Ctrl-Z keeps us
// running too. As PID 1 we also reap every orphan.
//
// # Agent protocol
//
// The agent finds two pipes and a file. Descriptor 3 is the read end of the lifeline, on which
// nothing is ever written: its end tells the agent to drain and end. Descriptor 4 is
// the write end of the status pipe, on which it writes lines:
//
//	watch            I hold the life lock
//	noshim           I see the workload without the shim (Options.Shim)
//	ready            capture is attached
//	failed REASON    there is no use in going on: do not restart me
//	warn TEXT        log this
//
// Descriptor 5 is an empty file in memory, the agent's own, for the life lock: a POSIX
// write lock on the whole of it (F_SETLK), which the agent takes before anything else. It
// says "watch" when it has it, and from then on we wait for the lock (F_SETLKW). When it
// is free, the agent's end has begun, long before the kernel has taken its probes off and
// lets it be reaped; lifelock.go says why. Without a lock the agent's end is noticed when
// it is reaped.
//
// Descriptor 6 is the Shim's file, where the workload carries the shim or may yet: the
// agent decides before "ready" by which way it watches, and an agent that has not said
// "noshim" when the workload starts finds the shim there, dormant.
//
// The agent's environment, never the workload's, has TOKENSCOPE_AGENT_START: 1 for the
// first agent that we start, 2 for the next, and so on (see AgentStart).
//
// When everything is sent, the agent closes the status pipe and then the lock's file,
// before it takes its probes off, for which the kernel needs a while. So after the workload's end we close the
// lifeline and wait for the first of three: the status pipe's end, the agent's end, or
// Options.FlushTimeout, after which a warning says that spans are still being sent.
// Nobody kills the agent then, unless we are PID 1: the kernel ends all of a PID
// namespace with its PID 1.
//
// An agent that ends unasked is replaced by another, with back-off; nothing waits for it
// then. Its pipes are closed and its exit, whenever that comes, means nothing any more. An
// agent that was told to end is never replaced. AgentSide is the agent's half of this.
package supervise
