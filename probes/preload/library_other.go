//go:build !amd64 && !arm64

package preload

// There is no library for this architecture.
var library []byte
