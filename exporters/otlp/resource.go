package otlp

import (
	"os"
	"strings"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/tokenscope/tokenscope/semconv"
)

// ResourceConfig is what the resource is made of, beside what the machine tells. Its
// order of precedence, highest first: ServiceName, Attributes, the ARMS fields, what was
// detected.
type ResourceConfig struct {
	// ServiceName is the service's name; "" leaves the name to Attributes and, failing
	// that, to "unknown_service:" and Executable.
	ServiceName string
	// Executable is the base name of the workload's command; it may be "".
	Executable string
	// Attributes are those of OTEL_RESOURCE_ATTRIBUTES.
	Attributes map[string]string
	// Version is Tokenscope's own.
	Version string
	Dialect semconv.Dialect
	// ARMSRegion and ARMSWorkspace are ARMS_REGION_ID and ARMS_WORKSPACE.
	ARMSRegion, ARMSWorkspace string

	// Getenv and ReadFile are os.Getenv and os.ReadFile where they are nil.
	Getenv   func(string) string
	ReadFile func(string) ([]byte, error)
}

// Engine is what an engine is known to be; a field is "" where it is not.
type Engine struct{ Name, Version, Model string }

// NewResource describes the service and where it runs. Each has its own
// service.instance.id.
//
// The process is left out: spans are the server's, and the pid at hand is the agent's.
func NewResource(c ResourceConfig) *resource.Resource {
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	if c.ReadFile == nil {
		c.ReadFile = os.ReadFile
	}
	name := "unknown_service"
	if c.Executable != "" {
		name += ":" + c.Executable
	}
	values := map[attribute.Key]string{
		semconv.ServiceName:            name,
		semconv.ServiceInstanceID:      uuid.NewString(),
		semconv.TelemetrySDKName:       "opentelemetry",
		semconv.TelemetrySDKLanguage:   "go",
		semconv.TelemetrySDKVersion:    sdk.Version(),
		semconv.TelemetryDistroName:    semconv.Distro,
		semconv.TelemetryDistroVersion: c.Version,
		semconv.DialectKey:             c.Dialect.String(),
	}
	if host, err := os.Hostname(); err == nil {
		values[semconv.HostName] = host
	}
	values[semconv.ContainerID] = containerID(&c)
	kubernetes(&c, values)
	values[semconv.CloudRegion] = c.ARMSRegion
	values[semconv.ACSCMSWorkspace] = c.ARMSWorkspace
	for k, v := range c.Attributes {
		values[attribute.Key(k)] = v
	}
	if c.ServiceName != "" {
		values[semconv.ServiceName] = c.ServiceName
	}
	return newResource(values)
}

// WithEngine adds what is known of the engine; attributes that the user set stay.
func WithEngine(res *resource.Resource, e Engine) *resource.Resource {
	values := map[attribute.Key]string{}
	for k, v := range map[attribute.Key]string{
		semconv.EngineName: e.Name, semconv.EngineVersion: e.Version, semconv.EngineModel: e.Model,
	} {
		if !res.Set().HasValue(k) {
			values[k] = v
		}
	}
	merged, err := resource.Merge(res, newResource(values))
	if err != nil {
		// Only for two schemas, and here is one.
		return res
	}
	return merged
}

// InstanceID is a resource's service.instance.id, "" where it has none.
func InstanceID(res *resource.Resource) string {
	v, _ := res.Set().Value(semconv.ServiceInstanceID)
	return v.AsString()
}

// newResource leaves out empty values. OTLP refuses text that is no UTF-8.
func newResource(values map[attribute.Key]string) *resource.Resource {
	kvs := make([]attribute.KeyValue, 0, len(values))
	for k, v := range values {
		if v != "" {
			kvs = append(kvs, attribute.String(strings.ToValidUTF8(string(k), "\ufffd"), strings.ToValidUTF8(v, "\ufffd")))
		}
	}
	return resource.NewWithAttributes(semconv.SchemaURL, kvs...)
}
