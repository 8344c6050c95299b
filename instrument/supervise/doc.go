// Package supervise runs the workload and keeps the agent alive beside it. It is the
// only part of Tokenscope that the workload depends on, so it parses nothing, holds
// no data and stays small. Linux only.
//
// # Processes
//
//	shell ── instrument (this package)
//	           ├── workload   our session, our process group, dies with us
//	           └── agent      its own session, ends when our pipe closes
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
//     SIGINT, SIGQUIT and SIGTSTP that a process sent to us (kill PID, or Python's
//     Popen.send_signal) are forwarded all the same: the kernel names the sender of each
//     signal, see origin.go. A process that signals the whole foreground group cannot be
//     told apart from one that signals us alone; then the workload gets the signal twice.
//   - SIGTTIN and SIGTTOU: left to the kernel, which stops the whole group.
//   - SIGCHLD and SIGURG: about ourselves (reaping; the Go scheduler).
//   - SIGPIPE, SIGSEGV and their like unless a process sent them to us.
//   - SIGPROF and the signals 32 to 34: the Go runtime does not let us have them.
//
// We stop when the workload has stopped after a SIGTSTP, with the same signal, so that
// a shell sees the job as it would without us; a workload that ignores Ctrl-Z keeps us
// running too. As PID 1 we also reap every orphan.
//
// # Agent protocol
//
// The agent finds two pipes. Descriptor 3 is the read end of the lifeline, on which
// nothing is ever written: its end tells the agent to drain and end. Descriptor 4 is
// the write end of the status pipe, on which it writes lines:
//
//	ready            capture is attached
//	failed REASON    there is no use in going on: do not restart me
//	warn TEXT        log this
//
// An agent that ends unasked is started again, with back-off; nothing waits for it
// then. AgentSide is the agent's half of this.
package supervise
