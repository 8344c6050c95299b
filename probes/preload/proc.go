package preload

// What /proc says of processes and threads.

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/backend"
)

// maxStatBytes is more than /proc/<pid>/stat has: 52 numbers and a name.
const maxStatBytes = 2048

// stat is what is used of /proc/<pid>/stat.
type stat struct {
	comm   string
	state  byte // R, S, D, T, t, Z, X, I
	parent uint32
	start  int64 // clock ticks after boot
}

// parseStat reads the text of a stat file: pid, name in parentheses, then fields by
// number, of which state is 3, parent 4 and start time 22. The name may hold anything,
// parentheses and spaces too, so it ends at the last one.
func parseStat(text []byte) (s stat, ok bool) {
	from, to := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if from < 0 || to < from {
		return s, false
	}
	s.comm = string(text[from+1 : to])
	n := 2
	for field := range bytes.FieldsSeq(text[to+1:]) {
		switch n++; n {
		case 3:
			if len(field) != 1 {
				return s, false
			}
			s.state = field[0]
		case 4:
			parent, err := strconv.ParseUint(string(field), 10, 32)
			if err != nil {
				return s, false
			}
			s.parent = uint32(parent)
		case 22:
			start, err := strconv.ParseInt(string(field), 10, 64)
			s.start = start
			return s, err == nil
		}
	}
	return s, false
}

// readSome reads the beginning of a file. Files of /proc give all they have at once.
func readSome(path string, b []byte) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.Read(b)
	return b[:n], err
}

func procPath(pid uint32, rest string) string {
	return "/proc/" + strconv.FormatUint(uint64(pid), 10) + "/" + rest
}

func readStat(path string) (stat, bool) {
	var b [maxStatBytes]byte
	text, err := readSome(path, b[:])
	if err != nil {
		return stat{}, false
	}
	return parseStat(text)
}

const (
	// ticksPerSecond is USER_HZ, in which stat counts; it is 100 on every architecture
	// that Go knows (proc(5), include/asm-generic/param.h).
	ticksPerSecond = 100
	// startMargin is by how much two clocks, one of which ticks, may differ; within it no
	// number is given to a second process, unless one runs through all of them.
	startMargin = time.Second
)

// startTime is when a process began, on CLOCK_MONOTONIC, and whether it lives: one that
// has ended and was not waited for yet does not.
func startTime(pid uint32) (ns int64, alive bool) {
	s, ok := readStat(procPath(pid, "stat"))
	if !ok || s.state == 'Z' || s.state == 'X' {
		return 0, false
	}
	// Stat counts on CLOCK_BOOTTIME, which also runs while the machine sleeps; the
	// difference only grows, so that a process never seems to be younger than it is.
	return s.start*(1e9/ticksPerSecond) - bootMinusMonotonic, true
}

// bootMinusMonotonic is taken once, so that a start time stays what it is.
var bootMinusMonotonic = func() int64 {
	var boot unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) // there since Linux 2.6.39
	return boot.Nano() - backend.Monotonic()
}()

// threadFate says what has become of a thread that has not finished its record.
func threadFate(pid, tid uint32) fate {
	if pid == 0 || tid == 0 || int32(pid) < 0 || int32(tid) < 0 {
		return fateElsewhere // it has not said who it is
	}
	// The thread, not the process: exec ends all but one of them.
	if err := unix.Tgkill(int(pid), int(tid), 0); err == unix.ESRCH {
		return fateGone
	}
	s, ok := readStat(procPath(pid, "task/"+strconv.FormatUint(uint64(tid), 10)+"/stat"))
	if !ok {
		return fateWriting // it cannot be looked at
	}
	switch s.state {
	case 'Z', 'X':
		return fateGone
	case 'S', 'I':
		return fateElsewhere
	}
	return fateWriting // R: on its way; T and t: stopped; D: waits for a page
}

// maxCommBytes is TASK_COMM_LEN and a newline.
const maxCommBytes = 17

// readComm reads the name of a thread. Its bytes lie in b.
func readComm(pid, tid uint32, b []byte) []byte {
	text, err := readSome(procPath(pid, "task/"+strconv.FormatUint(uint64(tid), 10)+"/comm"), b)
	if err != nil {
		return nil
	}
	return bytes.TrimSuffix(text, []byte{'\n'})
}
