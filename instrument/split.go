package instrument

// Whose word is which: where our flags end and the workload's command line begins.
//
// This is our own code because no flag library promises to leave the workload's
// words alone. It reads flags as package flag does ("-x" and "--x" alike, "=value"
// or the next word), so that the library, which later gets only our words, agrees.

import (
	"fmt"
	"strings"
)

// flagTable says of each flag, by its name without dashes, whether a value follows.
type flagTable map[string]bool

// split divides args (without the program's name) at the first word that is no flag.
// rest is a suffix of args and untouched; dashes says that "--" stood before it, so
// that its first word is a program whatever it is called.
func split(args []string, flags flagTable) (own, rest []string, dashes bool, err error) {
	for i := 0; i < len(args); {
		word := args[i]
		if word == "--" {
			return args[:i], args[i+1:], true, nil
		}
		if !isFlag(word) {
			return args[:i], args[i:], false, nil
		}
		n, err := flagWords(args[i:], flags)
		if err != nil {
			return nil, nil, false, err
		}
		i += n
	}
	return args, nil, false, nil
}

// isFlag reports whether a word is a flag. A lone "-" is a name, as everywhere.
func isFlag(word string) bool { return len(word) > 1 && word[0] == '-' }

// flagName gives a flag's name and whether its value is part of the same word.
func flagName(word string) (name string, hasValue bool) {
	name, _, hasValue = strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
	return name, hasValue
}

// flagWords says how many words the flag at the start of args takes: one or two.
func flagWords(args []string, flags flagTable) (int, error) {
	name, hasValue := flagName(args[0])
	takesValue, known := flags[name]
	switch {
	case !known:
		return 0, fmt.Errorf("unknown flag %s", shown(args[0], hasValue))
	case hasValue || !takesValue:
		return 1, nil
	case len(args) == 1:
		return 0, fmt.Errorf("%s needs a value", args[0])
	case isFlag(args[1]):
		// Most likely the value was forgotten; "=" is there for who means it.
		return 0, fmt.Errorf("%s needs a value; %s looks like a flag (write %s=VALUE if it is meant)",
			args[0], shown(args[1], strings.Contains(args[1], "=")), args[0])
	}
	return 2, nil
}

// shown gives a flag without its value, which may be a secret meant for the workload.
func shown(word string, hasValue bool) string {
	if hasValue {
		word, _, _ = strings.Cut(word, "=")
	}
	return quoteWord(word)
}

// arrange sorts the words behind a subcommand: flags of the launcher itself, which may
// stand on either side of the subcommand, the subcommand's own flags, and operands.
// Flags may follow operands; "--" ends them.
func arrange(args []string, global, local flagTable) (globals, locals, operands []string, err error) {
	all := make(flagTable, len(global)+len(local))
	for name, takesValue := range global {
		all[name] = takesValue
	}
	for name, takesValue := range local {
		all[name] = takesValue
	}
	for len(args) > 0 {
		switch {
		case args[0] == "--":
			return globals, locals, append(operands, args[1:]...), nil
		case !isFlag(args[0]):
			operands = append(operands, args[0])
			args = args[1:]
			continue
		}
		n, err := flagWords(args, all)
		if err != nil {
			return nil, nil, nil, err
		}
		// A subcommand's own flag comes first, so that it can have its own --help.
		if name, _ := flagName(args[0]); hasFlag(local, name) {
			locals = append(locals, args[:n]...)
		} else {
			globals = append(globals, args[:n]...)
		}
		args = args[n:]
	}
	return globals, locals, operands, nil
}

func hasFlag(flags flagTable, name string) bool {
	_, ok := flags[name]
	return ok
}
