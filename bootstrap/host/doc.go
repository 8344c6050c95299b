// Package host tells what a machine has that watching a server depends on: its kernel,
// what this process may do, how libraries can be loaded, which Pythons and engines are
// installed, and what a running process has mapped.
//
// It reads files and runs nothing: not Python, which may take seconds and writes caches,
// and not a shell, which a distroless image does not have. What cannot be read is not
// guessed: a Reading says why.
//
// What the findings mean is judged elsewhere (package bootstrap).
package host
