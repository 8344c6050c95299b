package preload

import _ "embed"

//go:embed libtokenscope_arm64.so
var library []byte
