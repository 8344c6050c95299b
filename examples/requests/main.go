// Command requests sends a few requests to an OpenAI-compatible server, each of which ends
// in another way, and says what came back: something to look at traces with.
//
//	go run ./examples/requests [-wait 3m] http://127.0.0.1:8000
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"
)

// readLimit bounds how much of an answer is read.
const readLimit = 1 << 20

func main() {
	wait := flag.Duration("wait", 0, "wait at most so long for the server to come up")
	model := flag.String("model", "tiny", "the model to ask for")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: requests [-wait DURATION] [-model NAME] http://HOST:PORT")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := sender{base: strings.TrimRight(flag.Arg(0), "/"), model: *model}
	if err := s.run(ctx, *wait); err != nil {
		fmt.Fprintln(os.Stderr, "requests:", err)
		stop()
		os.Exit(1)
	}
}

type sender struct{ base, model string }

type object = map[string]any

func (s sender) run(ctx context.Context, wait time.Duration) error {
	if err := s.awaitReady(ctx, wait); err != nil {
		return err
	}
	question := []object{{"role": "user", "content": "Why did my request wait?"}}
	for _, r := range []struct {
		what, path string
		body       object
		leave      int // after so many events
	}{
		{"a chat, answered whole", "/v1/chat/completions",
			object{"messages": question, "max_tokens": 16}, 0},
		{"a chat, streamed", "/v1/chat/completions",
			object{"messages": question, "max_tokens": 16, "stream": true, "stream_options": object{"include_usage": true}}, 0},
		{"a completion with two answers", "/v1/completions",
			object{"prompt": "The scheduler", "max_tokens": 8, "n": 2, "temperature": 0.8}, 0},
		{"a stream that the client leaves", "/v1/completions",
			object{"prompt": "A long story", "max_tokens": 500, "ignore_eos": true, "stream": true}, 3},
		{"a model that is not there", "/v1/chat/completions",
			object{"model": "unknown", "messages": question}, 0},
	} {
		if _, named := r.body["model"]; !named {
			r.body["model"] = s.model
		}
		result, err := s.send(ctx, r.path, r.body, r.leave)
		if err != nil {
			return fmt.Errorf("send %s: %w", r.what, err)
		}
		fmt.Printf("%-34s %s\n", r.what, result)
	}
	return nil
}

// awaitReady waits until the server answers its health check, and shows that time passes.
func (s sender) awaitReady(ctx context.Context, limit time.Duration) error {
	began := time.Now()
	said := began
	for {
		err := s.healthy(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Since(began) >= limit {
			return fmt.Errorf("the server at %s does not answer: %w", s.base, err)
		}
		if time.Since(said) >= 10*time.Second {
			said = time.Now()
			fmt.Printf("waiting for the server (%.0f s)\n", time.Since(began).Seconds())
		}
		time.Sleep(250 * time.Millisecond)
	}
}

func (s sender) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/health", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("health check: %s", response.Status)
	}
	return nil
}

// send posts body and words what came back. With leave > 0 it goes away after so many
// events of a stream.
func (s sender) send(ctx context.Context, path string, body object, leave int) (string, error) {
	// The context ends with this call, and with it a connection that was not read to its end.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	payload, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+path, bytes.NewReader(payload))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	in := io.LimitReader(response.Body, readLimit)
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		raw, err := io.ReadAll(in)
		return fmt.Sprintf("%s, %d bytes", response.Status, len(raw)), err
	}
	events := 0
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, readLimit)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "data: ") {
			continue
		}
		if events++; events == leave {
			return fmt.Sprintf("%s, left after %d events", response.Status, events), nil
		}
	}
	return fmt.Sprintf("%s, %d events", response.Status, events), lines.Err()
}
