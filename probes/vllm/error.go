package vllm

import (
	"fmt"

	"github.com/tokenscope/tokenscope/probes/stream"
)

// SyntaxError says where a message could not be understood.
type SyntaxError struct {
	// Message is the kind of message.
	Message string
	// Offset is that of the offending value in the payload; Len is the payload's length.
	Offset, Len int
	Err         error
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("decode vllm %s: byte %d of %d: %v", e.Message, e.Offset, e.Len, e.Err)
}

func (e *SyntaxError) Unwrap() error { return e.Err }

// at makes a SyntaxError of an error at rest, the unread end of payload.
func at(message string, payload *stream.Part, rest cursor, err error) error {
	return &SyntaxError{Message: message, Offset: len(payload.Head()) - len(rest), Len: payload.Len, Err: err}
}
