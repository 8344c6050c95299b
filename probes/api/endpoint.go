package api

// The routes of the servers' APIs that make Exchanges.

import (
	"bytes"
	"strings"

	"github.com/tokenscope/tokenscope/instrument/request"
)

// endpoint is a route of a server's API.
type endpoint struct {
	route string
	kind  request.Endpoint
}

// endpoints are the routes that make Exchanges, of vLLM (0.8 to 0.33) and SGLang.
var endpoints = []endpoint{
	{"/v1/chat/completions", request.EndpointChat},
	{"/v1/completions", request.EndpointCompletions},
	{"/v1/responses", request.EndpointResponses},
	{"/v1/messages", request.EndpointMessages},
	{"/v1/embeddings", request.EndpointEmbeddings},
	{"/v2/embed", request.EndpointEmbeddings},
	{"/score", request.EndpointScore},
	{"/v1/score", request.EndpointScore},
	{"/rerank", request.EndpointRerank},
	{"/v1/rerank", request.EndpointRerank},
	{"/v2/rerank", request.EndpointRerank},
	{"/pooling", request.EndpointPooling},
	{"/classify", request.EndpointClassify},
	{"/generate", request.EndpointGenerate},
	{"/inference/v1/generate", request.EndpointGenerate},
}

// foreign are routes that end like one of ours and are none: SGLang's Ollama dialect.
var foreign = []string{"/api/generate"}

// maxPath bounds the path that an Exchange keeps; a longer one is no route.
const maxPath = 1 << 10

// lookup finds the endpoint of a path: itself, or behind a prefix under which a proxy
// mounted the server (--root-path). Of several that fit the longest counts.
func lookup(path []byte) (endpoint, bool) {
	var best endpoint
	if len(path) > maxPath {
		return best, false
	}
	for _, f := range foreign {
		if strings.HasSuffix(string(path), f) {
			return best, false
		}
	}
	for _, e := range endpoints {
		// Every route begins with a slash, so a suffix is one on a path boundary.
		if len(e.route) > len(best.route) && len(path) >= len(e.route) &&
			string(path[len(path)-len(e.route):]) == e.route {
			best = e
		}
	}
	return best, best.route != ""
}

// pathOf returns a request target's path: without query, and without scheme and
// authority where the target has them (as requests to proxies do).
func pathOf(target []byte) []byte {
	if i := bytes.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
	}
	if i := bytes.Index(target, []byte("://")); i > 0 && target[0] != '/' {
		target = target[i+len("://"):]
		if i = bytes.IndexByte(target, '/'); i < 0 {
			return []byte{'/'}
		}
		target = target[i:]
	}
	return target
}
