// Package spantree says which spans a Request becomes. Build is a pure function: it
// knows no SDK, reads no clock and makes no ids, so that a span tree can be compared
// with a file.
//
//	POST /v1/chat/completions     SERVER    the HTTP exchange
//	└ chat {model}                INTERNAL  what the client asked for and was told
//	  └ llm_request               INTERNAL  one per request inside the engine
//	    ├ wait                    level ≥ 1; one more for each preemption
//	    ├ prefill                 level ≥ 1
//	    └ decode                  level ≥ 1
//	    • gen_ai.token.scheduled, gen_ai.token.generated    level 2: events
//
// Where the HTTP side was not captured the llm_request spans are the roots, all of one
// trace; where the engine side was not, the first two spans stand alone.
//
// Measured times are never moved. What is chosen is where a parent begins and ends: it
// encloses its children. So the two spans of a client that left end when the server had
// dropped the engine's request, not when the connection closed.
//
// docs/spans.md is the reference of all of it; a test here compares the two.
//
// Strings from clients are made valid UTF-8 (OTLP refuses anything else, and with it the
// whole batch) and cut to a bounded length.
package spantree
