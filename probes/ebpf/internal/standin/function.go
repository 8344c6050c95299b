package standin

// Where the functions lie in this program's file, for probes.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// File is the file that holds the functions: this program's own.
const File = "/proc/self/exe"

// maxMapsBytes bounds the reading of this process's mappings; its program's are the
// first.
const maxMapsBytes = 1 << 20

// Offsets are the places of the functions in File, by the names that libzmq has for
// them.
//
// They are found by the mapping that a function lies in, not by a symbol: a program
// may be stripped of those, and may lie elsewhere than its file says.
func Offsets() (map[string]uint64, error) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, fmt.Errorf("find own functions: %w", err)
	}
	defer maps.Close()
	var at [functionCount]uintptr
	functions(&at)
	offsets := make(map[string]uint64, functionCount)
	for i, name := range map[int]string{
		messageSend:    "zmq_msg_send",
		messageReceive: "zmq_msg_recv",
		socketOpen:     "zmq_socket",
		socketClose:    "zmq_close",
	} {
		if _, err := maps.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("find own functions: %w", err)
		}
		if offsets[name], err = fileOffset(maps, uint64(at[i])); err != nil {
			return nil, fmt.Errorf("find own functions: %w", err)
		}
	}
	return offsets, nil
}

// errNotMapped is the error for an address in no mapping that can be executed.
var errNotMapped = errors.New("the address lies in no program text")

// fileOffset is the place in its file of what lies at an address, by the text of a
// maps file: "from-to permissions offset device inode path".
func fileOffset(maps io.Reader, address uint64) (uint64, error) {
	lines := bufio.NewScanner(io.LimitReader(maps, maxMapsBytes))
	for lines.Scan() {
		var from, to, offset uint64
		var permissions string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s %x", &from, &to, &permissions, &offset); err != nil {
			continue
		}
		if from <= address && address < to && strings.Contains(permissions, "x") {
			return address - from + offset, nil
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, errNotMapped
}
