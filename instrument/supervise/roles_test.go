package supervise

// The parts that the test binary plays; see TestMain.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// A setup is what the supervisor role gets as JSON.
type setup struct {
	Argv      []string
	AgentMode string // "": no agent
	AgentPath string // "": the test binary
	Dir       string // where the agent leaves its log
	ReadyMs   int    // 0: patience, so that a slow machine changes nothing
	FlushMs   int    // 0: patience
	Cancel    bool   // end Run's context when Dir/cancel exists
	Leaks     bool   // goroutines may be left over
	Shim      string // "": none; "yes", or what fakeShim.kind says
}

func beSupervisor(arg string) {
	var s setup
	if err := json.Unmarshal([]byte(arg), &s); err != nil {
		panic(err)
	}
	limit := func(ms int) time.Duration {
		if ms == 0 {
			return patience
		}
		return time.Duration(ms) * time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	if s.Cancel {
		go func() {
			for ctx.Err() == nil {
				if _, err := os.Stat(filepath.Join(s.Dir, "cancel")); err == nil {
					cancel()
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
	}
	var shim Shim
	if s.Shim != "" {
		shim = newFakeShim(s.Dir, s.Shim)
	}
	status := Run(ctx, Options{
		Argv: s.Argv,
		Shim: shim,
		Agent: AgentOptions{
			Disabled: s.AgentMode == "",
			Path:     s.AgentPath,
			Args:     []string{roleAgent, s.AgentMode, s.Dir},
		},
		ReadyTimeout: limit(s.ReadyMs),
		FlushTimeout: limit(s.FlushMs),
		Log:          slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	cancel()
	if !s.Leaks {
		var ignore []goleak.Option
		if s.AgentMode == "stuck" { // outlives us, with its lock
			ignore = append(ignore, goleak.IgnoreAnyFunction("github.com/tokenscope/tokenscope/instrument/supervise.(*lifeLock).wait"))
		}
		if err := goleak.Find(ignore...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(99)
		}
	}
	status.Exit()
}

// beAgent appends what it does to DIR/agent.log.
func beAgent(mode, dir string) {
	IgnoreSignals()
	log, err := os.OpenFile(filepath.Join(dir, "agent.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(90)
	}
	side, err := OpenAgentSide()
	if err != nil {
		fmt.Fprintln(log, "error", err)
		os.Exit(91)
	}
	fmt.Fprintln(log, "started", os.Getpid(), "fds", openFDs())
	fmt.Fprintln(log, "number", AgentStart())
	fmt.Fprintln(log, "shim", side.Shim() != nil)
	switch mode {
	case "noshim":
		_ = side.NoShim()
		_ = side.Ready()
		fmt.Fprintln(log, "ready", os.Getpid())
	case "ready", "stuck", "drained", "lingers":
		_ = side.Ready()
		fmt.Fprintln(log, "ready", os.Getpid())
	case "half dead": // the first one, as a process that the kernel still takes apart
		_ = side.Ready()
		fmt.Fprintln(log, "ready", os.Getpid())
		if AgentStart() == 1 {
			_ = unix.Close(lifeFD)
			<-side.Done()
			fmt.Fprintln(log, "told", os.Getpid())
			select {}
		}
	case "warn":
		for range 20 {
			_ = side.Warn("two\nlines")
		}
		_ = side.Ready()
	case "failed":
		_ = side.Failed("no kernel support")
		_ = side.Failed("again")
		os.Exit(1)
	case "silent":
	}
	<-side.Done()
	fmt.Fprintln(log, "drained", os.Getpid())
	switch mode {
	case "stuck":
		select {}
	case "lingers": // dies while it drains, and is long in dying
		_ = unix.Close(lifeFD)
		select {}
	case "drained":
		err := side.Close()
		fmt.Fprintln(log, "closed", err, isOpen(lifelineFD), isOpen(statusFD), isOpen(lifeFD))
		time.Sleep(30 * time.Second) // or until the test has seen that it lives on
	}
	os.Exit(0)
}

func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// openFDs lists the descriptors that this process was started with: all that are not
// close-on-exec, as everything is that a Go program opens, and those of the protocol.
func openFDs() string {
	names, _ := filepath.Glob("/proc/self/fd/*")
	var fds []string
	for _, name := range names {
		fd, _ := strconv.Atoi(filepath.Base(name))
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil {
			continue // the one that listed the others
		}
		if flags&unix.FD_CLOEXEC == 0 || fd == lifelineFD || fd == statusFD || fd == lifeFD {
			fds = append(fds, strconv.Itoa(fd))
		}
	}
	return strings.Join(fds, ",")
}

// beWorkload is a workload that tells on standard output what happens to it.
func beWorkload(mode string) {
	switch mode {
	case "dump": // argv and environment as the kernel has them
		for _, file := range []string{"/proc/self/cmdline", "/proc/self/environ"} {
			b, err := os.ReadFile(file)
			if err != nil {
				os.Exit(92)
			}
			os.Stdout.Write(append(b, '\n'))
		}
		os.Exit(0)

	case "orphan": // leaves a grandchild behind, which ends when we close a pipe
		r, w, err := os.Pipe()
		if err != nil {
			os.Exit(93)
		}
		sh := exec.Command("/bin/sh", "-c", "cat <&3 >/dev/null &")
		sh.ExtraFiles = []*os.File{r}
		if err := sh.Run(); err != nil {
			os.Exit(94)
		}
		r.Close()
		fmt.Println("orphaned")
		in := bufio.NewReader(os.Stdin)
		_, _ = in.ReadString('\n')
		w.Close()
		fmt.Println("released")
		_, _ = in.ReadString('\n')
		os.Exit(0)
	}

	// "signals": handles and prints every signal; "jobs": but stops as one does. SIGUSR2
	// ends it with code 7.
	ch := make(chan os.Signal, 64)
	var sigs []os.Signal
	for sig := syscall.Signal(1); sig < numSignals; sig++ {
		if caught(sig) && !(mode == "jobs" && sig == unix.SIGTSTP) {
			sigs = append(sigs, sig)
		}
	}
	signal.Notify(ch, sigs...)
	fmt.Println("pid", os.Getpid())
	for sig := range ch {
		fmt.Println("got", int(sig.(syscall.Signal)))
		if sig == unix.SIGUSR2 {
			os.Exit(7)
		}
	}
}

// beShell runs a command as a job of its terminal, as an interactive shell does: in the
// foreground in a process group of its own; back to the foreground when DIR/fg exists.
// It says what becomes of the job.
func beShell(args []string) {
	dir, argv := args[0], args[1:]
	// A background process may then change the foreground. The job inherits it, which
	// does not matter to the tests.
	signal.Ignore(unix.SIGTTOU)
	tty := 0
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: tty}
	if err := cmd.Start(); err != nil {
		fmt.Println("shell:", err)
		os.Exit(95)
	}
	pid := cmd.Process.Pid
	fmt.Println("job", pid)
	for {
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &ws, unix.WUNTRACED, nil); err != nil {
			os.Exit(96)
		}
		if !ws.Stopped() {
			fmt.Println("ended", exitStatusOf(ws))
			os.Exit(0)
		}
		_ = unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, unix.Getpgrp())
		fmt.Println("stopped", int(ws.StopSignal()))
		for {
			if err := os.Remove(filepath.Join(dir, "fg")); err == nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		_ = unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, pid)
		_ = unix.Kill(-pid, unix.SIGCONT)
	}
}
