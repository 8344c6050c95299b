package supervise

// The supervisor's half of the agent protocol: keeping an agent alive.

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How an agent that ends unasked is started again.
const (
	// The wait before a restart, which doubles with each death in a row. The first is
	// short, as every request meanwhile is lost; the longest keeps a broken agent from
	// costing the workload anything that could be felt.
	restartDelayMin = 100 * time.Millisecond
	restartDelayMax = 5 * time.Second
	// An agent that has lived this long was healthy: its death starts a new row.
	healthyLife = 30 * time.Second
	// After this many deaths in a row (half a minute) another try would not help.
	maxDeaths = 10
	// How long the last words of a dead agent are waited for, and its exit status. The
	// words are in the pipe already; the limit is for one whose end the kernel has not
	// closed yet, or that a child of the agent's still holds.
	lastWordsLimit = 100 * time.Millisecond
)

// selfExe names our own binary, even after an upgrade has replaced its file.
const selfExe = "/proc/self/exe"

// A keeper keeps an agent running. It has one goroutine, which ends when close is
// called, when the agent has failed for good or when it has died too often.
type keeper struct {
	opt    AgentOptions
	shim   *shimState
	reap   *reaper
	log    *lineLog
	starts int // agents that we have tried to start

	// settled is closed when there is no use in waiting for the first agent any
	// longer: it is ready, or gone.
	settled     chan struct{}
	settledOnce sync.Once

	stop    chan struct{} // closed by close: end the agent, start no other
	abandon chan struct{} // closed by close: stop waiting for the agent
	done    chan struct{} // closed by the goroutine
}

func newKeeper(opt AgentOptions, shim *shimState, reap *reaper, log *lineLog) *keeper {
	k := &keeper{
		opt:     opt,
		shim:    shim,
		reap:    reap,
		log:     log,
		settled: make(chan struct{}),
		stop:    make(chan struct{}),
		abandon: make(chan struct{}),
		done:    make(chan struct{}),
	}
	go k.run()
	return k
}

func (k *keeper) settle() {
	k.settledOnce.Do(func() { close(k.settled) })
}

// close tells the agent to end and says whether it has drained within the limit. One that
// takes longer is left alone.
func (k *keeper) close(limit time.Duration) bool {
	close(k.stop)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-k.done:
		return true
	case <-timer.C:
		close(k.abandon)
		return false
	}
}

// run starts agent after agent.
func (k *keeper) run() {
	defer close(k.done)
	defer k.settle()
	var row deathRow
	for {
		began := time.Now()
		end := k.runAgent()
		if end.asked {
			return
		}
		if end.failed {
			k.shim.lost()
			return
		}
		k.settle()
		delay, again := row.next(time.Since(began))
		if !again {
			k.shim.lost()
			k.log.say(slog.LevelError, "agent given up: the workload runs on without it",
				"deaths", maxDeaths, "last", end.how)
			return
		}
		k.log.say(slog.LevelWarn, "agent ended, will be restarted", "how", end.how, "in", delay)
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-k.stop:
			timer.Stop()
			return
		}
	}
}

// A deathRow counts an agent's deaths in a row.
type deathRow struct{ deaths int }

// next takes note of a death after a life and returns how long to wait before the next
// start, or false for never.
func (r *deathRow) next(life time.Duration) (delay time.Duration, again bool) {
	if life >= healthyLife {
		r.deaths = 0
	}
	r.deaths++
	if r.deaths >= maxDeaths {
		return 0, false
	}
	return min(restartDelayMin<<(r.deaths-1), restartDelayMax), true
}

// agentEnd is how one agent came to its end.
type agentEnd struct {
	asked  bool // we closed the lifeline
	failed bool // it said that a restart would not help
	how    string
}

// runAgent starts one agent and returns when its end has come or begun, or when it has
// drained after being asked to.
func (k *keeper) runAgent() agentEnd {
	a, err := k.startAgent()
	if err != nil {
		return agentEnd{how: err.Error()}
	}
	defer a.close()

	failed := false
	read := make(chan struct{})
	go func() {
		defer close(read)
		failed = k.readStatus(a.status, a.life.watch)
	}()

	asked := false
	select {
	case <-a.exited:
	case <-a.life.gone:
	case <-k.stop:
		asked = true
		a.lifeline.Close()
		select {
		case <-a.exited:
		case <-a.life.gone:
		case <-read:
			// Drained. What it still does, such as taking its probes off, nobody needs
			// to wait for.
			return agentEnd{asked: true}
		case <-k.abandon:
			_ = a.status.SetReadDeadline(time.Now())
			<-read
			return agentEnd{asked: true}
		}
	}
	limit := time.NewTimer(lastWordsLimit)
	defer limit.Stop()
	_ = a.status.SetReadDeadline(time.Now().Add(lastWordsLimit))
	<-read
	end := agentEnd{asked: asked, failed: failed}
	if asked {
		return end
	}
	select {
	case <-a.exited:
		end.how = exitStatusOf(a.process.status).String()
	case <-limit.C:
		end.how = "the kernel is still clearing up after it"
		go k.logExit(a.process)
	}
	return end
}

// logExit logs how an agent ended that was given up before it could be reaped.
func (k *keeper) logExit(p *process) {
	select {
	case <-p.exited:
		k.log.say(slog.LevelInfo, "earlier agent has left", "pid", p.pid, "how", exitStatusOf(p.status))
	case <-k.done:
	}
}

// readStatus reads an agent's status lines up to their end and says whether it failed
// for good. It calls watch when the agent says that it holds its life lock.
func (k *keeper) readStatus(status io.Reader, watch func()) (failed bool) {
	lines := bufio.NewScanner(status)
	lines.Buffer(make([]byte, maxStatusLine), maxStatusLine)
	for lines.Scan() {
		word, text, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case statusWatch:
			watch()
		case statusNoShim:
			k.shim.needless()
		case statusReady:
			k.settle()
			k.log.say(slog.LevelDebug, "agent is ready", "start", k.starts)
		case statusFailed:
			if !failed {
				k.log.say(slog.LevelError, "agent failed: the workload runs on without it", "reason", text)
			}
			failed = true
			k.shim.lost()
			k.settle()
		case statusWarn:
			k.log.say(slog.LevelWarn, text, "from", "agent")
		default:
			k.log.say(slog.LevelDebug, "unknown status from agent", "line", lines.Text())
		}
	}
	// What follows a line that is too long is no use to us; the agent must not
	// find the pipe full, though.
	_, _ = io.Copy(io.Discard, status)
	return failed
}

// An agentProcess is a running agent with our ends of its pipes and its life lock.
type agentProcess struct {
	*process
	lifeline, status *os.File
	life             *lifeLock
}

func (a *agentProcess) close() {
	a.lifeline.Close()
	a.status.Close()
	a.life.close()
}

// startAgent starts an agent in a process group of its own: no signal of the terminal
// reaches it, nor one for our group. It gets no parent death signal, as it must outlive
// us to drain.
//
// It stays in our session, because the scheduler's autogroups are sessions
// (CONFIG_SCHED_AUTOGROUP, kernel/sched/autogroup.c), and one of its own beside a server
// that uses every core is starved: measured on Linux 6.18 with two cores and a busy
// vLLM, a process that sleeps 50 ms woke up to 2.8 s late in a session of its own and
// 2 ms late in the server's.
func (k *keeper) startAgent() (_ *agentProcess, err error) {
	k.starts++
	defer func() {
		if err != nil {
			err = fmt.Errorf("start agent: %w", err)
		}
	}()
	var open []int // descriptors to close again: all on failure, the agent's in the end
	defer func() {
		for _, fd := range open {
			unix.Close(fd)
		}
	}()
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	open = append(open, null)
	var lifeline, status [2]int // read end, write end
	for _, pipe := range []*[2]int{&lifeline, &status} {
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			return nil, err
		}
		open = append(open, pipe[0], pipe[1])
	}

	life, err := newLifeLock()
	if err != nil {
		k.log.say(slog.LevelDebug, "a killed agent will be replaced late", "error", err)
	}

	path, name := k.opt.Path, k.opt.Path
	if path == "" {
		path, name = selfExe, os.Args[0]
	}
	const stderr = 2 // everything of ours goes to standard error
	p, err := k.reap.start(path, append([]string{name}, k.opt.Args...), &syscall.ProcAttr{
		Env: agentEnv(k.opt.Env, k.starts),
		Files: []uintptr{uintptr(null), stderr, stderr,
			// A lock without a file is −1, which is closedFD.
			lifelineFD: uintptr(lifeline[0]), statusFD: uintptr(status[1]), lifeFD: uintptr(life.fd), shimFD: k.shim.fd()},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		life.close()
		return nil, err
	}
	open = []int{null, lifeline[0], status[1]}
	// Non-blocking, so that a deadline ends a read.
	_ = unix.SetNonblock(status[0], true)
	return &agentProcess{
		process:  p,
		lifeline: os.NewFile(uintptr(lifeline[1]), "lifeline"),
		status:   os.NewFile(uintptr(status[0]), "status"),
		life:     life,
	}, nil
}

// agentEnv is the environment of the agent that is start number n. A number that is there
// already is another supervisor's.
func agentEnv(env []string, n int) []string {
	return append(slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, agentStartVar+"=")
	}), agentStartVar+"="+strconv.Itoa(n))
}
