package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// anyArg in an allow-list admits every flag.
const anyArg = "*"

// checkArgs holds a model's arguments against the node's allow-list. "--flag=value", "--flag value" and "-f value" are all judged by their flag.
func checkArgs(driver string, args, allowed []string) error {
	var refused []string
	for _, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(arg, "-") && !slices.Contains(allowed, flag) && !slices.Contains(allowed, anyArg) {
			refused = append(refused, flag)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return fmt.Errorf("this node does not allow %s the flags %s: its allow_args has %s", driver, strings.Join(refused, ", "), listOr(allowed, "none"))
}

func listOr(list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, ", ")
}

// weightless are the drivers whose weights are a name and nothing on disk: the simulated engine loads none.
var weightless = []string{"sim"}

// resolveWeights gives the weights that a driver may use: a real path below a model root, symlinks followed, or a hub name where that is allowed.
func resolveWeights(driver, weights string, e EngineConfig, roots []string) (string, error) {
	if weights == "" || slices.Contains(weightless, driver) {
		return weights, nil
	}
	if !strings.HasPrefix(weights, "/") {
		if !e.Hub {
			return "", fmt.Errorf("the weights %q are a hub name, and this node does not let %s fetch from the hub (hub: true)", weights, driver)
		}
		return weights, checkHubName(weights)
	}
	real, err := filepath.EvalSymlinks(weights)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the weights %s are not on this node", weights)
	}
	if err != nil {
		return "", fmt.Errorf("the weights %s cannot be used: %w", weights, err)
	}
	for _, root := range roots {
		if below(root, real) {
			return real, nil
		}
	}
	return "", fmt.Errorf("the weights %s (really %s) lie under none of this node's model roots: %s", weights, real, listOr(roots, "it has none"))
}

// checkHubName refuses what an engine would take for a path: relative to its folder there may be anything.
func checkHubName(name string) error {
	if filepath.IsLocal(name) && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "~") && strings.Count(name, "/") <= 1 {
		return nil
	}
	return fmt.Errorf("the weights %q are neither a hub name (ORG/NAME) nor an absolute path", name)
}

// below says whether a path without symlinks lies under a root, whose own symlinks are followed.
func below(root, path string) bool {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(real, path)
	return err == nil && filepath.IsLocal(rel)
}
