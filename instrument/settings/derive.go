package settings

// Settings that depend on others: where traces go, how they are sampled and batched.

import (
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"

	portGRPC = "4317" // registered for OTLP over gRPC
	portHTTP = "4318" // the specification's port for OTLP over HTTP

	tracesPath = "v1/traces" // what OTLP over HTTP adds to a base address
	tracesWord = "traces"    // how a complete address for traces ends
)

// grpcSchemes are the schemes that grpc-go resolves and that need no credentials of
// ours: https://github.com/grpc/grpc/blob/master/doc/naming.md.
var grpcSchemes = []string{"unix", "dns", "passthrough"}

// schemeGRPC is no scheme of grpc-go, but vLLM's documentation has it in the endpoint
// of its own tracing (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=grpc://HOST:4317), as other
// languages' exporters take it. It says the protocol and nothing of TLS.
const schemeGRPC = "grpc"

// deriveOTLP decides where traces go. Without an endpoint variable nothing is sent
// over the network unless otlp was asked for by name, and an endpoint that cannot be
// read is never replaced by another.
func (l *loader) deriveOTLP() {
	sp := spec(NameOTLPEndpoint)
	variable, text := l.firstSet(sp)
	exporters := get[[]string](l, NameTracesExporter)
	explicit := l.results[NameTracesExporter].value != nil

	if variable == "" {
		if !explicit {
			l.set(NameTracesExporter, []string{}, SourceDefault)
		}
		l.set(NameOTLPEndpoint, nil, SourceDefault)
		l.setProtocol(address{}, "")
		if slices.Contains(exporters, ExporterOTLP) {
			l.set(NameOTLPEndpoint, standardEndpoint(get[string](l, NameOTLPProtocol)), SourceDefault)
		}
		return
	}

	if !explicit {
		exporters = []string{ExporterOTLP}
		l.set(NameTracesExporter, exporters, variable)
	}
	a, problem := parseEndpoint(text, get[bool](l, NameOTLPInsecure))
	if problem == "" {
		problem = l.setProtocol(a, variable)
	}
	if problem != "" {
		l.setProtocol(address{}, "")
		l.endpointFailed(variable, problem, exporters)
		return
	}
	u := signalURL(a.url, get[string](l, NameOTLPProtocol), isBase(sp, variable, a.url))
	l.set(NameOTLPEndpoint, Endpoint{u}, variable)
	if a.bare && u.Scheme == schemeHTTPS && slices.Contains(exporters, ExporterOTLP) {
		l.warn(NameOTLPEndpoint, "has no http:// or https:// before it",
			"using TLS ("+Endpoint{u}.String()+"); write http://, or set OTEL_EXPORTER_OTLP_INSECURE=true, for a collector without TLS")
	}
}

// endpointFailed takes otlp from the exporters and says so once.
func (l *loader) endpointFailed(variable, problem string, exporters []string) {
	l.set(NameOTLPEndpoint, nil, variable)
	wanted := slices.Contains(exporters, ExporterOTLP)
	rest := slices.DeleteFunc(slices.Clone(exporters), func(e string) bool { return e == ExporterOTLP })
	l.set(NameTracesExporter, rest, l.source(NameTracesExporter))
	using := "it is ignored"
	if wanted {
		using = "nothing is sent to a collector; write it as http://HOST:PORT or https://HOST:PORT"
	}
	l.warn(NameOTLPEndpoint, problem, using)
}

// setProtocol derives the protocol from the address where it was not set, and says what
// is wrong when the two do not go together. variable holds the address.
func (l *loader) setProtocol(a address, variable string) (problem string) {
	if l.source(NameOTLPProtocol) == SourceDefault {
		protocol, source := ProtocolGRPC, SourceDefault
		if u := a.url; u != nil {
			switch {
			case a.grpc:
				source = "scheme of " + variable
			case u.Port() == portHTTP:
				protocol, source = ProtocolHTTPProtobuf, "port of "+variable
			case u.Port() == portGRPC:
				source = "port of " + variable
			case strings.Trim(u.Path, "/") != "":
				// gRPC has no place for a path, so whoever gives one means HTTP.
				protocol, source = ProtocolHTTPProtobuf, "path of "+variable
			}
		}
		l.set(NameOTLPProtocol, protocol, source)
	}
	if protocol := get[string](l, NameOTLPProtocol); a.grpc && protocol != ProtocolGRPC {
		return "its scheme is for grpc, but the protocol is " + protocol
	}
	return ""
}

// insecure reports whether exports go without TLS. A scheme decides where it can; a
// local socket needs none.
func (l *loader) insecure() bool {
	switch get[Endpoint](l, NameOTLPEndpoint).Scheme() {
	case schemeHTTP, "unix":
		return true
	case schemeHTTPS:
		return false
	}
	return get[bool](l, NameOTLPInsecure)
}

// standardEndpoint is where a collector listens when nobody says otherwise.
func standardEndpoint(protocol string) Endpoint {
	if protocol == ProtocolGRPC {
		return Endpoint{&url.URL{Scheme: schemeHTTP, Host: "localhost:" + portGRPC}}
	}
	return Endpoint{&url.URL{Scheme: schemeHTTP, Host: "localhost:" + portHTTP, Path: "/" + tracesPath}}
}

// isBase reports whether the variable holds an address that other signals share, rather
// than that of traces. The console of Managed Service for OpenTelemetry gives out the
// latter alone (…/api/otlp/traces), so ARMS_ENDPOINT may hold it as well.
func isBase(sp *Spec, variable string, u *url.URL) bool {
	if variable == envARMSEndpoint {
		return path.Base(u.Path) != tracesWord
	}
	return variable != sp.Env[0]
}

// signalURL gives the address that traces are sent to: over HTTP, the base with
// v1/traces added, and an address for traces as it is. Its path begins with a slash,
// which JoinPath does not see to where there is no path yet.
func signalURL(u *url.URL, protocol string, base bool) *url.URL {
	if protocol == ProtocolGRPC {
		return u
	}
	if u.Path == "" {
		root := *u
		root.Path = "/"
		u = &root
	}
	if base {
		return u.JoinPath(tracesPath)
	}
	return u
}

// address is an endpoint as it was written.
type address struct {
	url *url.URL
	// bare says that its scheme does not tell whether TLS is used; url has http or https
	// for it as OTEL_EXPORTER_OTLP_INSECURE says.
	bare bool
	// grpc says that it can only be meant for gRPC.
	grpc bool
}

// parseEndpoint reads an endpoint. Problems never repeat the text, since what cannot be
// read cannot be masked either.
func parseEndpoint(text string, insecure bool) (a address, problem string) {
	if tokenProblem(text) != "" {
		return address{}, "has a space or a character that is not printable ASCII"
	}
	first, rest, _ := strings.Cut(text, ":")
	scheme := strings.ToLower(first)
	slashes := strings.HasPrefix(rest, "//")
	switch {
	case slices.Contains(grpcSchemes, scheme) && rest != "":
		// Complete with or without "//": unix:/path, dns:host:port.
		return parseGRPCName(text)
	case scheme == schemeGRPC && slashes:
		a.bare, a.grpc = true, true
		text = strings.TrimPrefix(rest, "//")
	case (scheme == schemeHTTP || scheme == schemeHTTPS) && !slashes && rest != "":
		// "http:/host" is a slip, not a host called http.
		return address{}, "is not a URL"
	case scheme == schemeHTTP || scheme == schemeHTTPS:
	case slashes:
		return address{}, "has a scheme that is neither http nor https"
	default:
		a.bare = true
	}
	if a.bare {
		scheme = schemeHTTPS
		if insecure {
			scheme = schemeHTTP
		}
		text = scheme + "://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return address{}, "is not a URL"
	}
	a.url = u
	return a, hostProblem(u)
}

// parseGRPCName reads a name for grpc-go's resolvers and gives it its long form, which
// is a URL ("unix:///path", "dns:///host:port").
func parseGRPCName(text string) (address, string) {
	u, err := url.Parse(text)
	if err != nil {
		return address{}, "is not a URL"
	}
	if strings.Trim(u.Opaque+u.Host+u.Path, "/") == "" {
		return address{}, "names nothing behind its scheme"
	}
	u.OmitHost = false
	if u.Opaque != "" && u.Scheme != "unix" {
		u.Path, u.Opaque = "/"+u.Opaque, ""
	}
	return address{url: u, grpc: true}, ""
}

// hostProblem says what is wrong with the host and port of an HTTP address.
func hostProblem(u *url.URL) string {
	if u.Hostname() == "" {
		return "has no host"
	}
	if _, port, err := net.SplitHostPort(u.Host); err == nil {
		// The upper bound of a port number is that of its 16 bits.
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "has a port that is not a number from 1 to 65535"
		}
	}
	return ""
}

// deriveSampler gives the ratio samplers their argument, and takes it from others.
func (l *loader) deriveSampler() {
	sampler := get[string](l, NameSampler)
	arg := l.results[NameSamplerArg]
	takesArg := sampler == SamplerTraceIDRatio || sampler == SamplerParentBasedTraceIDRatio
	switch {
	case takesArg && arg.value == nil:
		l.set(NameSamplerArg, 1.0, SourceDefault)
	case !takesArg && arg.value != nil:
		l.warn(NameSamplerArg, "the sampler "+sampler+" takes no argument", "it is ignored")
		l.set(NameSamplerArg, nil, SourceDefault)
	}
}

// deriveBatch keeps the batch within the queue, as the SDK requires.
func (l *loader) deriveBatch() {
	queue, batch := get[int64](l, NameBSPMaxQueueSize), get[int64](l, NameBSPMaxBatchSize)
	if batch <= queue {
		return
	}
	source := l.source(NameBSPMaxQueueSize)
	if l.source(NameBSPMaxBatchSize) != SourceDefault {
		l.warn(NameBSPMaxBatchSize, "more than the queue holds",
			"using "+strconv.FormatInt(queue, 10)+", the size of the queue")
	}
	l.set(NameBSPMaxBatchSize, queue, source)
}

// checkTogether warns of settings that have no effect beside others.
func (l *loader) checkTogether() {
	record := get[string](l, NameRecord)
	if get[bool](l, NameWithContent) && record == "" {
		l.warn(NameWithContent, "there is no recording", "give --record FILE as well")
	}
	if record != "" && get[string](l, NameCapture) == CaptureOff {
		l.warn(NameRecord, "capture is off ("+l.source(NameCapture)+")", "nothing is recorded")
	}
	l.checkARMS()
	key, cert := l.results[NameOTLPClientKey], l.results[NameOTLPClientCert]
	switch {
	case key.value != nil && cert.value == nil:
		l.warn(NameOTLPClientKey, "there is no client certificate beside it", "no client certificate is shown; set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE as well")
	case key.value == nil && cert.value != nil:
		l.warn(NameOTLPClientCert, "there is no client key beside it", "no client certificate is shown; set OTEL_EXPORTER_OTLP_CLIENT_KEY as well")
	}
}

// checkARMS says once that what is set for ARMS leads nowhere without an endpoint: its own
// launcher makes one of the region, but data goes only where somebody said in so many
// words. Whoever named other exporters, or none, does not expect it.
func (l *loader) checkARMS() {
	if l.source(NameOTLPEndpoint) != SourceDefault || get[bool](l, NameSDKDisabled) {
		return // the endpoint is there, or it was said what is wrong with it
	}
	wanted := slices.Contains(get[[]string](l, NameTracesExporter), ExporterOTLP)
	if !wanted && l.source(NameTracesExporter) != SourceDefault {
		return
	}
	for _, name := range []string{NameLicenseKey, NameWorkspace, NameProject, NameCloudRegion, NameIsPublic} {
		if source := l.source(name); l.results[name].value == nil || !strings.HasPrefix(source, "ARMS_") {
			continue
		}
		using := "nothing is sent to ARMS"
		if wanted {
			using += ", only to localhost"
		}
		l.warn(name, "no endpoint is set, and none is derived from a region", using+"; set "+envARMSEndpoint+" or OTEL_EXPORTER_OTLP_ENDPOINT")
		return
	}
}
