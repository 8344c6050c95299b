package preload

import _ "embed"

//go:embed libtokenscope_amd64.so
var library []byte
