package semconv

import (
	otel "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// SchemaURL is the schema of the keys in this file.
const SchemaURL = otel.SchemaURL

// HTTP server spans. Origin: OpenTelemetry, docs/http/http-spans.md; all stable.
const (
	// HTTPRequestMethod is the request's method, MethodOther for one that is not
	// registered. string; "POST".
	HTTPRequestMethod = otel.HTTPRequestMethodKey
	// HTTPRoute is the server's route, never the raw path. string; "/v1/completions".
	HTTPRoute = otel.HTTPRouteKey
	// HTTPResponseStatusCode is absent where no response was seen. int; 200.
	HTTPResponseStatusCode = otel.HTTPResponseStatusCodeKey
	// URLPath is the path without query. string; "/v1/completions".
	URLPath = otel.URLPathKey
	// URLScheme is the scheme. string; "http".
	URLScheme = otel.URLSchemeKey
	// NetworkProtocolVersion is HTTP's version. string; "1.1".
	NetworkProtocolVersion = otel.NetworkProtocolVersionKey
	// ServerPort is the server's own TCP port. int; 8000.
	ServerPort = otel.ServerPortKey
	// UserAgentOriginal is the User-Agent header. string; "OpenAI/Python 1.99.1".
	UserAgentOriginal = otel.UserAgentOriginalKey
	// ErrorType says why something failed, in few words of a small set. string;
	// "500", "client_disconnect". See the ErrorType… values in names.go.
	ErrorType = otel.ErrorTypeKey
)

// Resources. Origin: OpenTelemetry, docs/resource; stable where not marked.
const (
	// ServiceName is the service. string; "chat-prod".
	ServiceName = otel.ServiceNameKey
	// ServiceInstanceID is unique to one run of the agent. string; a UUID.
	ServiceInstanceID = otel.ServiceInstanceIDKey
	// TelemetrySDKName, TelemetrySDKLanguage and TelemetrySDKVersion are the SDK's.
	// string; "opentelemetry", "go", "1.47.0".
	TelemetrySDKName     = otel.TelemetrySDKNameKey
	TelemetrySDKLanguage = otel.TelemetrySDKLanguageKey
	TelemetrySDKVersion  = otel.TelemetrySDKVersionKey
	// TelemetryDistroName and TelemetryDistroVersion are Tokenscope's own. string;
	// "tokenscope", "0.1.0".
	TelemetryDistroName    = otel.TelemetryDistroNameKey
	TelemetryDistroVersion = otel.TelemetryDistroVersionKey
	// HostName is the host's name. string; "gpu-17". Development.
	HostName = otel.HostNameKey
	// ContainerID is the container's id. string; 64 hex digits. Development.
	ContainerID = otel.ContainerIDKey
	// CloudRegion is the region. string; "cn-hangzhou". Development.
	CloudRegion = otel.CloudRegionKey
	// K8SPodName, K8SPodUID, K8SNamespaceName, K8SNodeName and K8SContainerName place
	// the pod. string; "vllm-7d4b", "default". Development.
	K8SPodName       = otel.K8SPodNameKey
	K8SPodUID        = otel.K8SPodUIDKey
	K8SNamespaceName = otel.K8SNamespaceNameKey
	K8SNodeName      = otel.K8SNodeNameKey
	K8SContainerName = otel.K8SContainerNameKey
)
