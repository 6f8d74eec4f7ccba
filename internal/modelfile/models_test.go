package modelfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/fleet"
)

const llama = `version: 1
kind: model
name: meta-llama/Llama-3.1-8B-Instruct
aliases: [llama-8b]
labels: {team: search}
engine:
  driver: vllm
  version: ">=0.18"
  weights: meta-llama/Llama-3.1-8B-Instruct
  args: ["--max-model-len=32768"]
placement:
  nodes: 1
  gpus_per_node: 1
  classes: [h100-sxm-80gb, l40s-48gb]
  gpu_memory: 40GiB
  require: {zone: a}
  spread: [node, rack]
replicas: {min: 2, max: 4}
idle: {min_residence: 10m}
drain: {deadline: 10m, minimum: 5s}
`

func TestModelsReadsEveryFieldAndFillsDefaults(t *testing.T) {
	specs, err := Models("llama.yaml", strings.NewReader(llama+"---\n---\nversion: 1\nkind: model\nname: b\nengine: {driver: sim, weights: b}\nplacement: {gpu_share: 2GiB}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(specs) != 2 {
		t.Fatalf("read %d models, want 2", len(specs))
	}
	got := specs[0]
	if got.Placement.GPUMemory != 40*fleet.GiB || got.Replicas.Max != 4 || got.Drain.Minimum.Std() != 5*time.Second || got.Placement.Require["zone"] != "a" {
		t.Errorf("read %+v", got)
	}
	if got.Priority != 50 || got.Serve.Policy != "ttft" || got.Start.Timeout.Std() != 30*time.Minute {
		t.Errorf("the defaults are missing: %+v", got)
	}
	if specs[1].Placement.GPUShare != 2*fleet.GiB || specs[1].Replicas.Min != 1 {
		t.Errorf("second model: %+v", specs[1])
	}
}

func TestProblemsNameLineAndWhatWouldBeRight(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"misspelt field", "gpus_per_node: 1", "gpu_per_node: 1", "f.yaml:13: unknown field placement.gpu_per_node; did you mean gpus_per_node?"},
		{"the field that does not exist", "gpus_per_node: 1", "gpus: 1", "f.yaml:13: unknown field placement.gpus; write gpus_per_node"},
		{"nothing near", "kind: model", "kind: model\nzzzzzzzz: 1", "f.yaml:3: unknown field zzzzzzzz"},
		{"wrong type", "nodes: 1", "nodes: two", `f.yaml:12: placement.nodes: want a whole number, found "two"`},
		{"list wanted", "aliases: [llama-8b]", "aliases: llama-8b", "f.yaml:4: aliases: want a list"},
		{"text wanted", "driver: vllm", "driver: true", "f.yaml:7: engine.driver: want text, found true"},
		{"map wanted", "labels: {team: search}", "labels: search", "f.yaml:5: labels: want a map"},
		{"decimal size", "gpu_memory: 40GiB", "gpu_memory: 40GB", `placement.gpu_memory: "40GB" is not a size`},
		{"bad duration", "deadline: 10m", "deadline: 10", `drain.deadline: "10" is not a duration`},
		{"twice", "kind: model", "kind: model\nkind: model", "f.yaml:3: the field kind is there twice"},
		{"checked", "max: 4", "max: 1", "replicas: {min: 2, max: 1}"},
		{"not yaml", "kind: model", "kind: [", "f.yaml: not YAML"},
		{"merge keys are not supported", "labels: {team: search}", "labels: {<<: {a: b}}", "want text, found a map"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Models("f.yaml", strings.NewReader(strings.Replace(llama, c.old, c.new, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestEveryProblemIsReportedAtOnce(t *testing.T) {
	text := strings.NewReplacer("nodes: 1", "nodes: x", "driver: vllm", "drivr: vllm").Replace(llama)
	_, err := Models("f.yaml", strings.NewReader(text))
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("want two lines, got %v", err)
	}
}

func TestAnAliasThatContainsItselfIsAnError(t *testing.T) {
	if _, err := Models("f.yaml", strings.NewReader("engine: &a {args: *a}\n")); err == nil {
		t.Error("accepted")
	}
}

func TestLoadReadsFoldersInOrderAndNamesWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b.yaml": strings.ReplaceAll(llama, "name: meta-llama/Llama-3.1-8B-Instruct\nali", "name: b\nali"), "a.yml": llama, "note.txt": "no model"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	specs, err := Load(dir, nil)
	if err != nil || len(specs) != 2 || specs[1].Name != "b" {
		t.Errorf("got %v, %v", specs, err)
	}
	if _, err := Load(filepath.Join(dir, "none.yaml"), nil); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestTheExamplesAreGood(t *testing.T) {
	for _, dir := range []string{"sim", "production"} {
		if specs, err := Load(filepath.Join("../../examples", dir), nil); err != nil || len(specs) != 3 {
			t.Errorf("%s: %d models, %v", dir, len(specs), err)
		}
	}
}
