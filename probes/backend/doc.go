// Package backend is what the backends that watch a running workload have in common:
// the clocks that they tell, what they know of a process and how they choose those
// whose received messages are wanted, and how much they capture by default.
//
// What they have in common toward the rest of the program, the events, is package
// capture.
package backend
