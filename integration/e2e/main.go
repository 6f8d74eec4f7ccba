package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// scenario is one thing to show.
type scenario struct {
	name  string
	needs []string // programs
	run   func(context.Context, *lab) error
}

func main() {
	bin := flag.String("bin", "bin", "folder with berth and berthctl")
	root := flag.String("root", ".", "the repository, for docs/operations and deploy")
	only := flag.String("run", "", "only scenarios whose name matches this expression")
	loadOn := flag.String(loadFlag[1:], "", "be the load on these peers (internal)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *loadOn != "" {
		if err := runLoad(context.Background(), strings.Split(*loadOn, ",")); err != nil {
			fmt.Fprintln(os.Stderr, "load:", err)
			os.Exit(1)
		}
		return
	}
	failed, err := all(ctx, *bin, *root, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	}
	if err != nil || failed > 0 {
		stop()
		os.Exit(1)
	}
}

// all runs the scenarios and prints a line for each and a sum.
func all(ctx context.Context, bin, root, only string) (failed int, err error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return 0, err
	}
	pages, err := pageScenarios(filepath.Join(root, "docs/operations"))
	if err != nil {
		return 0, err
	}
	passed, skipped := 0, 0
	for _, s := range append(pages, faultScenarios()...) {
		if !match.MatchString(s.name) {
			continue
		}
		switch missing := lacks(append([]string{"ip", "nsenter", "unshare"}, s.needs...)); {
		case ctx.Err() != nil:
			return failed, ctx.Err()
		case missing != "":
			skipped++
			fmt.Printf("SKIP  needs %s: %s\n", missing, s.name)
		default:
			began := time.Now()
			if err := one(ctx, s, bin, root); err != nil {
				failed++
				fmt.Printf("FAIL  %s (%.1f s): %v\n", s.name, time.Since(began).Seconds(), err)
				continue
			}
			passed++
			fmt.Printf("ok    %s (%.1f s)\n", s.name, time.Since(began).Seconds())
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return failed, nil
}

// lacks names the first thing that this machine does not have.
func lacks(programs []string) string {
	if os.Geteuid() != 0 {
		return "root"
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return p
		}
	}
	return ""
}

// scenarioTime bounds one scenario.
const scenarioTime = 3 * time.Minute

func one(ctx context.Context, s scenario, bin, root string) error {
	ctx, cancel := context.WithTimeout(ctx, scenarioTime)
	defer cancel()
	l, err := newLab(ctx, bin, root)
	if err != nil {
		return err
	}
	err = s.run(ctx, l)
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, l.logs(15))
	}
	return errors.Join(err, l.close())
}
