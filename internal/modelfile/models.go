package modelfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth/fleet"
)

var modelHints = map[string]string{
	"gpus":     "write gpus_per_node (whole cards on each node) or gpu_share (part of one card)",
	"gpu":      "write gpus_per_node (whole cards on each node) or gpu_share (part of one card)",
	"class":    "write classes, a list in order of preference",
	"model":    "the name is in name, the files in engine.weights",
	"image":    "which program a driver is, the agent's own configuration says",
	"command":  "which program a driver is, the agent's own configuration says",
	"min":      "write replicas: {min: …, max: …}",
	"max":      "write replicas: {min: …, max: …}",
	"timeout":  "write start: {timeout: …} or serve: {queue: {timeout: …}}",
	"deadline": "write drain: {deadline: …}",
}

// Models reads every model of a YAML stream, fills in defaults and checks each one. The error lists all problems of the file.
func Models(file string, r io.Reader) ([]fleet.ModelSpec, error) {
	docs, err := Documents(file, r)
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 {
		return nil, fmt.Errorf("%s: no model in it; a model file starts with version: 1 and kind: model", file)
	}
	var specs []fleet.ModelSpec
	var problems []Problem
	firstLine := map[string]int{}
	for _, doc := range docs {
		spec := fleet.DefaultedSpec()
		var bad *Error
		if err := doc.Decode(&spec, modelHints); errors.As(err, &bad) {
			problems = append(problems, bad.Problems...)
			continue
		}
		if err := spec.Check(); err != nil {
			problems = append(problems, Problem{File: file, Line: doc.Line(), Text: err.Error()})
		}
		if line, twice := firstLine[spec.Name]; twice {
			problems = append(problems, Problem{File: file, Line: doc.Line(), Text: fmt.Sprintf("the model %s is already in line %d", spec.Name, line)})
		}
		firstLine[spec.Name] = doc.Line()
		specs = append(specs, spec)
	}
	if len(problems) > 0 {
		return nil, &Error{Problems: problems}
	}
	return specs, nil
}

// Load reads the models at path: a file, every .yaml, .yml and .json file of a folder in order of name, or standard input for "-".
func Load(path string, stdin io.Reader) ([]fleet.ModelSpec, error) {
	if path == "-" {
		return Models("standard input", stdin)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, errors.Unwrap(err))
	}
	if !info.IsDir() {
		return loadFile(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var specs []fleet.ModelSpec
	for _, e := range slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.IsDir() || !isModelFile(e.Name()) }) {
		more, err := loadFile(filepath.Join(path, e.Name()))
		if err != nil {
			return nil, err
		}
		specs = append(specs, more...)
	}
	if len(specs) == 0 {
		return nil, fmt.Errorf("no .yaml, .yml or .json file in %s", path)
	}
	return specs, nil
}

func loadFile(path string) ([]fleet.ModelSpec, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Models(path, f)
}

func isModelFile(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return ext == ".yaml" || ext == ".yml" || ext == ".json"
}
