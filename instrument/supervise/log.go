package supervise

// Logging that never holds anything up.

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// logBacklog bounds the lines that wait. The supervisor has few to say; the rest are
	// an agent's warnings, and what does not fit is lost.
	logBacklog = 64
	// logFlushLimit is how long the end waits for lines still to be written.
	logFlushLimit = 100 * time.Millisecond
)

// A lineLog writes log lines from a goroutine of its own. A standard error that blocks
// (Ctrl-S, a pipe that nobody reads) must stop neither signals nor the end of the
// workload.
type lineLog struct {
	log   *slog.Logger
	lines chan logLine
	stop  chan struct{}
	done  chan struct{}
}

type logLine struct {
	level slog.Level
	msg   string
	args  []any
}

func newLineLog(log *slog.Logger) *lineLog {
	l := &lineLog{
		log:   log,
		lines: make(chan logLine, logBacklog),
		stop:  make(chan struct{}),
		done:  make(chan struct{}),
	}
	go l.run()
	return l
}

// say logs a line, or drops it where too many wait. It never blocks.
func (l *lineLog) say(level slog.Level, msg string, args ...any) {
	select {
	case l.lines <- logLine{level, msg, args}:
	default:
	}
}

func (l *lineLog) run() {
	defer close(l.done)
	// With "stty tostop" a write to the terminal from the background stops the whole
	// group, workload included, unless the writing thread blocks SIGTTOU. The thread ends
	// with this goroutine, which never unlocks it.
	runtime.LockOSThread()
	maskSignal(unix.SIG_BLOCK, unix.SIGTTOU)
	for {
		select {
		case line := <-l.lines:
			l.write(line)
		case <-l.stop:
			for {
				select {
				case line := <-l.lines:
					l.write(line)
				default:
					return
				}
			}
		}
	}
}

func (l *lineLog) write(line logLine) {
	l.log.Log(context.Background(), line.level, line.msg, line.args...)
}

// close writes the lines that wait, as far as its limit lets it.
func (l *lineLog) close() {
	close(l.stop)
	select {
	case <-l.done:
	case <-time.After(logFlushLimit):
	}
}
