package supervise

// The agent's half of the protocol.

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The descriptors that the agent finds.
const (
	lifelineFD = 3
	statusFD   = 4
	lifeFD     = 5
	shimFD     = 6
)

// agentStartVar is the variable of AgentStart, in the agent's environment only.
const agentStartVar = "TOKENSCOPE_AGENT_START"

// AgentStart says which of its supervisor's agents this process is: 1 for the first, more
// where others were started before it, and so the workload may have run unseen. 0 stands
// for a process that no supervisor has started as its agent.
func AgentStart() int {
	n, err := strconv.Atoi(os.Getenv(agentStartVar))
	if err != nil || n < 1 {
		return 0
	}
	return n
}

// The words that begin a status line.
const (
	statusWatch  = "watch"
	statusNoShim = "noshim"
	statusReady  = "ready"
	statusFailed = "failed"
	statusWarn   = "warn"
)

// maxStatusLine bounds a status line, newline included, in bytes. A line of up to
// PIPE_BUF (4096) bytes is written whole or not at all; a reason needs far less.
const maxStatusLine = 1024

// statusWriteLimit is how long a line may wait for a supervisor that does not read, as
// one that Ctrl-Z has stopped. After it the line is dropped: the agent's work goes on.
const statusWriteLimit = time.Second

// ErrNoSupervisor is returned to an agent that no supervisor has started.
var ErrNoSupervisor = errors.New("not started by a supervisor")

// An AgentSide is what the agent process has of its supervisor. Its methods may be
// called from any goroutine.
type AgentSide struct {
	lifeline, status *os.File
	// life has the lock that says that this process lives; nil where there is none. It
	// stays open, as do the others, while watch runs, which holds on to the AgentSide.
	life *os.File
	shim *os.File
	done chan struct{}
}

// OpenAgentSide takes over the two pipes that the supervisor left in descriptors 3 and
// 4, and the life lock on descriptor 5, without which all else works. Call it once and
// before anything else is opened. The error is ErrNoSupervisor where the pipes are
// something else.
func OpenAgentSide() (*AgentSide, error) {
	if !isPipe(lifelineFD, unix.O_RDONLY) || !isPipe(statusFD, unix.O_WRONLY) {
		return nil, ErrNoSupervisor
	}
	var life *os.File
	if takeLifeLock(lifeFD) {
		unix.CloseOnExec(lifeFD)
		life = os.NewFile(lifeFD, "life lock")
	}
	for _, fd := range []int{lifelineFD, statusFD} {
		// A process that the agent starts must hold neither.
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, fmt.Errorf("prepare supervisor pipe: %w", err)
		}
	}
	a := newAgentSide(os.NewFile(lifelineFD, "lifeline"), os.NewFile(statusFD, "status"), life)
	if inherited(shimFD) {
		unix.CloseOnExec(shimFD)
		a.shim = os.NewFile(shimFD, "shim")
	}
	if life != nil {
		// An error means that the supervisor is gone: Done says so.
		_ = a.send(statusWatch, "")
	}
	return a, nil
}

// newAgentSide takes over two pipes that do not block and a life lock, which may be nil.
func newAgentSide(lifeline, status, life *os.File) *AgentSide {
	a := &AgentSide{lifeline: lifeline, status: status, life: life, done: make(chan struct{})}
	go a.watch()
	return a
}

// inherited says whether a descriptor was there at this process's start: what Go opens is
// close-on-exec.
func inherited(fd uintptr) bool {
	flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

func isPipe(fd, mode int) bool {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == mode
}

func (a *AgentSide) watch() {
	defer close(a.done)
	buf := make([]byte, 64)
	for {
		if _, err := a.lifeline.Read(buf); err != nil {
			return // the end, or Close
		}
	}
}

// Done is closed when the workload has ended or the supervisor is gone: send what is
// still queued, call Close and end. The supervisor waits for FlushTimeout and leaves then;
// it does not kill an agent that takes longer, so the agent needs a limit of its own.
func (a *AgentSide) Done() <-chan struct{} { return a.done }

// Shim is the Shim's file; nil where the workload does not carry one. It is the caller's.
func (a *AgentSide) Shim() *os.File { return a.shim }

// NoShim says that the workload is seen without the shim. It counts only before Ready and
// in time: a workload that was started before it carries the shim, which stays dormant.
func (a *AgentSide) NoShim() error { return a.send(statusNoShim, "") }

// Ready says that everything that begins in the workload from now on will be seen.
func (a *AgentSide) Ready() error { return a.send(statusReady, "") }

// Failed says that this agent cannot work and a restart would not help. The supervisor
// logs the reason and starts no other; the agent should end.
func (a *AgentSide) Failed(reason string) error { return a.send(statusFailed, reason) }

// Warn has the supervisor log a line.
func (a *AgentSide) Warn(text string) error { return a.send(statusWarn, text) }

func (a *AgentSide) send(word, text string) error {
	// One line: whatever else the text has, it must not look like another message.
	line := strings.Join(append([]string{word}, strings.Fields(text)...), " ")
	line = line[:min(len(line), maxStatusLine-1)] + "\n"
	if err := a.status.SetWriteDeadline(time.Now().Add(statusWriteLimit)); err != nil {
		return fmt.Errorf("send %s to supervisor: %w", word, err)
	}
	if _, err := a.status.WriteString(line); err != nil {
		return fmt.Errorf("send %s to supervisor: %w", word, err)
	}
	return nil
}

// Close tells the supervisor that everything is sent: it stops waiting, whatever this
// process still has to do. An agent that closes before Done is as good as dead: another
// takes its place at once. All descriptors are closed when Close returns, also under a
// line that another goroutine is sending, which fails then. Done is closed as well.
func (a *AgentSide) Close() error {
	err := errors.Join(a.lifeline.Close(), a.status.Close())
	if a.life != nil {
		// Last: a free lock without the status pipe's end looks like a death.
		err = errors.Join(err, a.life.Close())
	}
	<-a.done
	return err
}

// IgnoreSignals makes this process ignore the signals that are meant for the workload:
// the agent must outlive it to send the last spans. SIGPIPE too: writing to a closed
// standard error would end a Go program. And those that stop a process in the background
// of a terminal when it writes there or reads.
func IgnoreSignals() {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE, unix.SIGTTOU, unix.SIGTTIN)
}
