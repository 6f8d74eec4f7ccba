package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	name := flag.String("role", "", "internal: run as the upstream or as a proxy")
	addr := flag.String("addr", "", "internal")
	to := flag.String("to", "", "internal")
	dir := flag.String("dir", "", "internal")
	out := flag.String("json", "", "also write everything to this file")
	rounds := flag.Int("rounds", 5, "rounds, in each of which every proxy is measured")
	d := flag.Duration("d", time.Second, "time of each measurement")
	idle := flag.Int("idle", 2000, "idle streams")
	only := flag.String("only", "", "measure only these, by name, with commas between")
	profile := flag.String("profile", "", "write the CPU profile of berth to this file")
	flag.Parse()
	var err error
	if *name != "" {
		err = role(*name, *addr, *to, *dir, *profile)
	} else {
		err = bench(options{*rounds, *d, *idle, *out, *only, *profile})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "router:", err)
		os.Exit(1)
	}
}

// free is an address that nothing listens on.
func free() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err) // no machine to measure on
	}
	defer ln.Close()
	return ln.Addr().String()
}

type options struct {
	rounds             int
	d                  time.Duration
	idle               int
	out, only, profile string
}

func bench(o options) (err error) {
	dir, err := os.MkdirTemp("", "berth-bench-router-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	to := free()
	engine := proxy{name: "upstream", addr: to}
	list, missing, err := peers(dir, to, o.profile, free)
	if err != nil {
		return err
	}
	if o.only != "" {
		list = slices.DeleteFunc(list, func(p proxy) bool { return p.name != "direct" && !slices.Contains(strings.Split(o.only, ","), p.name) })
	}
	if engine.cmd, err = selfCommand(to); err != nil {
		return err
	}
	if err := engine.start(); err != nil {
		return err
	}
	defer engine.stop()
	for i := range list {
		defer list[i].stop()
		if err := list[i].start(); err != nil {
			return err
		}
	}
	for _, m := range missing {
		fmt.Printf("skipped: needs %s: make deps does not install it; apt-get install nginx-light haproxy\n", m)
	}
	r := newReport(list)
	for range o.rounds {
		for i := range list {
			if err := r.measure(&list[i], o.d); err != nil {
				return fmt.Errorf("%s: %w", list[i].name, err)
			}
		}
	}
	for i := range list {
		if err := r.long(&list[i], 3*o.d); err != nil {
			return fmt.Errorf("%s: %w", list[i].name, err)
		}
	}
	for i := range list {
		if err := r.hold(&list[i], o.idle); err != nil {
			return fmt.Errorf("%s: %w", list[i].name, err)
		}
	}
	r.print(os.Stdout)
	if o.out == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", " ")
	return errors.Join(err, os.WriteFile(o.out, append(text, '\n'), 0o644))
}

// measures are one proxy's, a value a round.
type measures struct {
	Request []float64 `json:"cpu_us_per_request"`
	Rate    []float64 `json:"requests_per_second"`
	Alone   []float64 `json:"p50_us_one_connection"`
	Chunk   []float64 `json:"cpu_us_per_chunk"`
	Stream  float64   `json:"bytes_per_idle_stream"`
	Held    int       `json:"idle_streams"`
	Long    float64   `json:"cores_at_ten_long_prompts_a_second"`
}

type report struct {
	Order []string             `json:"order"`
	By    map[string]*measures `json:"proxies"`
}

func newReport(list []proxy) *report {
	r := &report{By: map[string]*measures{}}
	for _, p := range list {
		r.Order = append(r.Order, p.name)
		r.By[p.name] = &measures{}
	}
	return r
}

const connections = 32

func (r *report) measure(p *proxy, d time.Duration) error {
	m := r.By[p.name]
	us := func(d time.Duration, n int) float64 { return float64(d.Microseconds()) / float64(max(n, 1)) }
	before := p.cpu()
	took, err := load(p.addr, body(""), connections, d)
	if err != nil {
		return err
	}
	m.Request = append(m.Request, us(p.cpu()-before, len(took)))
	m.Rate = append(m.Rate, float64(len(took))/d.Seconds())
	if took, err = load(p.addr, body(""), 1, d/2); err != nil {
		return err
	}
	m.Alone = append(m.Alone, us(took[len(took)/2], 1))
	before = p.cpu()
	if took, err = load(p.addr, body(`"stream":true,`), connections, d); err != nil {
		return err
	}
	m.Chunk = append(m.Chunk, us(p.cpu()-before, chunks*len(took)))
	return nil
}

// hold measures memory with idle streams, of a process that has just started, and that they are all there at the end.
func (r *report) hold(p *proxy, n int) error {
	if p.cmd == nil {
		return nil
	}
	if err := p.restart(); err != nil {
		return err
	}
	if p.most > 0 {
		n = min(n, p.most)
	}
	before := p.resident()
	streams, err := hold(p.addr, n)
	defer func() {
		for _, s := range streams {
			_ = s.conn.Close()
		}
	}()
	if err != nil {
		return fmt.Errorf("idle stream %d of %d: %w", len(streams), n, err)
	}
	r.By[p.name].Stream, r.By[p.name].Held = float64(p.resident()-before)/float64(n), n
	for i, s := range streams {
		_, _ = s.in.Discard(s.in.Buffered()) // what is left of the one event
		_ = s.conn.SetReadDeadline(time.Now())
		if _, err := s.in.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("idle stream %d of %d has ended: %w", i, n, err)
		}
	}
	return nil
}

// long measures prompts of 100,000 tokens, ten a second: half of each is what all have.
func (r *report) long(p *proxy, d time.Duration) error {
	const perSecond = 10
	n := 0
	before := p.cpu()
	begin := time.Now()
	for ; time.Since(begin) < d; n++ {
		c, err := dial(p.addr, longBody(n))
		if err != nil {
			return err
		}
		err = c.ask(true)
		_ = c.conn.Close()
		if err != nil {
			return err
		}
		time.Sleep(time.Until(begin.Add(time.Duration(n+1) * time.Second / perSecond)))
	}
	r.By[p.name].Long = (p.cpu() - before).Seconds() / time.Since(begin).Seconds()
	return nil
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN() // no round was asked for
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// ratio is the median over the rounds of one's value over another's, and its spread.
func ratio(a, b []float64) (mid, low, high float64) {
	var all []float64
	for i := range a {
		all = append(all, a[i]/b[i])
	}
	if len(all) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	return median(all), slices.Min(all), slices.Max(all)
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%-10s %12s %10s %14s %12s %12s %21s\n", "", "CPU/request", "req/s", "p50 alone", "CPU/chunk", "long prompts", "idle stream")
	for _, name := range r.Order {
		m := r.By[name]
		fmt.Fprintf(w, "%-10s %9.1f us %10.0f %11.0f us %9.2f us %6.2f cores %11.1f KB (%d)\n", name, median(m.Request), median(m.Rate), median(m.Alone), median(m.Chunk), m.Long, m.Stream/1024, m.Held)
	}
	own := r.By["berth"]
	for _, name := range []string{"nginx", "haproxy", "reverse", "relay"} {
		m := r.By[name]
		if m == nil {
			continue
		}
		q, ql, qh := ratio(own.Request, m.Request)
		c, cl, ch := ratio(own.Chunk, m.Chunk)
		fmt.Fprintf(w, "berth over %s: CPU/request %.2f (%.2f to %.2f), CPU/chunk %.2f (%.2f to %.2f), added p50 %.2f, idle stream %.2f\n",
			name, q, ql, qh, c, cl, ch, added(own, r)/added(m, r), own.Stream/m.Stream)
	}
}

// added is the median at one connection beyond what the upstream alone takes.
func added(m *measures, r *report) float64 { return median(m.Alone) - median(r.By["direct"].Alone) }
