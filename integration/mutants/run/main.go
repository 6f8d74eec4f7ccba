// Command run plants one mistake after the other in a copy of the tree and runs the tests that are to notice it. It owns how a planted
// mistake is applied and judged; which mistakes there are, the patches in the folder above say. It must never change the tree that it works on.
//
// A patch begins with what the mistake is, then has these lines, then the diff:
//
//	Packages: ./idle ./router/pool     whose tests are to notice it
//	Run: TestA|TestB                   optional: only these tests
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	dir := flag.String("dir", "integration/mutants", "folder of the patches")
	timeout := flag.Duration("timeout", 5*time.Minute, "of the tests for one mistake")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: run [flags] [NAME…]   from the root of the repository; without names all patches")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	missed, err := all(ctx, *dir, flag.Args(), *timeout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	if missed > 0 {
		os.Exit(1)
	}
}

// all tries the patches of a folder, or those that are named, and gives the number of those that no test noticed or that could not be tried.
func all(ctx context.Context, dir string, names []string, timeout time.Duration) (missed int, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil || len(paths) == 0 {
		return 0, errors.Join(err, fmt.Errorf("no patches in %s; run this from the root of the repository", dir))
	}
	t, err := copyTree(ctx)
	defer os.RemoveAll(t.dir)
	if err != nil {
		return 0, err
	}
	tried := 0
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if !wanted(name, names) {
			continue
		}
		tried++
		began := time.Now()
		by, err := t.try(ctx, path, timeout)
		switch {
		case ctx.Err() != nil:
			return missed, ctx.Err()
		case err != nil:
			missed++
			fmt.Printf("MISSED  %-40s %v\n", name, err)
		default:
			fmt.Printf("caught  %-40s by %s, %.0f s\n", name, by, time.Since(began).Seconds())
		}
	}
	fmt.Printf("%d of %d planted mistakes caught\n", tried-missed, tried)
	return missed, nil
}

func wanted(name string, names []string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return len(names) == 0
}
