package sim

import (
	"errors"
	"flag"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseArgs(t *testing.T) {
	tests := []struct {
		line string
		want Config
	}{
		{"m --port 9 --host=192.0.2.1", Config{Model: "m", Port: 9, Host: "192.0.2.1"}},
		{"--port=9 org/m:tag", Config{Model: "org/m:tag", Port: 9}},
		{"m --served-model-name a b --port -1", Config{Model: "m", ServedNames: []string{"a", "b"}, Port: -1}},
		{"m --served-model-name=a --served-model-name b", Config{Model: "m", ServedNames: []string{"a", "b"}}},
		{"--model m --uds /run/x.sock --api-key k", Config{Model: "m", UDS: "/run/x.sock", APIKey: "k"}},
		{"m --tensor-parallel-size 16 --nnodes 2 --node-rank 1 --headless --master-addr 192.0.2.2 --master-port 7",
			Config{Model: "m", TensorParallel: 16, NNodes: 2, NodeRank: 1, Headless: true, MasterAddr: "192.0.2.2", MasterPort: 7}},
		{"m --load-time 1m --ttft=20ms --shutdown-timeout 30 --tokens-per-second 50 --prefill-rate 1e4",
			Config{Model: "m", LoadTime: time.Minute, TTFT: 20 * time.Millisecond, ShutdownTimeout: 30 * time.Second, TokensPerSecond: 50, PrefillRate: 10000}},
		{"m --max-num-seqs 4 --cache-blocks 8 --loading 503", Config{Model: "m", MaxNumSeqs: 4, CacheBlocks: 8, Loading: Loading503}},
		{`m --fault {"hang":true,"slow_drain":"3s"} --enable-faults`,
			Config{Model: "m", Fault: Fault{Hang: true, SlowDrain: Duration(3 * time.Second)}, EnableFaults: true}},
		{"m --gpu-memory-utilization 0.9 --enforce-eager --max-model-len=32", Config{Model: "m", MaxModelLen: 32}},
	}
	for _, tt := range tests {
		got, err := ParseArgs(strings.Fields(tt.line))
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s:\n%+v, %v, want\n%+v", tt.line, got, err, tt.want)
		}
	}
}

func TestParseArgsRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"m --prot 9":               "unknown flag --prot",
		"m --prot=9":               "--port",
		"m --port":                 "--port needs a value",
		"m --port x":               "port",
		"m other":                  `the model is "m" already`,
		"m --ttft soon":            "1.5s",
		`m --fault {"hangs":true}`: `unknown field "hangs"`,
	} {
		if _, err := ParseArgs(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	if _, err := ParseArgs([]string{"--help"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
}
