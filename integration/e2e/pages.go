package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// page is a page of docs/operations, as far as it can be done.
//
// A block that begins with "```sh on NAME …" is done on each of these machines in turn. Other blocks are only read. "<!-- starts from PAGE -->" means
// that the other page is done first, and "<!-- check on NAME", up to "-->", is a block for this program alone: it holds the page to what it promises.
type page struct {
	path  string
	first string // page to be done before; empty: machines are empty
	steps []step
}

// step is a block.
type step struct {
	line   int
	on     []string
	script string
}

var (
	fence = regexp.MustCompile("^```sh on (.+)$")
	check = regexp.MustCompile(`^<!-- check on (.+)$`)
	from  = regexp.MustCompile(`^<!-- starts from (\S+\.md) -->$`)
)

// readPage reads a page.
func readPage(path string) (page, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return page{}, err
	}
	p := page{path: path}
	var open *step
	end := ""
	for i, line := range strings.Split(string(data), "\n") {
		switch f, c, s := fence.FindStringSubmatch(line), check.FindStringSubmatch(line), from.FindStringSubmatch(line); {
		case open != nil && line == end:
			p.steps, open = append(p.steps, *open), nil
		case open != nil:
			open.script += line + "\n"
		case f != nil:
			open, end = &step{line: i + 1, on: strings.Fields(f[1])}, "```"
		case c != nil:
			open, end = &step{line: i + 1, on: strings.Fields(c[1])}, "-->"
		case s != nil:
			p.first = filepath.Join(filepath.Dir(path), s[1])
		}
	}
	if open != nil {
		return p, fmt.Errorf("%s:%d: the block has no end", path, open.line)
	}
	return p, nil
}

// run does what the page says.
func (p page) run(ctx context.Context, l *lab) error {
	if p.first != "" {
		before, err := readPage(p.first)
		if err != nil {
			return err
		}
		if err := before.run(ctx, l); err != nil {
			return fmt.Errorf("before %s: %w", p.path, err)
		}
	}
	for _, s := range p.steps {
		for _, name := range s.on {
			m, err := l.machine(ctx, name)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", p.path, s.line, err)
			}
			if _, err := m.do(ctx, s.script); err != nil {
				return fmt.Errorf("%s:%d: %w", p.path, s.line, err)
			}
		}
	}
	return nil
}

// pageScenarios are the pages that have something to do.
func pageScenarios(dir string) ([]scenario, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return nil, err
	}
	var out []scenario
	for _, path := range paths {
		p, err := readPage(path)
		if err != nil {
			return nil, err
		}
		if len(p.steps) > 0 {
			out = append(out, scenario{name: "page " + filepath.Base(path), needs: []string{"setpriv", "useradd"}, run: p.run})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no page in %s has a block to run", dir)
	}
	return out, nil
}
