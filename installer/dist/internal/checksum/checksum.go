// Package checksum writes SHA256SUMS as `sha256sum --check` reads it.
package checksum

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
)

// File is the name of the list.
const File = "SHA256SUMS"

// List gives one line a file, sorted by name.
func List(files map[string][]byte) []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		// Two blanks: text and binary are the same on Linux.
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	return b.Bytes()
}
