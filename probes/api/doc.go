// Package api says what HTTP bodies mean: it follows the connections of inference
// servers (vLLM, SGLang, and what else speaks the OpenAI and Anthropic dialects),
// and turns what it sees into a request.Exchange for each call of their API.
//
// A Server takes capture Events, keeps one http1.Conn a connection, and hands each
// Exchange to a request.HTTPSink. Only POSTs to the endpoints of its table make
// Exchanges; health checks, metrics pages and unknown routes are followed, because
// connections are shared, and counted.
//
// Bodies are read as they stream by, with constant memory: a scanner visits the few
// keys that matter and skips all else; neither prompt nor answer text is kept. The
// response's "metrics" object is not among those keys, on purpose: our own numbers
// must not be copies of the engine's.
//
// # Cut bodies
//
// Where the middle of a JSON body was not captured, keys before the cut count. So
// do top-level keys behind it, when the body's end was captured: strings and
// brackets can be told apart backwards from the end, so the last bytes can be read
// exactly (see tail). What lies between is unknown, and the Exchange says so.
//
// # First token
//
// Exchange.FirstToken is the time of the first server-sent event that carries output:
// for chat, the first with a choice whose delta has content, reasoning, a refusal,
// tool calls or token ids that are not empty (the role chunk that vLLM sends first has
// none of these); for completions and generate, text or token ids that are not empty;
// for messages, content_block_delta; for responses, any event whose type ends in ".delta".
package api
