package preload

// The real library in systems that lack something, and behind OpenSSL.

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// pythonServer starts a server that says on which port it listens. wrap is what runs it.
func pythonServer(t *testing.T, r *Ring, script string, wrap ...string) (cmd *exec.Cmd, port string) {
	t.Helper()
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable, end='')").Output()
	if err != nil {
		t.Skip("needs python3: ", err)
	}
	args := append(wrap, string(python), "-c", script)
	cmd = exec.Command(args[0], args[1:]...)
	if cmd.Env, err = r.Inject(os.Environ(), unpacked(t)); err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, strings.TrimSpace(line)
}

// TestWithoutWipe: where the kernel does not empty the library's state in a child, a
// forked child is a process of its own nevertheless.
func TestWithoutWipe(t *testing.T) {
	wrap := filepath.Join(t.TempDir(), "nowipe")
	compile(t, "-o", wrap, "nowipe.c")
	r := newRing(t, RingOptions{RingBytes: 1 << 20})
	w := start(t, r, Options{})
	cmd, port := pythonServer(t, r, server, wrap)
	for range 2 {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, request)
		conn.Read(make([]byte, 1000))
		conn.Close()
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	w.await("exit of the server", isExit(cmd.Process.Pid))
	w.stop()
	events := map[uint32]string{}
	for _, e := range w.all() {
		events[e.PID] += letter(&e)
		if e.Kind == capture.KindLost {
			t.Errorf("lost %d by %s", e.Len, e.Cause)
		}
	}
	delete(events, 0)
	if len(events) != 2 {
		t.Errorf("events of %d processes; want 2: %v", len(events), events)
	}
	for pid, got := range events {
		if got != "ORWPC" {
			t.Errorf("process %d: %s; want ORWPC", pid, got)
		}
	}
}

// TestWithoutWipeStress: nor is a child that was made by the system call alone taken for
// its parent; it is not seen.
func TestWithoutWipeStress(t *testing.T) {
	program, dir := stressProgram(t)
	wrap := filepath.Join(dir, "nowipe")
	compile(t, "-o", wrap, "nowipe.c")
	r := newRing(t, RingOptions{RingBytes: 64 << 20})
	w := start(t, r, Options{})
	o := stress(t, r, wrap, program, dir, "16", "60")
	w.await("exit of the program", isExit(o.pid))
	w.stop()
	streams, _, lost := told(t, w.all())
	if lost > 0 {
		t.Errorf("%d were lost", lost)
	}
	seen := map[uint64]bool{}
	for key, s := range streams {
		id, ok := s.id()
		if want := o.connections[id]; !ok || want.pid != uint64(s.pid) || seen[id] {
			t.Errorf("connection %v is number %d (%v), told for process %d; want %d, once", key, id, ok, s.pid, want.pid)
		}
		seen[id] = true
	}
	forked, cloned := 0, 0
	for id, s := range o.connections {
		switch {
		case s.pid == uint64(o.pid) && !seen[id]:
			t.Errorf("connection %d of the program itself was not told of", id)
		case s.pid != uint64(o.pid) && seen[id]:
			forked++
		case s.pid != uint64(o.pid):
			cloned++
		}
	}
	if forked == 0 || cloned == 0 {
		t.Errorf("%d children were seen, %d were not; want some of each", forked, cloned)
	}
}

// certificate makes one for this host, in a file together with its key.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "server.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// blockingTLS has the socket under its TLS object, asyncioTLS has memory there.
const blockingTLS = `
import socket, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(%q)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
for _ in range(3):
    conn = context.wrap_socket(listener.accept()[0], server_side=True)
    conn.recv(65536)
    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    conn.recv(65536)
    conn.close()
`

const asyncioTLS = `
import asyncio, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(%q)
async def main():
    left, done = 3, asyncio.Event()
    async def serve(reader, writer):
        nonlocal left
        await reader.read(65536)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await reader.read(65536)
        writer.close()
        left -= 1
        if not left:
            done.set()
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await done.wait()
    await asyncio.sleep(0.1)
asyncio.run(main())
`

func TestTLS(t *testing.T) {
	cert := certificate(t)
	for _, c := range []struct {
		name, script string
		port         bool
	}{
		{"of a socket", blockingTLS, true},
		{"of memory", asyncioTLS, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRing(t, RingOptions{RingBytes: 1 << 20})
			w := start(t, r, Options{})
			cmd, port := pythonServer(t, r, fmt.Sprintf(c.script, cert))
			for range 3 {
				conn, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true})
				if err != nil {
					t.Fatal(err)
				}
				io.WriteString(conn, request)
				io.ReadFull(conn, make([]byte, 40))
				conn.Close()
			}
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			w.await("exit of the server", isExit(cmd.Process.Pid))
			w.stop()
			events := map[uint64]string{}
			for _, e := range w.all() {
				l := letter(&e)
				if l == "" {
					continue
				}
				events[e.Conn] += l
				if !e.TLS {
					t.Errorf("not by TLS: %s", show([]capture.Event{e}))
				}
				want := 0
				if c.port {
					want, _ = strconv.Atoi(port)
				}
				if l == "O" && int(e.Port) != want || l == "R" && string(e.Data) != request || l == "W" && !bytes.HasSuffix(e.Data, []byte("\r\n\r\nok")) {
					t.Errorf("%s", show([]capture.Event{e}))
				}
			}
			if len(events) != 3 {
				t.Errorf("%d connections; want 3", len(events))
			}
			for conn, got := range events {
				if got != "ORWPC" {
					t.Errorf("connection %x: %s; want ORWPC", conn, got)
				}
			}
		})
	}
}

// TestDormant: where something is missing, the program runs as if the library were not
// there, and nothing is said.
func TestDormant(t *testing.T) {
	program, dir := stressProgram(t)
	ring := newRing(t, RingOptions{RingBytes: 64 << 20})
	other := filepath.Join(t.TempDir(), "ring")
	if err := os.WriteFile(other, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("$TSRING1"), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := newRing(t, RingOptions{})
	newer.header.Version = ringVersion + 1
	shim := unpacked(t)
	for _, c := range []struct {
		name string
		ring string
		wrap []string
		maps bool
	}{
		{"no variable", "", nil, false},
		{"no such file", "/nowhere/ring", nil, false},
		{"a directory", dir, nil, false},
		{"a device", "/dev/null", nil, false},
		{"a path that is too long", "/" + strings.Repeat("x", 300), nil, false},
		{"a file that is no ring", other, nil, false},
		{"a file that ends in the header", short, nil, false},
		{"a ring of another version", newer.Path(), nil, false},
		{"too little address space", ring.Path(), []string{"sh", "-c", "ulimit -v 120000; exec env \"$@\"", "sh"}, false},
		{"enough of it", ring.Path(), []string{"sh", "-c", "ulimit -v 2000000; exec env \"$@\"", "sh"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := []string{envPreload + "=" + shim}
			if c.ring != "" {
				env = append(env, EnvRing+"="+c.ring)
			}
			args := []string{program, dir, "4", "10", "calm"}
			if c.wrap != nil {
				// The shell itself has the room, and keeps its number.
				args, env = slices.Concat(c.wrap, env, args), nil
			}
			o := stressIn(t, append(os.Environ(), env...), args[0], args[1:]...)
			if o.count != 40 {
				t.Errorf("%d connections; want 40", o.count)
			}
			maps := slices.ContainsFunc(ring.header.Processes[:], func(p ringProcess) bool { return int(p.Pid) == o.pid })
			if maps != c.maps {
				t.Errorf("it has mapped the ring: %v; want %v", maps, c.maps)
			}
		})
	}
	if newer.header.Refused != 1 {
		t.Errorf("%d processes have refused the ring of another version; want 1", newer.header.Refused)
	}
}
