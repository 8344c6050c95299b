package standin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fork makes a child that walks down the steps, and returns its pid, or the negative
// number of an error. all is the set of all signals; old is room for this thread's.
func fork(steps *step, all, old *uint64) (pid int64)

// functions tells where the functions are.
func functions(f *[functionCount]uintptr)

// Process is a stand-in. Its methods belong to one goroutine.
type Process struct {
	// PID is its number in this process's PID namespace.
	PID int

	script *script
	conn   *os.File
	ended  bool
}

// Died is the error for a stand-in that a signal killed.
type Died struct{ Signal unix.Signal }

func (d *Died) Error() string {
	return fmt.Sprintf("the test process died of %s (%s)", unix.SignalName(d.Signal), d.Signal)
}

// lookInterval is how often the stand-in's end is looked for, once it is near.
const lookInterval = 200 * time.Microsecond

// Start forks a stand-in, which waits for Speak. It costs the copy of this process's
// page tables. If this process dies the stand-in ends by itself.
func Start() (*Process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make test socket: %w", err)
	}
	defer unix.Close(pair[1])
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare test socket: %w", err), unix.Close(pair[0]))
	}
	p := &Process{script: newScript(pair[1], pair[0]), conn: os.NewFile(uintptr(pair[0]), "test socket")}
	pid := fork(&p.script.steps[0], &p.script.all, &p.script.old)
	if pid < 0 {
		return nil, errors.Join(fmt.Errorf("fork test process: %w", unix.Errno(-pid)), p.conn.Close())
	}
	p.PID = int(pid)
	return p, nil
}

// Request is what the stand-in reads in one system call.
func (p *Process) Request() []byte { return p.script.request }

// Answer is what it writes then in one call, and VectorAnswer what it writes in
// another from two buffers.
func (p *Process) Answer() []byte { return p.script.answer }

// VectorAnswer is described with Answer.
func (p *Process) VectorAnswer() []byte { return bytes.Join(p.script.vectorParts[:], nil) }

// Sent is the frame in the message that it gives to zmq_msg_send, as a part that
// others follow, and Received the one that zmq_msg_recv gives back.
func (p *Process) Sent() []byte { return p.script.sentFrame }

// Received is described with Sent.
func (p *Process) Received() []byte { return p.script.receivedFrame }

// Speak has the stand-in do all it does, and returns when it has ended; until Close
// its pid is nobody else's. The error says what was wrong with the stand-in itself:
// *Died, a system call that failed, ctx's.
func (p *Process) Speak(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return p.giveUp(err)
	}
	// A deadline that has passed ends reads and writes; no error of it matters.
	defer context.AfterFunc(ctx, func() { _ = p.conn.SetDeadline(time.Unix(1, 0)) })()
	// Its end also ends the reading below, so what this write says of it waits.
	_, werr := p.conn.Write(p.script.request)
	want := append(bytes.Clone(p.script.answer), p.VectorAnswer()...)
	got := make([]byte, 0, len(want)+1)
	var rerr error
	for rerr == nil && len(got) <= len(want) {
		var n int
		n, rerr = p.conn.Read(got[len(got):cap(got)])
		got = got[:len(got)+n]
	}
	if err := p.wait(ctx); err != nil {
		return p.giveUp(err)
	}
	switch {
	case ctx.Err() != nil && rerr != io.EOF:
		return fmt.Errorf("talk to test process: %w", ctx.Err())
	case werr != nil:
		return fmt.Errorf("write to test process: %w", werr)
	case !bytes.Equal(got, want):
		return fmt.Errorf("the test process answers %q; want %q", got, want)
	}
	return nil
}

// wait waits for the stand-in's end, without reaping it, and says how it was.
func (p *Process) wait(ctx context.Context) error {
	for {
		var info siginfo
		err := waitid(p.PID, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG|unix.WALL)
		if err != nil {
			return fmt.Errorf("wait for test process: %w", err)
		}
		if info.pid != 0 {
			p.ended = true
			return info.error()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the test process does not end: %w", ctx.Err())
		case <-time.After(lookInterval):
		}
	}
}

// killLimit bounds the wait for a stand-in that was killed: only the kernel can hold
// it up then.
const killLimit = time.Second

// kill ends the stand-in if it has not ended, without reaping it.
func (p *Process) kill() error {
	if p.ended {
		return nil
	}
	if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill test process: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), killLimit)
	defer cancel()
	if err := p.wait(ctx); !p.ended {
		return fmt.Errorf("although killed %w", err)
	}
	return nil
}

// giveUp kills the stand-in and adds to the reason, in the same line, if it lives on.
func (p *Process) giveUp(reason error) error {
	if err := p.kill(); err != nil {
		return fmt.Errorf("%w; %w", reason, err)
	}
	return reason
}

// Close ends the stand-in, if it has not ended, and reaps it. It is called once.
func (p *Process) Close() error {
	err := errors.Join(p.kill(), p.conn.Close())
	for p.ended {
		_, werr := unix.Wait4(p.PID, nil, unix.WALL, nil)
		if errors.Is(werr, unix.EINTR) {
			continue
		}
		if werr != nil {
			err = errors.Join(err, fmt.Errorf("reap test process: %w", werr))
		}
		break
	}
	return err
}
