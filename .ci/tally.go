// tally reads the output of `go test -json` on stdin and prints what a person wants of it:
// each package's closing line, all that a failed test said, and what tests pass when they
// are named on purpose (-v). With -add FILE it adds its counts to those in FILE; with -sum
// FILE it reads no input and prints the closing line "N passed, N failed, N skipped".
//
//	go test -json ./... | go run .ci/tally.go -add counts
//	go run .ci/tally.go -sum counts
//
// It counts tests and subtests by the verdict that the test runner gave, and a package that
// failed without a failed test (it did not build, it timed out) as one failure. It exits
// with 1 if anything failed, or if no test ran at all.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// event is a line of test2json (see `go doc test2json`) or of a build (`go help buildjson`).
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

type counts struct{ Passed, Failed, Skipped int }

func main() {
	verbose := flag.Bool("v", false, "print each top-level test and its subtests as they end")
	add := flag.String("add", "", "add the counts to those in this file")
	sum := flag.String("sum", "", "print the counts in this file and end")
	flag.Parse()
	failed, err := run(*verbose, *add, *sum)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

func run(verbose bool, add, sum string) (failed bool, err error) {
	if sum != "" {
		c, err := load(sum)
		fmt.Printf("%d passed, %d failed, %d skipped\n", c.Passed, c.Failed, c.Skipped)
		return c.Failed > 0 || c.Passed == 0, err
	}
	c, err := read(os.Stdin, os.Stdout, verbose)
	if err != nil || add == "" {
		return c.Failed > 0, err
	}
	before, err := load(add)
	if err != nil {
		return true, err
	}
	total := counts{before.Passed + c.Passed, before.Failed + c.Failed, before.Skipped + c.Skipped}
	b, err := json.Marshal(total)
	if err != nil {
		return true, err
	}
	return c.Failed > 0, os.WriteFile(add, b, 0o644)
}

func load(path string) (c counts, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	return c, err
}

// key names a test, or with an empty test its package.
type key struct{ pkg, test string }

// read goes through the events of one `go test`.
func read(in io.Reader, out io.Writer, verbose bool) (counts, error) {
	var c counts
	said := map[key][]string{} // what a test has printed so far
	failedIn := map[string]bool{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(out, line) // make's own words, a compiler's
			} else {
				handle(&c, said, failedIn, e, out, verbose)
			}
		}
		if err == io.EOF {
			return c, nil
		}
		if err != nil {
			return c, err
		}
	}
}

func handle(c *counts, said map[key][]string, failedIn map[string]bool, e event, out io.Writer, verbose bool) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "output":
		if e.Test == "" {
			if closing(e.Output) {
				fmt.Fprint(out, e.Output)
			} else {
				said[k] = append(said[k], e.Output)
			}
			return
		}
		said[k] = append(said[k], e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			if e.Action == "fail" && !failedIn[e.Package] {
				c.Failed++
				for k, lines := range said { // of the package, and of tests that never ended
					if k.pkg == e.Package {
						fmt.Fprint(out, strings.Join(lines, ""))
					}
				}
			}
			return
		}
		switch e.Action {
		case "pass":
			c.Passed++
		case "skip":
			c.Skipped++
		case "fail":
			c.Failed++
			failedIn[e.Package] = true
		}
		if e.Action == "fail" {
			fmt.Fprint(out, strings.Join(said[k], ""))
		} else if verbose {
			for _, s := range said[k] {
				if !strings.HasPrefix(s, "=== ") {
					fmt.Fprint(out, s)
				}
			}
		}
		delete(said, k)
	}
}

// closing reports whether a line of a package's output is the test runner's verdict.
func closing(s string) bool {
	for _, prefix := range []string{"ok  \t", "FAIL\t", "?   \t", "---", "\t"} {
		if strings.HasPrefix(s, prefix) && (prefix != "\t" || strings.Contains(s, "coverage:")) {
			return true
		}
	}
	return false
}
