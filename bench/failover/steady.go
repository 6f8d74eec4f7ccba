package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"berth/demo/stage"
)

// loops is how many processes that never rest run beside the peers.
const loops = 2

// spin never rests.
func spin() {
	for n := 0; ; n++ {
		_ = n
	}
}

// steady counts the elections of a cluster from which nobody is killed, for so long, beside busy loops. Each is one too many.
func steady(ctx context.Context, bin string, length time.Duration) (err error) {
	s, err := stage.New(stage.Config{Bin: bin, Peers: 3})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(stage.Patience)) }()
	if err := s.Start(s.Peers); err != nil {
		return err
	}
	if err := settled(ctx, s); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for i := range loops {
		if _, err := s.Group.Start(fmt.Sprint("spin-", i), self, "-spin"); err != nil {
			return err
		}
	}
	first, err := newestTerm(ctx, s)
	if err != nil {
		return err
	}
	began, last := time.Now(), first
	for time.Since(began) < length {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		term, err := newestTerm(ctx, s)
		if err != nil {
			return err
		}
		if term != last {
			fmt.Printf("after %v: term %.0f, before %.0f\n", time.Since(began).Round(time.Second), term, last)
			last = term
		}
	}
	fmt.Printf("%v beside %d busy loops: %.0f elections\n", length, loops, last-first)
	if last != first {
		return errors.New("an election was held although no leader was lost")
	}
	return nil
}

// newestTerm asks every peer for its term.
func newestTerm(ctx context.Context, s *stage.Stage) (float64, error) {
	newest := 0.0
	for _, p := range s.Peers {
		term, err := termOf(ctx, p.Addr)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", p.Name, err)
		}
		newest = max(newest, term)
	}
	return newest, nil
}

func termOf(ctx context.Context, addr string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "berth_peer_term "); ok {
			return strconv.ParseFloat(text, 64)
		}
	}
	return 0, errors.New("its metrics name no term")
}
