package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"berth/internal/procs"
)

// lab is a set of machines on one network.
type lab struct {
	*procs.Group
	root     string // of the repository
	hub      string // namespace of the bridge
	machines map[string]*machine
	order    []*machine
}

// machine is a namespace with a name and an address, and files of its own.
type machine struct {
	lab      *lab
	name, ip string
	ns       string
	port     string // its end at the bridge
	dir      string
}

// operatorHost is the machine at which the operator sits; the peers are peer-1 at 192.0.2.1 and so on.
const operatorHost = "operator"

func addressOf(name string) (string, error) {
	if name == operatorHost {
		return "192.0.2.100", nil
	}
	var n int
	if _, err := fmt.Sscanf(name, "peer-%d", &n); err == nil && n > 0 && n < 100 {
		return fmt.Sprintf("192.0.2.%d", n), nil
	}
	return "", fmt.Errorf("%q is no machine of the lab; write peer-N or %s", name, operatorHost)
}

func newLab(ctx context.Context, bin, root string) (*lab, error) {
	g, err := procs.NewGroup("berth-e2e-")
	if err != nil {
		return nil, err
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	l := &lab{Group: g, root: root, hub: fmt.Sprintf("be%d-hub", os.Getpid()), machines: map[string]*machine{}}
	if err := l.prepare(ctx, bin); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *lab) prepare(ctx context.Context, bin string) error {
	if err := os.Chmod(l.Dir(), 0o755); err != nil { // the peers' user must get to what is below
		return err
	}
	if err := os.Mkdir(l.Path("bin"), 0o755); err != nil {
		return err
	}
	for _, program := range []string{"berth", "berthctl"} {
		from, err := filepath.Abs(filepath.Join(bin, program))
		if err != nil {
			return err
		}
		if err := sh(ctx, "install -m 0755 %s %s", from, l.Path("bin", program)); err != nil {
			return fmt.Errorf("%w; make build puts it there", err)
		}
	}
	if err := os.WriteFile(l.Path("bin", "systemctl"), []byte(systemctl), 0o755); err != nil {
		return err
	}
	return sh(ctx, "ip netns add %[1]s && ip -n %[1]s link add br0 type bridge && ip -n %[1]s link set br0 up", l.hub)
}

// machine returns the machine of that name; its first use sets it up.
func (l *lab) machine(ctx context.Context, name string) (*machine, error) {
	if m := l.machines[name]; m != nil {
		return m, nil
	}
	ip, err := addressOf(name)
	if err != nil {
		return nil, err
	}
	m := &machine{lab: l, name: name, ip: ip, ns: fmt.Sprintf("be%d-%s", os.Getpid(), name), port: "to-" + name, dir: l.Path(name)}
	l.machines[name] = m
	l.order = append(l.order, m)
	for _, dir := range []string{"etc", "etc.work", "var"} {
		if err := os.MkdirAll(filepath.Join(m.dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	var hosts strings.Builder
	fmt.Fprintln(&hosts, "127.0.0.1 localhost")
	for _, other := range []string{operatorHost, "peer-1", "peer-2", "peer-3", "peer-4", "peer-5", "peer-6"} {
		at, _ := addressOf(other) // all of them are machines of the lab
		fmt.Fprintln(&hosts, at, other)
	}
	if err := os.WriteFile(filepath.Join(m.dir, "etc", "hosts"), []byte(hosts.String()), 0o644); err != nil {
		return nil, err
	}
	return m, sh(ctx, `ip netns add %[1]s
ip -n %[1]s link set lo up
ip -n %[2]s link add %[3]s type veth peer name eth0 netns %[1]s
ip -n %[2]s link set %[3]s master br0 up
ip -n %[1]s addr add %[4]s/24 dev eth0
ip -n %[1]s link set eth0 up`, m.ns, l.hub, m.port, m.ip)
}

// inside wraps a script so that it runs on the machine: its network, its name, its /etc and /var/lib, and the programs in /usr/local/bin.
const inside = `
hostname %[1]s
mount -t overlay overlay -o lowerdir=/etc,upperdir=%[2]s/etc,workdir=%[2]s/etc.work /etc
mount --bind %[2]s/var /var/lib
mount --bind %[3]s /usr/local/bin
cd %[4]s
exec bash -euo pipefail %[2]s/script
`

// profile keeps what a script exported for the next one on the same machine.
const profile = `
[ -f %[1]s/profile ] && . %[1]s/profile
trap 'export -p | grep "^declare -x BERTH_" > %[1]s/profile || true' EXIT
`

// command is a script to be run on the machine.
func (m *machine) command(ctx context.Context, script string) (*exec.Cmd, error) {
	head := fmt.Sprintf(profile, m.dir)
	if err := os.WriteFile(filepath.Join(m.dir, "script"), []byte(head+script), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "ip", "netns", "exec", m.ns, "unshare", "--uts", "--mount", "bash", "-euc",
		fmt.Sprintf(inside, m.name, m.dir, m.lab.Path("bin"), m.lab.root))
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + m.dir, "LANG=C.UTF-8", "E2E_MACHINE=" + m.dir}
	return cmd, nil
}

// do runs a script on the machine and returns what it printed.
func (m *machine) do(ctx context.Context, script string) (string, error) {
	cmd, err := m.command(ctx, script)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = waitDelay
	err = cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // a service that it started holds the output
		err = nil
	}
	if err != nil {
		return out.String(), fmt.Errorf("on %s: %w\n%s\n%s", m.name, err, strings.TrimSpace(script), out.String())
	}
	return out.String(), nil
}

// logs are the last lines of each machine's services.
func (l *lab) logs(n int) string {
	var out strings.Builder
	for _, m := range l.order {
		files, _ := filepath.Glob(filepath.Join(m.dir, "*.log")) // the pattern is well formed
		for _, f := range files {
			data, _ := os.ReadFile(f)
			lines := strings.Split(strings.TrimSpace(string(data)), "\n")
			fmt.Fprintf(&out, "--- %s %s\n%s\n", m.name, filepath.Base(f), strings.Join(lines[max(0, len(lines)-n):], "\n"))
		}
	}
	return out.String()
}

// close ends every process of the lab and takes its network away.
func (l *lab) close() error {
	var errs []error
	for _, m := range l.order {
		m.thaw()
		errs = append(errs, m.endAll(), sh(context.Background(), "ip netns del %s", m.ns))
	}
	errs = append(errs, sh(context.Background(), "ip netns del %s", l.hub))
	for _, m := range l.order {
		errs = append(errs, m.unmount())
	}
	return errors.Join(append(errs, l.Close(0))...)
}

// sh runs a script on this machine itself.
func sh(ctx context.Context, script string, args ...any) error {
	out, err := exec.CommandContext(ctx, "bash", "-euc", fmt.Sprintf(script, args...)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", fmt.Sprintf(script, args...), err, strings.TrimSpace(string(out)))
	}
	return nil
}
