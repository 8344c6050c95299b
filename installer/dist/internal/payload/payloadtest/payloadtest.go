// Package payloadtest has a small release for the tests of the artefacts: programs of a few bytes
// and texts that can be told apart.
package payloadtest

import (
	"time"

	"github.com/tokenscope/tokenscope/installer/dist/internal/payload"
)

// Time is when the release was made: an even second, since a zip archive counts in twos.
var Time = time.Date(2026, 3, 4, 5, 6, 8, 0, time.UTC)

// Release gives a new release for the architecture.
func Release(arch string) *payload.Release {
	return &payload.Release{
		Arch: arch,
		Programs: map[string][]byte{
			payload.Launcher:  []byte("program instrument for " + arch),
			payload.Bootstrap: []byte("program bootstrap for " + arch),
		},
		Licence:    []byte("our licence\n"),
		ThirdParty: []byte("their licences\n"),
		SBOM:       []byte(`{"bomFormat":"CycloneDX"}`),
		Readme:     []byte("# Read me\n"),
		Changelog:  []byte("# What changed\n"),
		Time:       Time,
	}
}
