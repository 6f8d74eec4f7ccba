package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/agent"
	"berth/agent/shim"
	"berth/agent/shim/inproc"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
	"berth/internal/memnet"
)

// manner is how a kind of engine behaves from its start to its end, as far as a control plane notices.
type manner struct {
	refuses bool   // nothing listens while it loads; otherwise it answers early
	loading string // what /health answers early
	models  int    // status of an early GET /v1/models
	flat    bool   // its errors are a flat object
	drains  bool   // SIGTERM lets what is in flight end, without a limit
	metrics [2]string
}

var manners = map[string]manner{
	"vllm":     {refuses: true, metrics: [2]string{"vllm:prompt_tokens_total", "vllm:generation_tokens_total"}},
	"sglang":   {loading: "", models: 200, flat: true, drains: true, metrics: [2]string{"sglang:prompt_tokens_total", "sglang:generation_tokens_total"}},
	"llamacpp": {loading: `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, models: 503, metrics: [2]string{"llamacpp:prompt_tokens_total", "llamacpp:tokens_predicted_total"}},
	"command":  {refuses: true, metrics: [2]string{"a", "b"}},
}

const (
	loadTime   = 40 * time.Second
	answerTime = 20 * time.Second // of a long request
	engineAddr = "127.0.0.1:20100"
)

// scripted is one start of an engine that behaves in its kind's manner.
type scripted struct {
	manner
	network  *memnet.Host
	headless bool
	die      <-chan struct{} // ends it with code 1

	mu       sync.Mutex
	loaded   bool
	stopping bool
	term     chan struct{}
	settled  bool
	working  int           // requests being worked on
	idle     chan struct{} // closed when the last one has ended, once it is stopping
}

type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit %d", int(e)) }
func (e exitCode) ExitCode() int { return int(e) }

func (e *scripted) Terminate() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.stopping {
		e.stopping = true
		close(e.term)
		e.settle()
	}
}

// settle tells who waits that nothing is being worked on any more.
func (e *scripted) settle() {
	if e.working == 0 && e.stopping && !e.settled {
		e.settled = true
		close(e.idle)
	}
}

func (e *scripted) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.working++
}

func (e *scripted) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.working--
	e.settle()
}

func (e *scripted) Run(ctx context.Context) error {
	serveCtx, stop := context.WithCancel(ctx)
	defer stop()
	var parts sync.WaitGroup
	defer parts.Wait()
	serve := func() {
		if e.headless {
			return
		}
		ln, err := e.network.Listen(serveCtx, engineAddr)
		if err != nil {
			return // it is being ended
		}
		parts.Go(func() { _ = listen.ServeHTTP(serveCtx, ln, e, listen.ServerOptions{Drain: time.Nanosecond}) })
	}
	if !e.refuses {
		serve()
	}
	load := time.NewTimer(loadTime)
	defer load.Stop()
	for {
		select {
		case <-load.C:
			e.mu.Lock()
			e.loaded = true
			e.mu.Unlock()
			if e.refuses {
				serve()
			}
		case <-e.term:
			if e.drains {
				select {
				case <-e.idle:
				case <-ctx.Done():
				}
			}
			stop()
			return nil
		case <-e.die:
			stop()
			return exitCode(1)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (e *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	ready := e.loaded && !e.stopping
	e.mu.Unlock()
	switch {
	case r.URL.Path == "/health" && !ready:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, e.loading)
	case r.URL.Path == "/health":
	case r.URL.Path == "/metrics":
		fmt.Fprintf(w, "%s{model_name=\"m\"} 1\n%s{model_name=\"m\"} 1\n", e.metrics[0], e.metrics[1])
	case r.URL.Path == "/v1/models" && !ready:
		w.WriteHeader(e.models)
	case !ready:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		e.work(w, r)
	}
}

func (e *scripted) work(w http.ResponseWriter, r *http.Request) {
	e.begin()
	defer e.end()
	var body struct {
		Model     string `json:"model"`
		MaxTokens int    `json:"max_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		if e.flat {
			_, _ = io.WriteString(w, `{"object":"error","message":"no","type":"BadRequest","param":null,"code":400}`)
			return
		}
		_, _ = io.WriteString(w, `{"error":{"message":"no","type":"BadRequestError","param":null,"code":400}}`)
		return
	}
	if body.MaxTokens > 1 {
		select {
		case <-time.After(answerTime):
		case <-r.Context().Done():
			return
		}
	}
	_, _ = io.WriteString(w, `{"choices":[{"text":"x"}],"data":[]}`)
}

// bench is a node with one shim on it, whose engine is scripted.
type bench struct {
	t      *testing.T
	host   *memnet.Host
	node   *inproc.Node
	handle shim.Handle
	http   *http.Client
	die    chan struct{}
	args   [][]string // of each start
	status shim.Status
}

// start makes the driver's command line and starts it under a shim.
func start(t *testing.T, name string, in agent.LaunchInput) *bench {
	t.Helper()
	b := &bench{t: t, host: memnet.New(1).Host("node", "192.0.2.17"), die: make(chan struct{}, 1)}
	cmd := map[string][]string{"command": {"serve-it", "{{.Port}}"}}[name]
	d, err := New(name, agent.EngineConfig{Command: cmd})
	if err != nil {
		t.Fatal(err)
	}
	p, recipe, err := d.Launch(in)
	if err != nil {
		t.Fatal(err)
	}
	if p.Engine != "" {
		p.Engine = engineAddr // a unix socket has no place on the in-memory network
	}
	begun := time.Now()
	b.node = inproc.NewNode(context.Background(), inproc.Config{
		Network: b.host, Policy: listen.Policy{InsecureNoTLS: true}, Clock: func() time.Duration { return time.Since(begun) }, Logger: slog.New(slog.DiscardHandler),
		CardsEmpty: func(context.Context, []fleet.Claim) (bool, error) { return true, nil },
		Engines: func(x shim.Exec) (inproc.Engine, error) {
			b.args = append(b.args, x.Args)
			return &scripted{manner: manners[name], network: b.host, headless: p.Engine == "", die: b.die, term: make(chan struct{}), idle: make(chan struct{})}, nil
		},
	})
	in.Order.Action, in.Order.ID = wire.ActionRun, fleet.Index{Epoch: 1, N: 7}
	in.Order.Ranks = make([]wire.RankAddress, len(in.Hosts))
	l := shim.Launch{Order: in.Order, Program: p, Recipe: recipe, Bind: "192.0.2.17", FirstPort: 20000, LastPort: 20099, InsecureNoTLS: true}
	if b.handle, err = b.node.Start(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	transport := listen.Transport(b.host)
	b.http = &http.Client{Transport: transport}
	t.Cleanup(func() { transport.CloseIdleConnections(); b.node.Close() })
	b.until(func(s shim.Status) bool { return s.Door != nil || p.Engine == "" })
	return b
}

// until waits for a status, for at most ten minutes of the bubble's time.
func (b *bench) until(holds func(shim.Status) bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for {
		s, err := b.handle.Status(ctx, b.status.Version)
		if err != nil || ctx.Err() != nil {
			b.t.Fatalf("the status never came: %+v, %v", s, err)
		}
		if b.status = s; holds(s) {
			return
		}
	}
}

// post sends a request through the door and gives status, Berth-Door and body.
func (b *bench) post(body string) (int, string, string) {
	b.t.Helper()
	return b.postTo(*b.status.Door, body)
}

func (b *bench) postTo(door fleet.Door, body string) (int, string, string) {
	req, _ := http.NewRequest(http.MethodPost, "http://"+door.Address+"/v1/completions", bytes.NewReader([]byte(body)))
	req.Header.Set(wire.HeaderReplicaKey, door.Key)
	res, err := b.http.Do(req)
	if err != nil {
		return 0, "", err.Error()
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	return res.StatusCode, res.Header.Get(wire.HeaderDoor), string(data)
}

func eachDriver(t *testing.T, test func(t *testing.T, name string)) {
	programs(t, map[string]string{"vllm": "", "python3": "", "llama-server": "", "serve-it": ""})
	for _, name := range []string{"vllm", "sglang", "llamacpp", "command"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, name) })
		})
	}
}

// TestNotReadyBeforeHealthAndOneRealToken: refused connections, an early 503 and an early list of models are all taken for what they are.
func TestNotReadyBeforeHealthAndOneRealToken(t *testing.T) {
	eachDriver(t, func(t *testing.T, name string) {
		begun := time.Now()
		b := start(t, name, input(name, 1, 1, 0))
		time.Sleep(loadTime / 2)
		if code, door, _ := b.post(`{"model":"org/Model-8B"}`); code != 503 || door != wire.DoorStarting {
			t.Errorf("a request while it loads: %d, Berth-Door %q", code, door)
		}
		b.until(func(s shim.Status) bool { return s.Phase == shim.Ready })
		if d := time.Since(begun); d < loadTime || d > loadTime+5*time.Second {
			t.Errorf("ready after %s; it loads for %s", d, loadTime)
		}
		if code, _, body := b.post(`{"model":"org/Model-8B","max_tokens":1}`); code != 200 {
			t.Errorf("a request once it is ready: %d %s", code, body)
		}
	})
}

// TestErrorsPassTheDoorAsTheEngineWroteThem: the door takes no part in what an engine says; the router makes it uniform.
func TestErrorsPassTheDoorAsTheEngineWroteThem(t *testing.T) {
	eachDriver(t, func(t *testing.T, name string) {
		b := start(t, name, input(name, 1, 1, 0))
		b.until(func(s shim.Status) bool { return s.Phase == shim.Ready })
		code, door, body := b.post(`nonsense`)
		if code != 400 || door != "" || strings.HasPrefix(body, `{"error"`) == manners[name].flat {
			t.Errorf("got %d, Berth-Door %q, %s", code, door, body)
		}
	})
}

// TestAStopLetsWhatIsInFlightEndWhateverTheEngineDoesOnSIGTERM: vLLM would abort it at once and SGLang wait without a limit; the door waits
// for the requests before the engine is told, and the deadline ends the wait.
func TestAStopLetsWhatIsInFlightEndWhateverTheEngineDoesOnSIGTERM(t *testing.T) {
	for _, c := range []struct {
		deadline time.Duration
		cut      int
		code     int
	}{{time.Minute, 0, 200}, {5 * time.Second, 1, 0}} {
		eachDriver(t, func(t *testing.T, name string) {
			b := start(t, name, input(name, 1, 1, 0))
			b.until(func(s shim.Status) bool { return s.Phase == shim.Ready })
			answered, door := make(chan int), *b.status.Door
			go func() {
				code, _, _ := b.postTo(door, `{"model":"org/Model-8B","max_tokens":50}`)
				answered <- code
			}()
			time.Sleep(time.Second)
			order := b.handle.Launch().Order
			order.Action, order.ID = wire.ActionStop, fleet.Index{Epoch: 1, N: 8}
			order.Drain = &fleet.Drain{Minimum: fleet.Duration(time.Second), Deadline: fleet.Duration(c.deadline)}
			if err := b.handle.Order(context.Background(), shim.Order{Order: order}); err != nil {
				t.Fatal(err)
			}
			b.until(func(s shim.Status) bool { return s.Phase == shim.Stopped })
			// An engine that drains by itself may still finish within the grace between SIGTERM and SIGKILL.
			code, late := <-answered, manners[name].drains
			if b.status.Cut != c.cut || c.code == 200 && code != 200 || c.code == 0 && code == 200 && !late {
				t.Errorf("deadline %s: the request in flight ended with %d, %d cut", c.deadline, code, b.status.Cut)
			}
		})
	}
}

// TestTheDeathOfRankOneIsReportedAndAllStartAgainTogether: a headless rank that dies is not restarted by its own shim; a new start number does it.
func TestTheDeathOfRankOneIsReportedAndAllStartAgainTogether(t *testing.T) {
	programs(t, map[string]string{"vllm": "", "python3": ""})
	for _, name := range []string{"vllm", "sglang"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, name, input(name, 8, 2, 1))
				b.until(func(s shim.Status) bool { return s.Phase == shim.Ready })
				b.die <- struct{}{}
				b.until(func(s shim.Status) bool { return s.Phase == shim.Exited })
				if b.status.Exit == nil || b.status.Exit.Code != 1 {
					t.Errorf("exit %+v", b.status.Exit)
				}
				time.Sleep(10 * time.Minute)
				if len(b.args) != 1 {
					t.Fatalf("the shim of a gang's rank has started it %d times by itself", len(b.args))
				}
				order := b.handle.Launch().Order
				order.Start, order.ID = 2, fleet.Index{Epoch: 1, N: 9}
				again := b.handle.Launch().Program
				again.Args = append(slices.Clone(again.Args), "--second-start")
				if err := b.handle.Order(context.Background(), shim.Order{Order: order, Program: &again}); err != nil {
					t.Fatal(err)
				}
				b.until(func(s shim.Status) bool { return s.Phase == shim.Ready && s.Start == 2 })
				if len(b.args) != 2 || !slices.Contains(b.args[1], "--second-start") {
					t.Errorf("starts: %v", b.args)
				}
			})
		})
	}
}
