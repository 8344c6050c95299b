package preload

// What go generate runs here.

//go:generate ./gen.sh
