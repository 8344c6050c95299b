package preload

import (
	"slices"
	"strings"
	"testing"
)

func TestInject(t *testing.T) {
	const shim = "/lib/tokenscope/libtokenscope-0123456789abcdef.so"
	const ring = EnvRing + "=/proc/7/fd/3"
	const older = "/old/libtokenscope-fedcba9876543210.so"
	for _, tc := range []struct {
		name      string
		env, want []string
	}{
		{"empty", nil, []string{"LD_PRELOAD=" + shim, ring}},
		{"others stay as they are", []string{"A=1", "", "=x", "NOEQUALS", "B=\xff=", "A=2"},
			[]string{"A=1", "", "=x", "NOEQUALS", "B=\xff=", "A=2", "LD_PRELOAD=" + shim, ring}},
		{"in front of the user's", []string{"LD_PRELOAD=/a.so /b.so:c.so", "A=1"}, []string{"LD_PRELOAD=" + shim + ":/a.so /b.so:c.so", "A=1", ring}},
		{"separators stay", []string{"LD_PRELOAD= :/a.so: "}, []string{"LD_PRELOAD=" + shim + ": :/a.so: ", ring}},
		{"variable without a value", []string{"LD_PRELOAD="}, []string{"LD_PRELOAD=" + shim, ring}},
		{"name without a value is none", []string{"LD_PRELOAD"}, []string{"LD_PRELOAD", "LD_PRELOAD=" + shim, ring}},
		{"longer name", []string{"LD_PRELOAD_X=/a.so"}, []string{"LD_PRELOAD_X=/a.so", "LD_PRELOAD=" + shim, ring}},
		{"each of several", []string{"LD_PRELOAD=/a.so", "LD_PRELOAD=/b.so"}, []string{"LD_PRELOAD=" + shim + ":/a.so", "LD_PRELOAD=" + shim + ":/b.so", ring}},
		{"another ring", []string{EnvRing + "=/x", "A=1", EnvRing + "=/y"}, []string{"A=1", "LD_PRELOAD=" + shim, ring}},
		{"another build of the library", []string{"LD_PRELOAD=" + older + ":/a.so"}, []string{"LD_PRELOAD=" + shim + ":/a.so", ring}},
		{"another build in between", []string{"LD_PRELOAD=/a.so " + older + " /b.so"}, []string{"LD_PRELOAD=" + shim + ":/a.so /b.so", ring}},
		{"another build alone", []string{"LD_PRELOAD=" + older}, []string{"LD_PRELOAD=" + shim, ring}},
		{"another build at the end", []string{"LD_PRELOAD=/a.so:" + older}, []string{"LD_PRELOAD=" + shim + ":/a.so:", ring}},
		{"the same build", []string{"LD_PRELOAD=" + shim + ":" + shim}, []string{"LD_PRELOAD=" + shim, ring}},
		{"another build in memory", []string{"LD_PRELOAD=/proc/12/fd/9:/a.so"}, []string{"LD_PRELOAD=" + shim + ":/a.so", ring}},
		{"a user's library of a like name", []string{"LD_PRELOAD=/a/libtokenscope-tools.so"}, []string{"LD_PRELOAD=" + shim + ":/a/libtokenscope-tools.so", ring}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := slices.Clone(tc.env)
			got, err := (&Ring{path: "/proc/7/fd/3"}).Inject(in, shim)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("Inject(%q) = %q, %v; want %q", tc.env, got, err, tc.want)
			}
			if !slices.Equal(in, tc.env) {
				t.Errorf("Inject changed its argument to %q", in)
			}
		})
	}
}

func TestInjectRefuses(t *testing.T) {
	long := []string{"LD_PRELOAD=" + strings.Repeat("/a.so:", maxEnvString/6)}
	for _, tc := range []struct {
		name, shim string
		env        []string
		want       string
	}{
		{"colon", "/a:b/x.so", nil, `':'`},
		{"space", "/a b/x.so", nil, `' '`},
		{"white space of musl", "/a\tb/x.so", nil, `'\t'`},
		{"token of glibc", "/$ORIGIN/x.so", nil, `'$'`},
		{"relative", "lib/x.so", nil, "not absolute"},
		{"no path", "", nil, "not absolute"},
		{"long path", "/" + strings.Repeat("a", maxShimPath), nil, "shorter directory"},
		{"long variable", "/x.so", long, "shorten it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := (&Ring{path: "/ring"}).Inject(tc.env, tc.shim)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Inject with %q = %q, %v; want an error with %q", tc.shim, got, err, tc.want)
			}
		})
	}
}
