// Package web owns the page that every peer serves: the whole fleet on one screen, live, drawn by the browser from the same status document as
// berthctl status. It is one file without a build step, loads nothing from anywhere else, and must never know how the document is made.
package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"fmt"
	"net/http"
)

//go:embed page.html
var page []byte

// Handler serves the page. Its policy lets the browser run the page's own script, and speak to this peer alone.
func Handler() http.Handler {
	policy := fmt.Sprintf("default-src 'none'; connect-src 'self'; style-src '%s'; script-src '%s'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
		digest("<style>", "</style>"), digest("<script>", "</script>"))
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache") // the page of another release may read other fields
		_, _ = w.Write(page)               // the browser may be gone; there is nobody to tell
	})
}

// digest identifies an inline part of the page to the policy (CSP level 2, hash source).
func digest(open, end string) string {
	_, rest, _ := bytes.Cut(page, []byte(open))
	part, _, _ := bytes.Cut(rest, []byte(end))
	sum := sha256.Sum256(part)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
