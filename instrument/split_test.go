package instrument

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// words splits a test's command line at spaces; "_" stands for an empty word.
func words(line string) []string {
	fields := strings.Fields(line)
	for i, f := range fields {
		if f == "_" {
			fields[i] = ""
		}
	}
	return fields
}

func TestSplit(t *testing.T) {
	tests := []struct {
		name   string
		args   string
		own    string
		rest   string
		dashes bool
	}{
		{"program alone", "vllm", "", "vllm", false},
		{"workload's flags stay its own", "--capture off vllm serve --port 1 --capture ebpf", "--capture off", "vllm serve --port 1 --capture ebpf", false},
		{"value after =", "--capture=off vllm", "--capture=off", "vllm", false},
		{"one dash", "-capture off vllm -v", "-capture off", "vllm -v", false},
		{"one dash and =", "-capture=off vllm", "-capture=off", "vllm", false},
		{"empty value after =", "--record= vllm", "--record=", "vllm", false},
		{"value with =", "--record a=b vllm", "--record a=b", "vllm", false},
		{"boolean takes no word", "--with-content vllm", "--with-content", "vllm", false},
		{"boolean with a value", "--with-content=false vllm", "--with-content=false", "vllm", false},
		{"double dash first", "-- python -m x", "", "python -m x", true},
		{"double dash after flags", "--capture=off -- python -m x", "--capture=off", "python -m x", true},
		{"second double dash is the workload's", "-- a -- b", "", "a -- b", true},
		{"double dash behind the program is the workload's", "vllm -- b", "", "vllm -- b", false},
		{"flag behind the double dash is a program", "-- --capture off", "", "--capture off", true},
		{"nothing behind the double dash", "--capture off --", "--capture off", "", true},
		{"short flags", "-v", "-v", "", false},
		{"flags alone", "--capture off", "--capture off", "", false},
		{"lone dash is a word", "- x", "", "- x", false},
		{"lone dash as a value", "--record - x", "--record -", "x", false},
		{"empty word is a word", "_ x", "", "_ x", false},
		{"nothing", "", "", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			own, rest, dashes, err := split(words(tt.args), globalFlags())
			if err != nil {
				t.Fatalf("split(%s) = %v; want no error", tt.args, err)
			}
			if !slices.Equal(own, words(tt.own)) || !slices.Equal(rest, words(tt.rest)) || dashes != tt.dashes {
				t.Errorf("split(%s) = %q, %q, %t; want %s, %s, %t", tt.args, own, rest, dashes, tt.own, tt.rest, tt.dashes)
			}
		})
	}
}

func TestSplitErrors(t *testing.T) {
	tests := []struct{ name, args, want string }{
		{"unknown flag", "--captur off vllm", "unknown flag --captur"},
		{"unknown flag's value is not repeated", "--api-key=secret vllm", "unknown flag --api-key"},
		{"three dashes", "---capture off vllm", "unknown flag ---capture"},
		{"no name", "-=x vllm", "unknown flag -"},
		{"no value", "--capture", "--capture needs a value"},
		{"value forgotten before a flag", "--record --capture off x", "--record needs a value; --capture looks like a flag (write --record=VALUE if it is meant)"},
		{"value forgotten before the double dash", "--record -- vllm", "--record needs a value; -- looks like a flag (write --record=VALUE if it is meant)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, _, err := split(words(tt.args), globalFlags())
			if err == nil || err.Error() != tt.want {
				t.Errorf("split(%s) = %v; want %s", tt.args, err, tt.want)
			}
		})
	}
}

func TestArrange(t *testing.T) {
	tests := []struct{ name, args, globals, locals, operands string }{
		{"flags before operands", "--output spans a b", "", "--output spans", "a b"},
		{"flags behind operands", "a --output=spans b", "", "--output=spans", "a b"},
		{"launcher's flags are told apart", "a --log-level debug --output spans", "--log-level debug", "--output spans", "a"},
		{"help is the subcommand's", "--help", "", "--help", ""},
		{"double dash ends flags", "--output spans -- --output -- x", "", "--output spans", "--output -- x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			globals, locals, operands, err := arrange(words(tt.args), globalFlags(), commandFlags["replay"])
			if err != nil {
				t.Fatalf("arrange(%s) = %v; want no error", tt.args, err)
			}
			got := []string{strings.Join(globals, " "), strings.Join(locals, " "), strings.Join(operands, " ")}
			if diff := cmp.Diff([]string{tt.globals, tt.locals, tt.operands}, got); diff != "" {
				t.Errorf("arrange(%s): globals, locals, operands (-want +got):\n%s", tt.args, diff)
			}
		})
	}
}

// FuzzSplit: whatever stands on the command line, the workload's words are a suffix of
// it, untouched, and nothing between ours and theirs is lost but one "--".
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{
		"vllm\nserve\n--port\n1", "--capture\noff\n--\nx", "--capture=off\n-v\ny", "-\n--", "--record\n--x", "--\n--\n--", "\n\n", "-=\n---",
	} {
		f.Add(seed)
	}
	flags := globalFlags()
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		before := slices.Clone(args)
		own, rest, dashes, err := split(args, flags)
		if !slices.Equal(args, before) {
			t.Fatalf("split(%q) changed its input to %q", before, args)
		}
		if err != nil {
			if own != nil || rest != nil {
				t.Errorf("split(%q) = %q, %q with error %v; want nothing", args, own, rest, err)
			}
			return
		}
		whole := slices.Clone(own)
		if dashes {
			whole = append(whole, "--")
		}
		if whole = append(whole, rest...); !slices.Equal(whole, args) {
			t.Errorf("split(%q) = %q, %q, %t: words are lost or made up", args, own, rest, dashes)
		}
		if len(rest) > 0 && &rest[len(rest)-1] != &args[len(args)-1] {
			t.Errorf("split(%q): %q is not the end of the command line itself", args, rest)
		}
		if !dashes && len(rest) > 0 && isFlag(rest[0]) {
			t.Errorf("split(%q): the workload begins with the flag %q", args, rest[0])
		}
	})
}
