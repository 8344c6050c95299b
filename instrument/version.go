package instrument

import "runtime/debug"

// version is set when a release is built:
//
//	go build -ldflags "-X github.com/tokenscope/tokenscope/instrument.version=v1.2.3"
var version string

// Version gives the program's version: the release's, else the module's, else the
// commit that it was built from.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return buildVersion(info)
}

// buildVersion words what the Go tool knows of a build.
func buildVersion(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	var revision, modified string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+modified"
		}
	}
	if revision == "" {
		return "devel"
	}
	// Twelve digits, as the Go tool's own pseudo-versions have.
	return "devel-" + revision[:min(len(revision), 12)] + modified
}
