package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/heap"
	"berth/internal/listen"
	"berth/router"
)

// role runs one of the processes that this program is also: the upstream and the proxies that are written in Go.
func role(name, addr, to, dir, profile string) error {
	switch name {
	case "upstream":
		return serve(addr, http.HandlerFunc(upstream))
	case "relay":
		return relay(addr, to)
	case "reverse":
		target := &url.URL{Scheme: "http", Host: to}
		p := &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Transport: listen.Transport(listen.System), FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
		return serve(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex() // or it now and then loses an answer that is faster than the end of its body
			p.ServeHTTP(w, r)
		}))
	case "berth":
		return berth(addr, to, dir, profile)
	}
	return fmt.Errorf("no role %q", name)
}

// relay copies bytes both ways: what any proxy in Go costs at least.
func relay(addr, to string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		in, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer in.Close()
			out, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer out.Close()
			go func() { pass(out, in); _ = out.(*net.TCPConn).CloseWrite() }()
			pass(in, out)
		}()
	}
}

func pass(to, from net.Conn) {
	buf := make([]byte, 4<<10)
	_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buf)
}

// static is a control plane that never changes.
type static struct{ table wire.Table }

func (s static) Table(ctx context.Context, after fleet.Index, _ time.Duration) (wire.Table, error) {
	if !after.IsZero() {
		<-ctx.Done()
	}
	return s.table, nil
}

func (static) Report(_ context.Context, r wire.Report) (wire.ReportAnswer, error) {
	return wire.ReportAnswer{Term: 1, Ack: r.Seq}, nil
}

// replicas is how many the router chooses among. All are the one upstream.
const replicas = 8

func berth(addr, to, dir, profile string) error {
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	row := wire.TableModel{Name: "m", Generation: 1, Max: replicas, Serve: fleet.ServeSpec{Policy: "ttft", Queue: fleet.QueueSpec{Limit: 200, Timeout: fleet.Duration(time.Minute)}}}
	for i := range replicas {
		row.Endpoints = append(row.Endpoints, wire.Endpoint{Replica: fmt.Sprint("r", i), Node: "n", Generation: 1, Address: to, Key: "k", State: fleet.Ready})
	}
	plane := static{wire.Table{Version: wire.Version, Cluster: "c", Index: fleet.Index{Epoch: 1, N: 1}, Models: []wire.TableModel{row}}}
	r, err := router.New(router.Config{Name: "r", DataDir: filepath.Join(dir, "berth"), Bind: addr, Ops: "127.0.0.1:0", Source: plane, Sink: plane})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	go func() { _ = heap.Spare(ctx, router.SpareHeap) }() // as cmd/berth does; it ends with the process
	return r.Run(ctx)
}

// proxy is one that is measured; addr is where it serves.
type proxy struct {
	name, addr string
	cmd        *exec.Cmd // nil: no process, the upstream itself
	children   bool      // its work is done by a child
	most       int       // idle streams that its configuration allows; 0: any number
}

const nginxConf = `daemon off; worker_processes 1; pid %[1]s/nginx.pid; error_log /dev/null; worker_rlimit_nofile 20000;
events { worker_connections 19000; }
http { access_log off; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
 keepalive_requests 1000000; upstream u { server %[3]s; keepalive 1024; keepalive_requests 1000000; }
 server { listen %[2]s; location / { proxy_pass http://u; proxy_buffering off; proxy_request_buffering off; proxy_http_version 1.1; proxy_set_header Connection ""; } } }
`

const haproxyConf = `global
  nbthread 1
  maxconn 8000
defaults
  mode http
  option http-no-delay
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  http-reuse always
frontend f
  bind %[2]s
  default_backend b
backend b
  server s %[3]s
`

// peers are the proxies that are there, and what is not.
func peers(dir, to, profile string, free func() string) (list []proxy, missing []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	list = append(list, proxy{name: "direct", addr: to})
	for _, name := range []string{"relay", "reverse", "berth"} {
		addr := free()
		list = append(list, proxy{name: name, addr: addr, cmd: exec.Command(self, "-role", name, "-addr", addr, "-to", to, "-dir", dir, "-profile", profile)})
	}
	for name, conf := range map[string]string{"nginx": nginxConf, "haproxy": haproxyConf} {
		path, err := exec.LookPath(name)
		if err != nil {
			missing = append(missing, name)
			continue
		}
		addr, file := free(), filepath.Join(dir, name+".conf")
		if err := os.WriteFile(file, fmt.Appendf(nil, conf, dir, addr, to), 0o600); err != nil {
			return nil, nil, err
		}
		cmd := exec.Command(path, "-c", file, "-p", dir)
		if name == "haproxy" {
			cmd = exec.Command(path, "-f", file)
		}
		list = append(list, proxy{name: name, addr: addr, cmd: cmd, children: name == "nginx", most: map[string]int{"haproxy": 7500}[name]})
	}
	return list, missing, nil
}

// selfCommand is the upstream as a process.
func selfCommand(to string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(self, "-role", "upstream", "-addr", to), nil
}

func (p *proxy) start() error {
	if p.cmd == nil {
		return nil
	}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return err
	}
	for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", p.addr); err == nil {
			return c.Close()
		}
	}
	return errors.New(p.name + " does not listen")
}

// restart begins the process anew.
func (p *proxy) restart() error {
	p.stop()
	old := p.cmd
	p.cmd = exec.Command(old.Path, old.Args[1:]...)
	return p.start()
}

func (p *proxy) stop() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Signal(os.Interrupt) // nginx ends its workers
	done := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-done
	}
}
