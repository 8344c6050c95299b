package instrument

import (
	"runtime/debug"
	"testing"
)

func TestBuildVersion(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	tests := []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"module", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{"working tree", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{setting("vcs.revision", revision), setting("vcs.modified", "false")}}, "devel-0123456789ab"},
		{"modified working tree", debug.BuildInfo{Settings: []debug.BuildSetting{setting("vcs.revision", revision), setting("vcs.modified", "true")}}, "devel-0123456789ab+modified"},
		{"short revision", debug.BuildInfo{Settings: []debug.BuildSetting{setting("vcs.revision", "42")}}, "devel-42"},
		{"nothing known", debug.BuildInfo{}, "devel"},
	}
	for _, tt := range tests {
		if got := buildVersion(&tt.info); got != tt.want {
			t.Errorf("%s: buildVersion(…) = %q; want %q", tt.name, got, tt.want)
		}
	}
}
