package main

// What the command line needs from the rest: each function turns settings into the
// options of one part. Nothing else knows both.

import (
	"context"
	"os"

	"github.com/tokenscope/tokenscope/exporters/otlp"
	"github.com/tokenscope/tokenscope/exporters/spantree"
	"github.com/tokenscope/tokenscope/instrument"
	"github.com/tokenscope/tokenscope/instrument/agent"
	"github.com/tokenscope/tokenscope/instrument/settings"
	"github.com/tokenscope/tokenscope/instrument/supervise"
	"github.com/tokenscope/tokenscope/probes/ebpf"
	"github.com/tokenscope/tokenscope/probes/preload"
	"github.com/tokenscope/tokenscope/semconv"
)

// run runs a workload, with an agent beside it unless the settings leave it no work.
func run(ctx context.Context, o instrument.RunOptions) int {
	reason := o.Settings.NoAgentReason()
	disabled := reason != ""
	if disabled {
		o.Log.Info("nothing is observed", "reason", reason)
	}
	var library supervise.Shim
	end := func() {}
	if !disabled {
		s, err := newShim(o.Settings)
		switch {
		case err != nil && o.Settings.Capture == settings.CapturePreload:
			o.Log.Error("nothing is observed", "error", err)
			disabled = true
		case err != nil:
			o.Log.Warn("cannot watch without eBPF", "error", err)
		case s != nil:
			library = s
			end = func() { s.close(o.Log) }
		}
	}
	status := supervise.Run(ctx, supervise.Options{
		Argv:  o.Argv,
		Shim:  library,
		Agent: supervise.AgentOptions{Disabled: disabled, Args: o.AgentArgs},
		Log:   o.Log,
	})
	end() // not deferred: Exit does not return
	status.Exit()
	return 0 // not reached
}

// observe is the agent process.
func observe(ctx context.Context, s *settings.Settings, workload string) error {
	log := instrument.NewLogger(os.Stderr, s.LogLevel)
	if err := keepToOurselves(); err != nil {
		log.Warn("a dump of the agent's memory would hold keys", "error", err)
	}
	otlp.SetLog(log)
	return agent.Run(ctx, agent.Options{
		Backend:      agent.Backend(s.Capture),
		Start:        supervise.AgentStart(),
		Preload:      preload.Options{Root: os.Getppid(), Log: log},
		Ebpf:         ebpf.Options{Root: os.Getppid(), HeadBytes: s.HeadBytes, TailBytes: s.TailBytes, FrameBytes: s.FrameBytes, RingBytes: s.RingBytes, Log: log},
		Export:       export(s, workload),
		Record:       s.Record,
		Content:      s.WithContent,
		TraceContext: s.TraceContext(),
		Version:      instrument.Version(),
		Log:          log,
		Stderr:       os.Stderr,
	})
}

func export(s *settings.Settings, workload string) otlp.Config {
	o, b := &s.OTLP, &s.Batch
	c := otlp.Config{
		Exporters: s.Exporters,
		Collector: otlp.Collector{
			Protocol:          o.Protocol,
			JSON:              o.JSON,
			Endpoint:          o.Endpoint.URL(),
			Named:             o.Named,
			Insecure:          o.Insecure,
			Headers:           o.Headers.Reveal(),
			ARMSLicenseKey:    s.ARMSLicense.Reveal(),
			ARMSWorkspace:     s.ARMSWorkspace,
			ARMSProject:       s.ARMSProject,
			Timeout:           o.Timeout,
			Compression:       o.Compression,
			Certificate:       o.Certificate,
			ClientCertificate: o.ClientCertificate,
			ClientKey:         o.ClientKey,
		},
		Batch: otlp.Batch{
			ScheduleDelay: b.ScheduleDelay,
			ExportTimeout: b.ExportTimeout,
			MaxQueueSize:  b.MaxQueueSize,
			MaxBatchSize:  b.MaxBatchSize,
		},
		Sampler:    s.Sampler,
		SamplerArg: s.SamplerArg,
		Tree:       tree(s),
		EngineHint: s.EngineHint,
		Console:    os.Stderr,
		Log:        instrument.NewLogger(os.Stderr, s.LogLevel),
	}
	if s.SDKDisabled {
		c.Exporters = nil
	}
	attributes := make(map[string]string, len(s.ResourceAttributes))
	for _, a := range s.ResourceAttributes {
		attributes[a.Key] = a.Value
	}
	c.Resource = otlp.NewResource(otlp.ResourceConfig{
		ServiceName:   s.ServiceName,
		Executable:    workload,
		Attributes:    attributes,
		Version:       instrument.Version(),
		Dialect:       c.Tree.Dialect,
		ARMSRegion:    s.CloudRegion,
		ARMSWorkspace: s.ARMSWorkspace,
	})
	return c
}

func tree(s *settings.Settings) spantree.Options {
	d := semconv.DialectBoth
	switch s.Dialect {
	case settings.DialectOTel:
		d = semconv.DialectOTel
	case settings.DialectARMS:
		d = semconv.DialectARMS
	}
	return spantree.Options{Level: s.TracingLevel, EventLimit: s.SpanEventLimit, Dialect: d}
}

// replay runs recordings through the pipeline.
func replay(ctx context.Context, o instrument.ReplayOptions) error {
	otlp.SetLog(o.Log)
	return agent.Replay(ctx, agent.ReplayOptions{
		Output: o.Output, Paths: o.Paths, Stdout: o.Stdout, Log: o.Log,
		Tree: tree(o.Settings), TraceContext: o.Settings.TraceContext(),
	})
}
