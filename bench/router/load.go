package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// client is one connection that sends one request after another.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	text string
}

func dial(addr, body string) (*client, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: router\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return &client{conn: c, in: bufio.NewReaderSize(c, 4<<10), text: text}, nil
}

// ask sends the request and reads the answer: whole, or only its begin.
func (c *client) ask(whole bool) error {
	if _, err := io.WriteString(c.conn, c.text); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	if !whole {
		_, err := resp.Body.Read(make([]byte, 16))
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// load keeps so many clients busy for a time. It returns how many requests were answered, and how long each took.
func load(addr, body string, clients int, d time.Duration) (took []time.Duration, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	for range clients {
		wg.Go(func() {
			var mine []time.Duration
			c, bad := dial(addr, body)
			if bad == nil {
				defer c.conn.Close()
			}
			for bad == nil && time.Since(begin) < d {
				start := time.Now()
				bad = c.ask(true)
				mine = append(mine, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			if bad != nil {
				err = bad
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took, err
}

// hold opens idle streams and returns them.
func hold(addr string, n int) ([]*client, error) {
	var all []*client
	for range n {
		c, err := dial(addr, body(`"stream":true,"idle":true,`))
		if err != nil {
			return all, err
		}
		all = append(all, c)
		if err := c.ask(false); err != nil {
			return all, err
		}
	}
	return all, nil
}

// pids are the process and its children.
func (p *proxy) pids() []int {
	if p.cmd == nil {
		return nil
	}
	pids := []int{p.cmd.Process.Pid}
	if p.children {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid)) // a bad pattern is a bug, and shows
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for _, f := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(f); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// cpu is what the processes have used so far.
func (p *proxy) cpu() time.Duration {
	var ticks int64
	for _, pid := range p.pids() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, i := range []int{11, 12} { // utime and stime, counted from the state
			if i < len(fields) {
				n, _ := strconv.ParseInt(fields[i], 10, 64)
				ticks += n
			}
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// resident is the memory of the processes in bytes.
func (p *proxy) resident() int {
	pages := 0
	for _, pid := range p.pids() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if f := strings.Fields(string(text)); len(f) > 1 {
			n, _ := strconv.Atoi(f[1])
			pages += n
		}
	}
	return pages * os.Getpagesize()
}
