package ebpf

// Check under other privileges, in processes of their own.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestCheckPrivilege is the table of docs/compatibility.md: what works with which
// privilege.
func TestCheckPrivilege(t *testing.T) {
	needPrivileges(t)
	nobody := func(capabilities ...uintptr) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: capabilities}
	}
	for _, tc := range []struct {
		name  string
		attr  *syscall.SysProcAttr
		words []string
		err   string // part of it; empty: eBPF capture works
		cure  string // part of it
		fast  bool   // by tracepoints of single system calls; else that depends on the machine's tracefs
	}{
		{name: "root", fast: true},
		{name: "root with no_new_privs", words: []string{"no-new-privs"}, fast: true},
		{name: "CAP_SYS_ADMIN", attr: nobody(unix.CAP_SYS_ADMIN)},
		{name: "CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH", attr: nobody(unix.CAP_SYS_ADMIN, unix.CAP_DAC_READ_SEARCH), fast: true},
		{name: "CAP_BPF and CAP_PERFMON", attr: nobody(unix.CAP_BPF, unix.CAP_PERFMON)},
		{name: "CAP_BPF, CAP_PERFMON, CAP_DAC_READ_SEARCH", attr: nobody(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_DAC_READ_SEARCH)},
		{name: "the same with no_new_privs", attr: nobody(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_DAC_READ_SEARCH), words: []string{"no-new-privs"}},
		{name: "CAP_BPF alone", attr: nobody(unix.CAP_BPF), err: "operation not permitted", cure: "missing: CAP_PERFMON"},
		{name: "CAP_PERFMON alone", attr: nobody(unix.CAP_PERFMON), err: "operation not permitted", cure: "missing: CAP_BPF"},
		{name: "no capability", attr: nobody(), err: "operation not permitted", cure: "missing: CAP_BPF, CAP_PERFMON"},
		{name: "a user namespace", attr: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: 0, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: 0, Size: 1}},
		}, err: "operation not permitted", cure: "user namespace"},
		{name: "seccomp without bpf", words: []string{"refuse:" + strconv.Itoa(unix.SYS_BPF)}, err: "operation not permitted", cure: "seccomp filter is in force"},
		{name: "seccomp without perf_event_open", words: []string{"refuse:" + strconv.Itoa(unix.SYS_PERF_EVENT_OPEN)}, err: "http: tracepoint", cure: "seccomp filter is in force"},
		{name: "seccomp without clone", words: []string{"refuse:" + strconv.Itoa(unix.SYS_CLONE)}, err: "fork test process", cure: "seccomp filter is in force"},
		{name: "seccomp that kills the test process", words: []string{"kill:" + strconv.Itoa(unix.SYS_WRITEV)}, err: "at the tracepoint of writev the test process died of SIGSYS", cure: "a server would die as well"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := check(t, tc.attr, tc.words...)
			t.Logf("%+v", got)
			if (tc.err == "") != (got.Err == "") || !strings.Contains(got.Err, tc.err) || got.Unavailable != (tc.err != "") || strings.Contains(got.Err, "\n") {
				t.Errorf("Check() = %q (ErrUnavailable: %v); want %q", got.Err, got.Unavailable, tc.err)
			}
			if !strings.Contains(got.Cure, tc.cure) {
				t.Errorf("Cure = %q; want %q in it", got.Cure, tc.cure)
			}
			if tc.err == "" && (len(got.Lost) > 0 || tc.fast && got.Slow != "") {
				t.Errorf("lost %q, slow %q; want nothing lost, fast %v", got.Lost, got.Slow, tc.fast)
			}
		})
	}
}

// TestCheckReturnProbeUnderSeccomp filters the system call by which return probes work
// on x86-64 (number 335, Linux 6.11). Kernels without cf6cb56ef244 kill a process for
// it: then the self-test must say so, and must not be what is killed.
func TestCheckReturnProbeUnderSeccomp(t *testing.T) {
	needPrivileges(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("only x86-64 has this system call")
	}
	got := check(t, nil, "refuse:335")
	if got.Err != "" && !(got.Unavailable && strings.Contains(got.Err, "probe on the return of") && strings.Contains(got.Err, "died")) {
		t.Errorf("Check() = %+v; want success, or the death of the test process at a return probe", got)
	}
}

// check runs printCheck in a process with these privileges.
func check(t *testing.T, attr *syscall.SysProcAttr, words ...string) (got checked) {
	t.Helper()
	c := spawn(t, attr, "check", words...)
	line := c.out.next(t)
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatalf("child says %q: %v", line, err)
	}
	c.finish(t)
	return got
}

// checked is what printCheck prints.
type checked struct {
	Unavailable bool
	Err, Cure   string
	Lost        []string
	Slow, Took  string
}

// printCheck prints what Check says as a line of JSON, under what the words say:
//
//	no-new-privs
//	kill:N     number N kills the process that makes the call
//	refuse:N   it fails with EPERM, as a container's profile has it for unknown calls
func printCheck(words []string) error {
	if i := slices.Index(words, "no-new-privs"); i >= 0 {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		words = slices.Delete(words, i, i+1)
	}
	for _, word := range words {
		if err := filterCall(word); err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
	}
	r := Check(context.Background(), Options{})
	c := checked{Unavailable: errors.Is(r.Err, ErrUnavailable), Cure: Cure(r.Err), Took: fmt.Sprintf("%v + %v", r.Opening, r.Testing)}
	if r.Err != nil {
		c.Err = r.Err.Error()
	}
	if r.Slow != nil {
		c.Slow = r.Slow.Error()
	}
	for _, f := range r.Features {
		if f.Err != nil {
			c.Lost = append(c.Lost, f.Name)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(c)
}

// filterCall installs a seccomp filter for all threads of this process.
func filterCall(word string) error {
	var call uint32
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	if _, err := fmt.Sscanf(word, "kill:%d", &call); err != nil {
		if _, err := fmt.Sscanf(word, "refuse:%d", &call); err != nil {
			return err
		}
		action = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: action},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if call == unix.SYS_CLONE {
		// Threads are let through: without them the Go runtime ends the process.
		const firstArgument = 16 // struct seccomp_data; its lower half, little-endian
		filter = append(filter[:1:1],
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 3},
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: firstArgument},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_THREAD, Jt: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}
