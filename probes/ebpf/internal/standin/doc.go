// Package standin is a process that behaves like a server toward probes, for as long
// as it takes to see whether they work: it reads a request from a socket, answers by
// system calls, and calls functions with the C calling convention that take what
// libzmq's functions of the same name take.
//
// It needs nothing of the machine but a fork: no compiler, no file, no exec, no memory
// that may be written and executed. The child is a copy of this process in which only
// the assembly of fork_GOARCH.s ever runs, step by step down a list that was written
// before; the Go runtime's other threads are not in it. It may die, that is what it is
// for: what kills it at a probe would have killed the server.
//
// It shares the caller's seccomp filters, namespaces, capabilities and cgroup, as a
// server started beside it does.
package standin
