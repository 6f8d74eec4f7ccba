package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// installWithin bounds npm install; it takes 6 s and 83 MB where the registry is near.
const installWithin = 5 * time.Minute

// prepareNode sees to it that the server can run, and returns its path.
func prepareNode(ctx context.Context, llama string) (string, error) {
	server, err := filepath.Abs(filepath.Join(llama, "server.mjs"))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(server); err != nil {
		return "", fmt.Errorf("the llama.cpp server is not in %s; run this from the repository's root: %w", llama, err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		return "", fmt.Errorf("this demonstration needs Node 20.11 or newer, and npm; make demo needs neither: %w", err)
	}
	if _, err := os.Stat(filepath.Join(llama, "node_modules", "node-llama-cpp")); !errors.Is(err, fs.ErrNotExist) {
		return server, err
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return "", fmt.Errorf("node_modules are missing, and npm, which would install them, is not here: %w", err)
	}
	fmt.Println("npm install in", llama)
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, installWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "install", "--no-fund", "--no-audit")
	cmd.Dir = llama
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install in %s: %w\n%s", llama, err, out)
	}
	fmt.Printf("installed after %.1f s\n\n", time.Since(began).Seconds())
	return server, nil
}
