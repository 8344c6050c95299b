package host

// Mounts: which folders allow programs and libraries to be run, and what proc hides.

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Mount is one line of /proc/self/mountinfo.
type Mount struct {
	Point, Type string
	// Options are those of the mount and those of its file system together.
	Options []string
}

// Has reports whether the mount has an option.
func (m Mount) Has(option string) bool {
	for _, o := range m.Options {
		if o == option {
			return true
		}
	}
	return false
}

// Mounts lists the mounts that this process sees, in the order in which they were made.
func (v View) Mounts() ([]Mount, error) {
	data, err := readLimited(v.path("/proc/self/mountinfo"), maxMountBytes)
	if err != nil {
		return nil, err
	}
	return parseMounts(string(data)), nil
}

// maxMountBytes holds those of a node with fifty thousand mounts.
const maxMountBytes = 16 << 20

// parseMounts reads mountinfo: id, parent, device, root, point, options, optional
// fields, "-", type, source, options of the file system. Lines of another form are
// passed over.
func parseMounts(text string) []Mount {
	var mounts []Mount
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		for i := 6; i+3 < len(fields); i++ {
			if fields[i] == "-" {
				options := append(strings.Split(fields[5], ","), strings.Split(fields[i+3], ",")...)
				mounts = append(mounts, Mount{Point: unescape(fields[4]), Type: fields[i+1], Options: options})
				break
			}
		}
	}
	return mounts
}

// unescape undoes the kernel's octal escapes of white space and backslashes.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// MountOf finds the mount that path is on; false where none holds it.
func MountOf(mounts []Mount, path string) (Mount, bool) {
	var found Mount
	ok := false
	for _, m := range mounts {
		// A later mount on the same point hides the earlier one.
		if holds(m.Point, path) && (!ok || len(m.Point) >= len(found.Point)) {
			found, ok = m, true
		}
	}
	return found, ok
}

func holds(folder, path string) bool {
	rest, ok := strings.CutPrefix(filepath.Clean(path), folder)
	return ok && (rest == "" || strings.HasPrefix(rest, "/") || folder == "/")
}

// HidePID is proc's option hidepid: which processes of other users it shows. "" is all.
func HidePID(mounts []Mount) string {
	m, _ := MountOf(mounts, "/proc")
	for _, o := range m.Options {
		// Numbers until Linux 5.8, names as well since then.
		switch value, ok := strings.CutPrefix(o, "hidepid="); {
		case !ok, value == "0", value == "off":
		default:
			return value
		}
	}
	return ""
}
