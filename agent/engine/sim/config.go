package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"berth/internal/listen"
)

// Loading says what a client meets while the weights are being loaded.
type Loading string

const (
	// LoadingRefuse opens the port only when the engine can serve (vLLM).
	LoadingRefuse Loading = "refuse"
	// Loading503 opens it at once and answers 503 until then (SGLang, llama.cpp).
	Loading503 Loading = "503"
)

// Config is everything an [Engine] needs to know. Its zero value is not valid:
// a model is needed. Numbers left at zero get the defaults named here.
type Config struct {
	Model       string   // as in `vllm serve MODEL`
	ServedNames []string // names clients may use; the first labels answers and metrics. Default: Model.
	Version     string   // what /version says. Default "0.33.0+sim".
	APIKey      string   // when set, routes below /v1 need it as a bearer token

	Host string // default 127.0.0.1
	Port int    // default 8000; -1 means any free port
	UDS  string // a unix socket's path; replaces Host and Port

	TensorParallel int           // accepted and reported; time does not depend on it
	NNodes         int           // ranks of the group. Default 1.
	NodeRank       int           // this rank
	Headless       bool          // ranks > 0: no HTTP
	MasterAddr     string        // rank 0's address. Default 127.0.0.1.
	MasterPort     int           // default 29501, as vLLM's
	GroupTimeout   time.Duration // how long ranks wait for each other. Default 10 min.

	MaxNumSeqs      int     // requests running at once. Default 256.
	MaxQueued       int     // requests waiting beyond that before 503; 0: no bound
	MaxModelLen     int     // prompt plus output, tokens. Default 32768.
	OutputTokens    int     // where an answer ends by itself, tokens. Default 64.
	CacheBlocks     int     // capacity in blocks of BlockSize tokens. Default 4096.
	EmbeddingDim    int     // default 64
	RecordLimit     int     // arrivals kept for /sim/requests. Default 10000.
	PrefillRate     float64 // uncached prompt tokens per second; 0: no time
	TokensPerSecond float64 // output tokens per second of each request; 0: no time

	LoadTime        time.Duration // from start (or from a complete group) to ready
	TTFT            time.Duration // to the first token of a fully cached prompt
	ShutdownTimeout time.Duration // what SIGTERM lets running requests have; 0: nothing, as vLLM's default
	Loading         Loading       // default LoadingRefuse

	Fault        Fault // what goes wrong from the start
	EnableFaults bool  // allows POST /sim/fault

	// InsecureNoTLS lets the default Listen open addresses beyond loopback.
	InsecureNoTLS bool
	// Listen makes every listener. addr is host:port, or "unix:" and a path.
	// Default: the machine's network, loopback only.
	Listen func(ctx context.Context, addr string) (net.Listener, error)
	// Dial reaches the master from ranks > 0.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Spawn starts the process that Fault.ForkChild asks for, to live for d. Only
	// an engine that is a process of its own has one; nil refuses that fault.
	Spawn func(d time.Duration) error
	// Logger takes the engine's own log. Default: discard.
	Logger *slog.Logger
}

// withDefaults returns c with every zero replaced by its default.
func (c Config) withDefaults() Config {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	text := func(p *string, v string) {
		if *p == "" {
			*p = v
		}
	}
	if len(c.ServedNames) == 0 {
		c.ServedNames = []string{c.Model}
	}
	text(&c.Version, "0.33.0+sim")
	text(&c.Host, "127.0.0.1")
	text(&c.MasterAddr, "127.0.0.1")
	text((*string)(&c.Loading), string(LoadingRefuse))
	def(&c.Port, 8000)
	def(&c.MasterPort, 29501)
	def(&c.NNodes, 1)
	def(&c.TensorParallel, 1)
	def(&c.MaxNumSeqs, 256)
	def(&c.MaxModelLen, 32768)
	def(&c.OutputTokens, 64)
	def(&c.CacheBlocks, 4096)
	def(&c.EmbeddingDim, 64)
	def(&c.RecordLimit, 10000)
	if c.GroupTimeout == 0 {
		c.GroupTimeout = 10 * time.Minute
	}
	if c.Listen == nil {
		c.Listen = c.listen
	}
	if c.Dial == nil {
		c.Dial = listen.System.Dial
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate lists everything that is wrong with c, defaults filled in.
func (c Config) Validate() error {
	c = c.withDefaults()
	var bad []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	check(c.Model != "", "no model: give its name as the argument, or by --model")
	check(c.Port >= -1 && c.Port <= 65535, "port %d is not in 1 to 65535", c.Port)
	check(c.MasterPort > 0 && c.MasterPort <= 65535, "master port %d is not in 1 to 65535", c.MasterPort)
	check(c.NNodes >= 1, "nnodes is %d: a group has at least one rank", c.NNodes)
	check(c.NodeRank >= 0 && c.NodeRank < max(c.NNodes, 1), "node rank %d is not in 0 to nnodes-1 (%d)", c.NodeRank, c.NNodes-1)
	check(c.Headless == (c.NodeRank > 0), "headless is for the ranks above 0 and only for them (rank %d)", c.NodeRank)
	for name, n := range map[string]int{
		"tensor parallel size": c.TensorParallel, "max num seqs": c.MaxNumSeqs, "max model len": c.MaxModelLen,
		"output tokens": c.OutputTokens, "cache blocks": c.CacheBlocks, "embedding dim": c.EmbeddingDim,
		"record limit": c.RecordLimit, "max queued": c.MaxQueued + 1,
	} {
		check(n > 0, "%s must not be negative", name)
	}
	for name, n := range map[string]float64{
		"prefill rate": c.PrefillRate, "tokens per second": c.TokensPerSecond,
		"load time": c.LoadTime.Seconds(), "ttft": c.TTFT.Seconds(),
		"shutdown timeout": c.ShutdownTimeout.Seconds(), "group timeout": c.GroupTimeout.Seconds(),
	} {
		check(n >= 0, "%s must not be negative", name)
	}
	check(c.Loading == LoadingRefuse || c.Loading == Loading503, "loading %q is neither %q nor %q", c.Loading, LoadingRefuse, Loading503)
	if err := c.Fault.validate(c.Spawn != nil); err != nil {
		bad = append(bad, err)
	}
	return errors.Join(bad...)
}

// address is where HTTP is served, in the form that Listen takes.
func (c Config) address() string {
	if c.UDS != "" {
		return "unix:" + c.UDS
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(max(c.Port, 0)))
}

func (c Config) master() string {
	return net.JoinHostPort(c.MasterAddr, strconv.Itoa(c.MasterPort))
}

// listen is Listen's default: the machine's network under the policy that keeps
// listeners on loopback, and unix sockets.
func (c Config) listen(ctx context.Context, addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		var lc net.ListenConfig
		return lc.Listen(ctx, "unix", path)
	}
	flag := "--host"
	if addr == c.master() {
		flag = "--master-addr"
	}
	policy := listen.Policy{InsecureNoTLS: c.InsecureNoTLS}
	return policy.Listen(ctx, listen.System, listen.Spec{Addr: addr, Flag: flag})
}
