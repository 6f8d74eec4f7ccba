// Command router measures what the router costs beside plain proxies: nginx and haproxy where they are installed, Go's
// httputil.ReverseProxy, and a relay of bytes, which is the floor. Everything is a process of its own on loopback: one
// upstream, one client that keeps connections open, and the proxies, which are measured in turn, round after round in one
// run. Berth runs as it does in a fleet: eight replicas, the ttft policy with its prefix index, counts of use, metrics.
//
// CPU is what the proxy's process has used (utime and stime of /proc/PID/stat) for each request, stream or chunk; what is
// reported is the median over the rounds, and of the ratios within a round, because machines drift and ratios do less.
package main
