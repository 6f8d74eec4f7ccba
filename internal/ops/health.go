package ops

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// checkTimeout bounds all checks of one request together. The usual prober gives up after one second and would then not
// learn which check it was.
const checkTimeout = 900 * time.Millisecond

// health answers 200 when every check passes, else 503. The body of a failure names the checks that failed and why; with
// ?verbose it lists all, in the order in which they were added.
func (o *Ops) health(list *[]check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		checks := slices.Clone(*list)
		o.mu.Unlock()

		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		verbose := r.URL.Query().Has("verbose")
		status, body := http.StatusOK, new(strings.Builder)
		for _, c := range checks {
			err := c.fn(ctx)
			if err != nil {
				status = http.StatusServiceUnavailable
				fmt.Fprintf(body, "[-] %s: %s\n", c.name, oneLine(err))
			} else if verbose {
				fmt.Fprintf(body, "[+] %s ok\n", c.name)
			}
		}
		if status == http.StatusOK {
			fmt.Fprintln(body, "ok")
		}
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// oneLine keeps a check on its line, so that the list can be read by line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
