package sim

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"berth/internal/listen"
)

// inert are flags of `vllm serve` that a model file may well carry and that change
// nothing here; the value says whether the flag takes one.
var inert = map[string]bool{
	"gpu-memory-utilization": true, "dtype": true, "seed": true, "pipeline-parallel-size": true,
	"data-parallel-size": true, "distributed-executor-backend": true, "kv-cache-dtype": true,
	"quantization": true, "max-num-batched-tokens": true, "download-dir": true,
	"enable-prefix-caching": false, "enforce-eager": false, "trust-remote-code": false,
	"enable-expert-parallel": false, "enable-prompt-tokens-details": false,
}

// ParseArgs reads a command line in the manner of `vllm serve MODEL --flag value`:
// flags before and after MODEL, "--x v" and "--x=v", several values after
// --served-model-name. Durations are Go's ("1.5s") or plain seconds. It returns
// [flag.ErrHelp] for --help; [Usage] is the text for that. What the values mean
// together, [Config.Validate] checks.
func ParseArgs(args []string) (Config, error) {
	var c Config
	fs := flags(&c)
	args, err := normalize(fs, args)
	if err != nil {
		return Config{}, err
	}
	for len(args) > 0 { // flag stops at each word that is no flag
		if err := fs.Parse(args); err != nil {
			return Config{}, fmt.Errorf("engine arguments: %w", err)
		}
		if args = fs.Args(); len(args) > 0 {
			if c.Model != "" {
				return Config{}, fmt.Errorf("engine arguments: %q: the model is %q already", args[0], c.Model)
			}
			c.Model, args = args[0], args[1:]
		}
	}
	return c, nil
}

// Usage writes what ParseArgs understands.
func Usage(w io.Writer) {
	fmt.Fprintln(w, "usage: berth engine MODEL [--flag value] …")
	fs := flags(&Config{})
	fs.SetOutput(w)
	fs.PrintDefaults()
}

// normalize checks every flag's name, so that an unknown one gets a message of its
// own, and spreads --served-model-name a b over one flag a name.
func normalize(fs *flag.FlagSet, args []string) ([]string, error) {
	var out []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		name, _, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if !strings.HasPrefix(a, "-") || name == "help" || name == "h" {
			out = append(out, a)
			continue
		}
		f := fs.Lookup(name)
		switch {
		case f == nil:
			return nil, fmt.Errorf("engine arguments: unknown flag %s; the simulated engine knows these: %s", a, known(fs))
		case hasValue || isBool(f):
			out = append(out, a)
		case i+1 == len(args):
			return nil, fmt.Errorf("engine arguments: %s needs a value", a)
		default:
			i++
			out = append(out, a+"="+args[i])
		}
		for name == "served-model-name" && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			out = append(out, "--served-model-name="+args[i])
		}
	}
	return out, nil
}

func isBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

func known(fs *flag.FlagSet) string {
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, "--"+f.Name) })
	slices.Sort(names)
	return strings.Join(names, " ")
}

func flags(c *Config) *flag.FlagSet {
	fs := flag.NewFlagSet("engine", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&c.Model, "model", "", "the model, instead of the argument")
	fs.Func("served-model-name", "`name`s clients may use; several, or repeated", func(s string) error {
		c.ServedNames = append(c.ServedNames, s)
		return nil
	})
	fs.StringVar(&c.Version, "version", "", "what /version says")
	fs.StringVar(&c.APIKey, "api-key", "", "bearer token that /v1 routes need")
	fs.StringVar(&c.Host, "host", "", "address to listen on (default 127.0.0.1)")
	fs.IntVar(&c.Port, "port", 0, "port to listen on; -1: any (default 8000)")
	fs.StringVar(&c.UDS, "uds", "", "unix socket to listen on instead")
	fs.BoolVar(&c.InsecureNoTLS, strings.TrimPrefix(listen.InsecureFlag, "--"), false, "listen beyond loopback, in the clear")
	groupFlags(fs, c)
	modelFlags(fs, c)
	fs.Func("fault", "what goes wrong, as `JSON`", c.Fault.set)
	fs.BoolVar(&c.EnableFaults, "enable-faults", false, "allow POST /sim/fault")
	for name, takesValue := range inert {
		if takesValue {
			fs.String(name, "", "accepted, without effect")
		} else {
			fs.Bool(name, false, "accepted, without effect")
		}
	}
	return fs
}

func groupFlags(fs *flag.FlagSet, c *Config) {
	fs.IntVar(&c.TensorParallel, "tensor-parallel-size", 0, "GPUs of the replica, over all nodes")
	fs.IntVar(&c.NNodes, "nnodes", 0, "nodes of the group (default 1)")
	fs.IntVar(&c.NodeRank, "node-rank", 0, "this node's rank")
	fs.BoolVar(&c.Headless, "headless", false, "no HTTP; for ranks above 0")
	fs.StringVar(&c.MasterAddr, "master-addr", "", "rank 0's address (default 127.0.0.1)")
	fs.IntVar(&c.MasterPort, "master-port", 0, "rank 0's port (default 29501)")
	durationFlag(fs, &c.GroupTimeout, "group-timeout", "how long ranks wait for each other (default 10m)")
}

func modelFlags(fs *flag.FlagSet, c *Config) {
	fs.IntVar(&c.MaxNumSeqs, "max-num-seqs", 0, "requests running at once (default 256)")
	fs.IntVar(&c.MaxQueued, "max-num-queued-reqs", 0, "requests waiting before 503; 0: no bound")
	fs.IntVar(&c.MaxModelLen, "max-model-len", 0, "tokens of prompt and answer together (default 32768)")
	fs.IntVar(&c.OutputTokens, "output-tokens", 0, "tokens at which an answer ends by itself (default 64)")
	fs.IntVar(&c.CacheBlocks, "cache-blocks", 0, "prefix cache, blocks of 16 tokens (default 4096)")
	fs.IntVar(&c.EmbeddingDim, "embedding-dim", 0, "length of embeddings (default 64)")
	fs.Float64Var(&c.PrefillRate, "prefill-rate", 0, "uncached prompt tokens a second; 0: no time")
	fs.Float64Var(&c.TokensPerSecond, "tokens-per-second", 0, "output tokens a second, each request; 0: no time")
	durationFlag(fs, &c.LoadTime, "load-time", "from start to ready")
	durationFlag(fs, &c.TTFT, "ttft", "to the first token of a fully cached prompt")
	durationFlag(fs, &c.ShutdownTimeout, "shutdown-timeout", "what SIGTERM lets running requests have; 0: nothing")
	fs.Func("loading", "`refuse` (the port, as vLLM) or 503 (as others) while loading", func(s string) error {
		c.Loading = Loading(s)
		return nil
	})
}

// durationFlag takes "1.5s", or plain seconds as vLLM's flags do.
func durationFlag(fs *flag.FlagSet, d *time.Duration, name, help string) {
	fs.Func(name, "`duration`: "+help, func(s string) error {
		v, err := time.ParseDuration(s)
		if err != nil {
			if v, err = time.ParseDuration(s + "s"); err != nil {
				return errors.New("not a duration such as 1.5s, nor a number of seconds")
			}
		}
		*d = v
		return nil
	})
}
