package preload

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/backend"
)

var statCases = []struct {
	name, in string
	want     stat
	ok       bool
}{
	{"ordinary", "7 (sh) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 2379776 1 1", stat{"sh", 'S', 1, 4242}, true},
	{"name with everything", "7 (a) R 9 (b\n) Z 3 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 5 0", stat{"a) R 9 (b\n", 'Z', 3, 5}, true},
	{"empty", "", stat{}, false},
	{"cut before the name's end", "7 (sh", stat{}, false},
	{"cut before the start time", "7 (sh) S 1 7 7 0 -1", stat{}, false},
	{"parentheses the wrong way round", "7 )sh( S 1", stat{}, false},
	{"no parent", "7 (sh) S x 7 7", stat{}, false},
	{"state of two letters", "7 (sh) SS 1 7", stat{}, false},
}

func TestParseStat(t *testing.T) {
	for _, tc := range statCases {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := parseStat([]byte(tc.in))
			if ok != tc.ok || ok && got != tc.want {
				t.Errorf("parseStat(%q) = %+v, %v; want %+v, %v", tc.in, got, ok, tc.want, tc.ok)
			}
		})
	}
}

func FuzzParseStat(f *testing.F) {
	for _, tc := range statCases {
		f.Add([]byte(tc.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if s, ok := parseStat(in); ok && (!strings.Contains(string(in), "("+s.comm+")") || s.state == 0) {
			t.Errorf("parseStat(%q) = %+v", in, s)
		}
	})
}

func TestStartTime(t *testing.T) {
	before := backend.Monotonic()
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	start, alive := startTime(uint32(c.Process.Pid))
	if d := time.Duration(start - before); !alive || d < -100*time.Millisecond || d > startMargin {
		t.Errorf("started %v after it was started, alive %v", d, alive)
	}
	if _, alive := startTime(0); alive {
		t.Error("process 0 is alive")
	}
	c.Process.Kill()
	until(t, "zombie that does not count as alive", func() bool {
		_, alive := startTime(uint32(c.Process.Pid))
		return !alive
	})
}

func TestThreadFate(t *testing.T) {
	pid := uint32(os.Getpid())
	// A thread that spins, one that sleeps in a system call, and one that has ended.
	tids := make(chan int)
	var stop atomic.Bool
	var spin func()
	spin = func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// The main thread does not end before the process: take another.
			go spin()
			for !stop.Load() {
				time.Sleep(time.Millisecond)
			}
			return
		}
		tids <- unix.Gettid()
		for !stop.Load() {
		}
		// Locked: the thread ends with the goroutine.
	}
	go spin()
	spinning := uint32(<-tids)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	go func() {
		runtime.LockOSThread()
		tids <- unix.Gettid()
		unix.Read(pipe[0], make([]byte, 1))
		tids <- 0
	}()
	sleeping := uint32(<-tids)
	for _, tc := range []struct {
		name     string
		pid, tid uint32
		want     fate
	}{
		{"spinning", pid, spinning, fateWriting},
		{"sleeping", pid, sleeping, fateElsewhere},
		{"never said", 0, 0, fateElsewhere},
		{"no number of a thread", pid, 1 << 31, fateElsewhere},
		{"another process's thread", 1, spinning, fateGone},
	} {
		until(t, tc.name, func() bool { return threadFate(tc.pid, tc.tid) == tc.want })
	}
	stop.Store(true)
	until(t, "thread that has ended", func() bool { return threadFate(pid, spinning) == fateGone })
	unix.Write(pipe[1], []byte{0})
	<-tids
	unix.Close(pipe[0])
	unix.Close(pipe[1])
}

func TestIsServer(t *testing.T) {
	for _, tc := range []struct {
		comm, cmdline string
		want          bool
	}{
		{"python3", "", true},
		{"VLLM::Worker", "VLLM::Worker", true},
		{"sglang::schedul", "", true},
		{"pt_main_thread", "/venv/bin/python3 -m vllm", true},
		{"sh", "sh start.sh", false},
		{"cat", "cat a b python", false},
		{"ninja", "/usr/lib/python3/bin/ninja", false},
	} {
		if got := isServer(tc.comm, strings.Fields(tc.cmdline)); got != tc.want {
			t.Errorf("isServer(%q, %q) = %v; want %v", tc.comm, tc.cmdline, got, tc.want)
		}
	}
}

// TestUncovered finds a server below the root that has no place in the ring.
func TestUncovered(t *testing.T) {
	shell := exec.Command("sh", "-c", "exec 3>&1; (exec -a python3 sleep 60) & echo $! >&3; wait")
	if _, err := exec.LookPath("bash"); err == nil {
		shell.Path, _ = exec.LookPath("bash") // a plain sh knows no exec -a
	} else {
		t.Skip("needs bash")
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	var b [16]byte
	n, err := out.Read(b[:])
	if err != nil {
		t.Fatal(err)
	}
	server, err := strconv.ParseUint(strings.TrimSpace(string(b[:n])), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	defer shell.Wait()
	defer shell.Process.Kill()
	defer unix.Kill(int(server), unix.SIGKILL)
	find := func(root int, known map[uint32]bool, age time.Duration) (pids []uint32) {
		for _, u := range findUncovered(uint32(root), known, backend.Monotonic()+int64(age)) {
			pids = append(pids, u.pid)
		}
		return pids
	}
	root := shell.Process.Pid
	until(t, "server", func() bool {
		got := find(root, nil, time.Minute)
		return len(got) == 1 && got[0] == uint32(server)
	})
	for name, got := range map[string][]uint32{
		"known":            find(root, map[uint32]bool{uint32(server): true}, time.Minute),
		"young":            find(root, nil, 0),
		"another workload": find(int(server), nil, time.Minute),
		"below the agent":  find(os.Getpid(), nil, time.Minute),
	} {
		if len(got) != 0 {
			t.Errorf("%s: found %v; want nothing", name, got)
		}
	}
}
