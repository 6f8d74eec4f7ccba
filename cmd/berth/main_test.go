package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func berth(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = execute(context.Background(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestMistakesAreSaidInOneLineWithWhatWouldBeRight(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--nope", "unknown flag: --nope"},
		{"piers", `no role "piers"; use peer, agent, router`},
		{"peer --nope", "see berth peer --help"},
		{"peer --name a --data-dir /tmp/x", "--join names nobody"},
		{"peer --name a --bootstrap-expect 1 --data-dir /tmp/x --bind 0.0.0.0:7300", "--insecure-no-tls"},
		{"peer --name bad/name --bootstrap-expect 1 --data-dir /tmp/x", `contains '/'`},
		{"peer --name a --bootstrap-expect=-1 --data-dir /tmp/x --join h", "--bootstrap-expect is -1"},
		{"agent --name a --data-dir /tmp/x", "--join names nobody"},
		{"agent --name a --data-dir /tmp/x --join h --engine-ports 9-1", "--engine-ports"},
		{"agent --name a --data-dir /tmp/x --join h --peer ftp://x", "not a peer's address"},
		{"router --name a --data-dir /tmp/x", "--join names nobody"},
		{"peer --config /nowhere.yaml", "no configuration file /nowhere.yaml"},
		{"dev --peers 9", "1, 3 or 5 peers"},
		{"dev --peers 2", "1, 3 or 5 peers"},
		{"agent --name a --join h --data-dir /tmp/x extra", `it takes no argument, and was given "extra"`},
		{"router agent", `it takes no argument, and was given "agent"`},
		{"version 2", `it takes no argument, and was given "2"`},
		{"config check", "usage: berth config check FILE"},
		{"config", "needs a verb"},
		{"config check /nowhere.yaml", "nowhere.yaml"},
		{"engine --frobnicate", "unknown flag --frobnicate"},
	} {
		code, _, stderr := berth(strings.Fields(c.args)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("berth %s: code %d, want %d\n%s want %q", c.args, code, exitUsage, stderr, c.want)
		}
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "role.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlagsWinOverVariablesOverTheFileOverDefaults(t *testing.T) {
	f := &peerFlags{common: newCommon("peer")}
	c := &cobra.Command{}
	f.add(c)
	path := file(t, "version: 1\nname: from-file\ndata_dir: /from/file\nlog_level: debug\nbootstrap_expect: 5\njoin: [a, b]\n")
	t.Setenv("BERTH_DATA_DIR", "/from/variable")
	t.Setenv("BERTH_NAME", "from-variable")
	t.Setenv("BERTH_CONFIG", path)
	if err := c.ParseFlags([]string{"--name", "from-flag"}); err != nil {
		t.Fatal(err)
	}
	cfg, err := f.resolve(c)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Name != "from-flag" || cfg.DataDir != "/from/variable" || f.logLevel != "debug" || cfg.BootstrapExpect != 5 || len(cfg.Join) != 2 || cfg.HTTP.Bind != "127.0.0.1:7300" {
		t.Errorf("got %+v, log level %s", cfg, f.logLevel)
	}
}

func TestAWrongVariableIsNamed(t *testing.T) {
	t.Setenv("BERTH_BOOTSTRAP_EXPECT", "three")
	if code, _, stderr := berth("peer", "--data-dir", t.TempDir()); code != exitUsage || !strings.Contains(stderr, "BERTH_BOOTSTRAP_EXPECT") {
		t.Errorf("code %d: %s", code, stderr)
	}
}

func TestConfigCheckReadsEachKindOfFile(t *testing.T) {
	t.Setenv("PATH", os.Getenv("PATH"))
	for text, want := range map[string]string{
		"version: 1\nname: p\ndata_dir: /x\nbootstrap_expect: 1\n":                  "good",
		"version: 1\nname: r\ndata_dir: /x\njoin: [h]\nops_bind: 127.0.0.1:7381\n":  "good",
		"version: 1\nname: n\ndata_dir: /x\njoin: [h]\nengine_ports: 20000-20999\n": "good",
		"version: 1\nname: n\njoin: [h]\ngpu: nvml\n":                               "did you mean gpus?",
		"version: 2\nname: n\njoin: [h]\n":                                          "reads version: 1",
		"version: 1\nname: n\ndata_dir: /x\njoin: [h]\nengine_ports: [1, {a: b}]\n": "engine_ports",
		"version: 1\nkind: model\nname: m\nengine: {driver: sim, weights: w}\n":     "neither gpus_per_node nor gpu_share",
	} {
		_, stdout, stderr := berth("config", "check", file(t, text))
		if !strings.Contains(stdout+stderr, want) {
			t.Errorf("%q: %s%s want %q", text, stdout, stderr, want)
		}
	}
	for _, path := range []string{"../../examples/agent.yaml", "../../examples/production/llama-8b.yaml"} {
		if _, stdout, stderr := berth("config", "check", path); !strings.Contains(stdout, "good") && !strings.Contains(stderr, "insecure") {
			t.Errorf("%s: %s%s", path, stdout, stderr)
		}
	}
}

// TestEveryFlagOfAnAgentIsAFieldOfItsFile: the file is read twice, for the flags and for what is no flag, and both must take every field.
func TestEveryFlagOfAnAgentIsAFieldOfItsFile(t *testing.T) {
	text := "version: 1\nname: n\njoin: [h]\ndata_dir: /x\nbind: 127.0.0.1:1\nadvertise: h\nlabels: {zone: a}\ngpus: none\nengine_bind: 127.0.0.1\n" +
		"engine_ports: 20000-20999\nmodel_roots: [/srv]\ngossip_bind: 127.0.0.1:0\ninsecure_no_tls: false\nstop_engines_on_exit: true\nlog_level: debug\nlog_format: json\n"
	f := &agentFlags{common: newCommon("agent")}
	c := &cobra.Command{}
	f.add(c)
	f.config = file(t, text)
	cfg, _, err := f.resolve(c)
	if err != nil || !cfg.StopEnginesOnExit || cfg.Labels["zone"] != "a" || f.logFormat != "json" {
		t.Errorf("got %+v, %v", cfg, err)
	}
	c.Flags().VisitAll(func(flag *pflag.Flag) {
		field := strings.ReplaceAll(flag.Name, "-", "_")
		if field != "config" && field != "peer" && !strings.Contains(text, "\n"+field+":") {
			t.Errorf("the flag --%s is not among the fields that this test writes", flag.Name)
		}
	})
}

func TestVersionAndHelp(t *testing.T) {
	if code, stdout, _ := berth("version"); code != 0 || !strings.HasPrefix(stdout, "berth ") {
		t.Errorf("version: %d %q", code, stdout)
	}
	code, stdout, _ := berth("--help")
	for _, role := range []string{"peer", "agent", "router", "engine", "dev", "config", "version"} {
		if code != 0 || !strings.Contains(stdout, "\n  "+role) {
			t.Errorf("help does not name %s: %s", role, stdout)
		}
	}
	if strings.Contains(stdout, "shim") || strings.Contains(stdout, "gpu-probe") {
		t.Errorf("help shows what is internal: %s", stdout)
	}
}
